#ifndef ISOBIT_RUNTIME_TEXT_SPECIAL_TOKENS_H_
#define ISOBIT_RUNTIME_TEXT_SPECIAL_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit {

// Finds tokens that are taken whole from text before anything else looks at it. Of several matches
// the one that begins first is taken, of those the longest, as Hugging Face does.
//
// Thread-safe once filled.
class SpecialTokens {
 public:
  // Longer pieces are refused, so that a search costs at most this much a byte of text.
  static constexpr size_t kMaxBytes = 1024;

  SpecialTokens() : nodes_(1) {}

  // REQUIRES: 1 to kMaxBytes bytes, none of them added before.
  void Add(std::string_view piece, int32_t id);

  struct Match {
    size_t begin, end;  // of the piece in the text
    int32_t id;         // -1: none; then begin = end = text.size()
  };
  // The first match at or behind `from`.
  Match Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t id = -1;                                     // of the piece that ends here
    std::vector<std::pair<uint8_t, uint32_t>> children;  // next byte, node; unordered
  };
  const uint32_t* Child(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_;            // a trie; 0 is the root
  std::array<bool, 256> begins_ = {};  // whether any piece begins with this byte
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_SPECIAL_TOKENS_H_
