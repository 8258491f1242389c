#ifndef ISOBIT_RUNTIME_TEXT_TEXT_STREAM_H_
#define ISOBIT_RUNTIME_TEXT_TEXT_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/text/tokenizer.h"

namespace isobit {

// Text of a growing list of token ids, piece by piece. A UTF-8 character whose bytes are spread
// over several tokens is held back until it is whole or known to be broken; the concatenation of
// everything returned equals tokenizer.Decode(all ids, skip_special).
//
// Not thread-safe; one stream a completion. `tokenizer` must outlive it.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // Text that became certain through this id (may be empty). Always valid UTF-8.
  std::string Push(int32_t id);

  // What is still held back, as U+FFFD, at the end of the text. The stream is empty afterwards.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;  // at most 3 bytes: the valid beginning of a character
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TEXT_STREAM_H_
