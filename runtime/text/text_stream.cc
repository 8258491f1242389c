#include "runtime/text/text_stream.h"

#include "runtime/text/utf8.h"

namespace isobit {

std::string TextStream::Push(int32_t id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return "";
  held_ += tokenizer_->Piece(id);
  std::string text;
  TakeWholeUtf8(&held_, &text);
  return text;
}

std::string TextStream::Finish() {
  if (held_.empty()) return "";
  held_.clear();
  return std::string(kReplacement);
}

}  // namespace isobit
