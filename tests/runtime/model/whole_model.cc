#include "tests/runtime/model/whole_model.h"

#include <vector>

#include "tests/runtime/model/family_files.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr char kEndText[] = "<|im_end|>";
constexpr char kTemplate[] =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}";

std::vector<std::string> Tokens() {
  ToyTokenizer toy;
  toy.tokens.resize(kWholeModelEnd);
  toy.tokens.push_back(kEndText);
  return toy.tokens;
}

json TokenizerJson(const std::vector<std::string>& tokens) {
  json vocab;
  for (int32_t id = 0; id < kWholeModelEnd; ++id) vocab[tokens[static_cast<size_t>(id)]] = id;
  return {
      {"added_tokens",
       {{{"id", kWholeModelEnd}, {"content", kEndText}, {"special", true}, {"normalized", false}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Digits"}, {"individual_digits", true}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
}

// For an embedding of `vocab` rows.
void AddTokenizer(int64_t vocab, GgufBuilder& builder) {
  std::vector<std::string> tokens = Tokens();
  std::vector<int32_t> kinds(tokens.size(), static_cast<int32_t>(TokenKind::kNormal));
  kinds.back() = static_cast<int32_t>(TokenKind::kControl);
  for (auto id = static_cast<int64_t>(tokens.size()); id < vocab; ++id) {
    tokens.push_back("[PAD" + std::to_string(id) + "]");
    kinds.push_back(static_cast<int32_t>(TokenKind::kUnused));
  }
  builder.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", "smollm");
  builder.Texts("tokenizer.ggml.tokens", tokens).Ints("tokenizer.ggml.token_type", kinds);
  builder.Texts("tokenizer.ggml.merges", {}).U32("tokenizer.ggml.eos_token_id", kWholeModelEnd);
  builder.U32("tokenizer.ggml.eot_token_id", 5);
  builder.Text("tokenizer.chat_template", kTemplate);
}

}  // namespace

std::string WriteWholeModel(const std::string& name, const std::string& folder) {
  json entry = FamilyGoldens()[name];
  entry["config"]["eos_token_id"] = kWholeModelEnd;
  WriteFolder(entry, folder);
  WriteFile(folder + "/tokenizer.json", TokenizerJson(Tokens()).dump());
  WriteFile(folder + "/tokenizer_config.json", json{{"eos_token", kEndText}}.dump());
  WriteFile(folder + "/generation_config.json",
            R"({"do_sample":true,"temperature":0.6,"eos_token_id":[128,5]})");
  WriteFile(folder + "/chat_template.jinja", kTemplate);

  const int64_t vocab = entry["config"]["vocab_size"];
  return WriteGguf(entry, folder + "/model", 1,
                   [vocab](GgufBuilder& builder) { AddTokenizer(vocab, builder); });
}

void WriteVocabulary(const std::string& path) {
  GgufBuilder builder;
  builder.Text("general.architecture", "qwen2");
  AddTokenizer(kWholeModelEnd + 1, builder);
  WriteFile(path, builder.Build());
}

}  // namespace isobit
