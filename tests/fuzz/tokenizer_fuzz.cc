// Encoding and decoding of any text by toy tokenizers with each pre-tokenizer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/text/nfc.h"
#include "runtime/text/text_stream.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

constexpr const char* kNames[] = {"default", "gpt-2",       "llama-bpe",    "qwen2",
                                  "smollm",  "gpt-4o",      "tekken",       "falcon",
                                  "qwen35",  "deepseek-v3", "deepseek-llm", "deepseek-coder"};

// 300 merges of random bytes and earlier merges, most of them of letters and blanks.
std::unique_ptr<Tokenizer> MakeTokenizer(const char* pre_tokenizer) {
  std::mt19937 rng(1);
  ToyTokenizer toy;
  std::vector<std::string> pieces;
  for (const char c : std::string("aaabesst  \n\n'19\xC3\xA9\xCC\x81\xE4\xB8\xAD"))
    pieces.emplace_back(1, c);
  for (int tries = 0; tries < 300; ++tries) {
    const std::string left = pieces[rng() % pieces.size()], right = pieces[rng() % pieces.size()];
    const std::string text = InByteAlphabet(left + right);
    bool known = false;
    for (const std::string& token : toy.tokens) known = known || token == text;
    if (known || left.size() + right.size() > 16) continue;
    toy.Merge(left, right);
    pieces.push_back(left + right);
  }
  toy.Token("<|end|>", TokenKind::kControl);
  toy.Token("<|", TokenKind::kUserDefined);
  toy.Token("<|e", TokenKind::kUserDefined);
  toy.tables.pre_tokenizer = pre_tokenizer;
  return toy.Build().value();
}

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckText(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text);
  const bool valid = ValidUtf8Prefix(text) == text.size();
  Require(ids.ok() == valid);
  if (!valid) return;
  EncodeOptions plain;
  plain.parse_special = false;
  const auto plain_ids = tokenizer.Encode(text, plain);
  Require(plain_ids.ok());
  for (const auto* found : {&*plain_ids, &*ids}) {
    const std::string decoded = tokenizer.Decode(*found, false);
    // Normalized are the parts between added tokens, which is not the whole normalized.
    if (tokenizer.pre_tokenizer() == "qwen2") {
      Require(ToNfc(decoded).value() == ToNfc(text).value());
    } else {
      Require(decoded == text);
    }
  }
}

void CheckIds(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const bool skip : {true, false}) {
    TextStream stream(tokenizer, skip);
    std::string text;
    for (const int32_t id : ids) text += stream.Push(id);
    text += stream.Finish();
    Require(text == tokenizer.Decode(ids, skip));
    Require(ValidUtf8Prefix(text) == text.size());
  }
}

}  // namespace
}  // namespace isobit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isobit;
  static const auto* const kTokenizers = [] {
    auto* made = new std::vector<std::unique_ptr<Tokenizer>>;
    for (const char* name : kNames) made->push_back(MakeTokenizer(name));
    return made;
  }();
  if (size == 0) return 0;
  const Tokenizer& tokenizer = *(*kTokenizers)[data[0] % kTokenizers->size()];
  CheckText(tokenizer, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  std::vector<int32_t> ids;
  for (size_t i = 1; i < size; ++i) {
    // Bytes as they are, and now and then an id above them.
    ids.push_back(data[i] == 0xFE && i + 1 < size ? 256 + data[i + 1] : data[i]);
  }
  CheckIds(tokenizer, ids);
  return 0;
}
