// Any bytes as tokenizer.json: an error that says so, or a tokenizer that takes texts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using isobit::Tokenizer;
  isobit::HuggingFaceTokenizerFiles files;
  files.tokenizer_json = std::string_view(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::FromHuggingFace(files);
  if (!tokenizer.ok()) {
    if (tokenizer.status().message().find("tokenizer.json: ") == absl::string_view::npos) {
      std::abort();
    }
    return 0;
  }
  for (const char* text :
       {"", " a  b'S 12\n\n<s>cat", "\xC3\xA9\xE2\x96\x81 \xF0\x9F\x99\x82</s>"}) {
    const auto ids = (*tokenizer)->Encode(text);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) {
      if (id < 0 || id >= (*tokenizer)->vocab_size()) std::abort();
    }
    const std::string decoded = (*tokenizer)->Decode(*ids, false, true);
    if (isobit::ValidUtf8Prefix(decoded) != decoded.size()) std::abort();
  }
  return 0;
}
