#ifndef ISOBIT_RUNTIME_TEXT_ADDED_TOKENS_H_
#define ISOBIT_RUNTIME_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit {

// A token that is taken whole from text before anything else looks at it, with the properties that
// Hugging Face's tokenizers give it.
struct AddedToken {
  std::string_view content;
  int32_t id = 0;
  bool special = false;      // found only if special tokens are to be; left out of decoded text
  bool lstrip = false;       // takes the white space in front of it too
  bool rstrip = false;       // takes the white space behind it too
  bool single_word = false;  // only where no word character touches it
  bool normalized = false;   // looked for in normalized text, as it reads when normalized itself
};

// Finds added tokens. Of several matches the one that begins first is taken, of those the longest.
//
// Thread-safe once filled.
class AddedTokens {
 public:
  // Longer pieces are refused, so that a search costs at most this much a byte of text.
  static constexpr size_t kMaxBytes = 1024;

  AddedTokens() : nodes_(1) {}

  // `content` is what to look for (the token's content, perhaps normalized): 1 to kMaxBytes bytes.
  // Of two tokens with the same content the first is kept.
  void Add(std::string_view content, const AddedToken& token);

  bool empty() const { return tokens_.empty(); }

  struct Segment {
    size_t begin, end;  // in the text
    int32_t id;         // -1: text between tokens
  };
  // The text as segments, none empty. `with_special`: whether special tokens are found too.
  std::vector<Segment> Split(std::string_view text, bool with_special) const;

  // The id of the token with exactly this content, or -1.
  int32_t Find(std::string_view content) const;

 private:
  struct Node {
    int32_t token = -1;                                  // of the piece that ends here
    std::vector<std::pair<uint8_t, uint32_t>> children;  // next byte, node; unordered
  };
  struct Match {
    size_t begin, end;
    int32_t token;  // -1: none
  };
  struct Token {
    int32_t id;
    bool special, lstrip, rstrip, single_word;
  };
  const uint32_t* Child(const Node& node, uint8_t byte) const;
  // The first match at or behind `from`.
  Match FindFrom(std::string_view text, size_t from, bool with_special) const;

  std::vector<Node> nodes_;            // a trie; 0 is the root
  std::array<bool, 256> begins_ = {};  // whether any piece begins with this byte
  std::vector<Token> tokens_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_ADDED_TOKENS_H_
