// Tokenizers from tokenizer.json and from SentencePiece tables against Hugging Face's and Google's
// libraries, and what is refused.
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/model/gguf.h"
#include "runtime/text/tokenizer.h"
#include "tests/runtime/model/gguf_builder.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const json& Golden() {
  static const auto* const kGolden = [] {
    std::ifstream in(ISOBIT_SOURCE_DIR "/golden/text/tokenizers.json");
    return new json(json::parse(in));
  }();
  return *kGolden;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(const std::string& file,
                                                    const std::string& config = "") {
  HuggingFaceTokenizerFiles files;
  files.tokenizer_json = file;
  files.tokenizer_config_json = config;
  return Tokenizer::FromHuggingFace(files);
}

void ExpectRows(const Tokenizer& tokenizer, const json& row) {
  int wrong = 0;
  for (const auto& expected : row.at("rows")) {
    const std::string text = expected[0].get<std::string>();
    const auto ids = tokenizer.Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    const auto wanted = expected[1].get<std::vector<int32_t>>();
    if (*ids != wanted && ++wrong <= 3) {
      ADD_FAILURE() << row.at("name") << " " << json(text).dump(-1, ' ', true) << "\n   got "
                    << json(*ids).dump() << "\nwanted " << json(wanted).dump();
    }
    if (*ids == wanted) {
      EXPECT_EQ(tokenizer.Decode(*ids, true, /*begins_text=*/true), expected[2].get<std::string>())
          << row.at("name") << " " << json(text).dump(-1, ' ', true);
    }
  }
  EXPECT_EQ(wrong, 0) << row.at("name");
}

// golden/text/make_tokenizers.py
TEST(TokenizerJsonTest, SameIdsAndTextAsHuggingFace) {
  const json& rows = Golden().at("tokenizers");
  ASSERT_EQ(rows.size(), 15u);
  for (const auto& row : rows) {
    const auto tokenizer = FromJson(row.at("file").get<std::string>());
    ASSERT_TRUE(tokenizer.ok()) << row.at("name") << " " << tokenizer.status();
    ExpectRows(**tokenizer, row);
  }
}

TEST(TokenizerJsonTest, SameIdsAndTextAsSentencePiece) {
  const json& rows = Golden().at("sentencepiece");
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) {
    GgufBuilder b;
    b.Text("tokenizer.ggml.model", "llama").Text("tokenizer.ggml.pre", "default");
    b.Texts("tokenizer.ggml.tokens", row.at("pieces").get<std::vector<std::string>>());
    b.Ints("tokenizer.ggml.token_type", row.at("types").get<std::vector<int32_t>>());
    b.Floats("tokenizer.ggml.scores", row.at("scores").get<std::vector<float>>());
    b.Bool("tokenizer.ggml.add_space_prefix", row.at("add_prefix").get<bool>());
    b.U32("tokenizer.ggml.unknown_token_id", 0).Bool("tokenizer.ggml.add_bos_token", false);
    const std::string bytes = b.Build();
    const auto file = GgufFile::FromMemory(AsBytes(bytes), "toy.gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    const auto tokenizer = Tokenizer::FromGguf(**file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    ExpectRows(**tokenizer, row);
  }
}

// The same byte-level tokenizer from both kinds of files is the same for receipts.
TEST(TokenizerJsonTest, FingerprintEqualsThatOfGguf) {
  ToyTokenizer toy;
  toy.Merge("a", "b");
  const int32_t end = toy.Token("<|im_end|>", TokenKind::kControl);
  toy.Token("[PAD258]", TokenKind::kUnused);
  toy.tables.pre_tokenizer = "smollm";
  toy.tables.eos_id = end;
  const auto from_tables = toy.Build();
  ASSERT_TRUE(from_tables.ok()) << from_tables.status();
  json file = {
      {"added_tokens",
       {{{"id", end}, {"content", "<|im_end|>"}, {"special", true}, {"normalized", false}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Digits"}, {"individual_digits", true}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}}},
      {"model", {{"type", "BPE"}, {"merges", json::array({json::array({"a", "b"})})}}}};
  for (int32_t id = 0; id < 257; ++id)
    file["model"]["vocab"][toy.tokens[static_cast<size_t>(id)]] = id;
  const std::string text = file.dump();
  HuggingFaceTokenizerFiles files;
  files.tokenizer_json = text;
  files.tokenizer_config_json = R"({"eos_token": {"content": "<|im_end|>"}})";
  files.vocab_size = 259;
  const auto from_json = Tokenizer::FromHuggingFace(files);
  ASSERT_TRUE(from_json.ok()) << from_json.status();
  EXPECT_EQ((*from_json)->Fingerprint(), (*from_tables)->Fingerprint());
  EXPECT_EQ((*from_json)->pre_tokenizer(), "smollm");
  EXPECT_EQ((*from_json)->vocab_size(), 259);
}

// A file to change: characters with byte fallback.
json ToyFile() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false},
                     {"id": 1, "content": "</s>", "special": true, "normalized": false}],
    "normalizer": null, "pre_tokenizer": null, "decoder": null,
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
    "model": {"type": "BPE", "unk_token": null, "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4},
              "merges": ["a b"]}})");
}

TEST(TokenizerJsonTest, ConfigNamesSpecialTokensAndAffixes) {
  const std::string file = ToyFile().dump();
  const auto plain = FromJson(file);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT((*plain)->Encode("aab").value(), ElementsAre(0, 2, 4));
  EXPECT_FALSE((*plain)->adds_bos()) << "nothing says which token is BOS";
  const auto named = FromJson(file, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
      "chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]})");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_TRUE((*named)->adds_bos());
  EXPECT_EQ((*named)->bos_id(), 0);
  EXPECT_THAT((*named)->stop_ids(), ElementsAre(1));
  EXPECT_EQ((*named)->chat_template(), "y");
  const auto without = FromJson(file, R"({"bos_token": "<s>", "eos_token": "</s>",
      "tokenizer_class": "LlamaTokenizer", "add_bos_token": false, "add_eos_token": true})");
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT((*without)->Encode("ab").value(), ElementsAre(4, 1));
  HuggingFaceTokenizerFiles files;
  files.tokenizer_json = file;
  files.tokenizer_config_json = R"({"chat_template": "old"})";
  files.chat_template_jinja = "new";
  files.stop_ids = {4};
  const auto more = Tokenizer::FromHuggingFace(files);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ((*more)->chat_template(), "new");
  EXPECT_THAT((*more)->stop_ids(), ElementsAre(4));
}

TEST(TokenizerJsonTest, RefusesWhatIsBrokenOrUnknownByName) {
  using Change = void (*)(json&);
  struct Case {
    Change change;
    absl::StatusCode code;
    const char* part;
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto kUnknown = absl::StatusCode::kUnimplemented;
  const Case kCases[] = {
      {[](json& f) { f["model"].erase("merges"); }, kInvalid, "'model.merges' is missing"},
      {[](json& f) { f["model"].erase("vocab"); }, kInvalid, "'model.vocab' is missing"},
      {[](json& f) { f.erase("model"); }, kInvalid, "'model' is missing"},
      {[](json& f) { f["model"]["type"] = "Unigram"; }, kUnknown,
       "model 'Unigram' is not supported"},
      {[](json& f) { f["model"]["type"] = "WordPiece"; }, kUnknown, "'WordPiece'"},
      {[](json& f) { f["model"]["vocab"]["c"] = 3; }, kInvalid, "id 3 belongs to 'b' and to 'c'"},
      {[](json& f) { f["model"]["vocab"]["c"] = -1; }, kInvalid, "'c' has id -1, expected 0 to"},
      {[](json& f) { f["model"]["vocab"]["c"] = 1 << 30; }, kInvalid, "'c' has id 1073741824"},
      {[](json& f) { f["model"]["vocab"]["c"] = 18446744073709551615u; }, kInvalid, "'c' has id"},
      {[](json& f) { f["model"]["vocab"]["c"] = "x"; }, kInvalid,
       "the id of 'c' is not an integer"},
      {[](json& f) { f["model"]["vocab"]["c"] = json::array(); }, kInvalid,
       "'c' is not an integer"},
      {[](json& f) { f["added_tokens"][1]["content"] = "a"; }, kInvalid, "belongs to '</s>'"},
      {[](json& f) { f["added_tokens"][1]["id"] = 1 << 29; }, kInvalid, "has id 536870912"},
      {[](json& f) { f["added_tokens"][1]["id"] = 9; }, kInvalid, "'</s>' has the ids 1 and 9"},
      {[](json& f) { f["added_tokens"][1]["special"] = 1; }, kInvalid,
       "added_tokens[1]: 'special' is"},
      {[](json& f) { f["model"]["merges"][0] = "a"; }, kInvalid, "merge 0 'a' is not two pieces"},
      {[](json& f) {
         f["model"]["merges"][0] = {"a", "b", "c"};
       },
       kInvalid, "merge 0 is not two"},
      {[](json& f) { f["model"]["merges"][0] = 7; }, kInvalid, "merge 0 is not two"},
      {[](json& f) { f["model"]["merges"][0] = "a c"; }, kInvalid, "second part that is not"},
      {[](json& f) { f["model"]["merges"][1] = "a b"; }, kInvalid, "merge 1 'a b' appears twice"},
      {[](json& f) { f["model"]["unk_token"] = "?"; }, kInvalid, "unk_token '?' is not in the"},
      {[](json& f) { f["model"]["end_of_word_suffix"] = "@"; }, kUnknown, "end_of_word_suffix '@'"},
      {[](json& f) { f["model"]["dropout"] = 0.5; }, kUnknown, "dropout"},
      {[](json& f) {
         f["normalizer"] = {{"type", "BertNormalizer"}};
       },
       kUnknown, "'BertNormalizer'"},
      {[](json& f) {
         f["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
       },
       kUnknown, "'UnicodeScripts'"},
      {[](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"Regex", "(a+)+"}}}, {"behavior", "Isolated"}};
       },
       kUnknown, "a repeated group is not supported"},
      {[](json& f) {
         f["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"Regex", "a("}}}, {"behavior", "Isolated"}};
       },
       kInvalid, "'(' without ')'"},
      {[](json& f) {
         f["decoder"] = {{"type", "CTC"}};
       },
       kUnknown, "decoder 'CTC'"},
      {[](json& f) {
         f["post_processor"] = {{"type", "BertProcessing"}};
       },
       kUnknown, "'BertProcessing'"},
      {[](json& f) { f["post_processor"]["special_tokens"]["<s>"]["ids"][0] = 99; }, kInvalid,
       "has an id that is not below 5"},
  };
  for (const Case& c : kCases) {
    json file = ToyFile();
    c.change(file);
    const auto tokenizer = FromJson(file.dump());
    ASSERT_FALSE(tokenizer.ok()) << c.part;
    EXPECT_EQ(tokenizer.status().code(), c.code) << tokenizer.status();
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("tokenizer.json: "));
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(c.part));
  }
  EXPECT_THAT(std::string(FromJson("").status().message()), HasSubstr("the file is empty"));
  EXPECT_THAT(std::string(FromJson("[1]").status().message()), HasSubstr("not a JSON object"));
  EXPECT_THAT(std::string(FromJson("{").status().message()), HasSubstr("not valid JSON"));
  EXPECT_THAT(std::string(FromJson("{\"x\":" + std::string(100000, '[')).status().message()),
              HasSubstr("nested deeper than 64"));
  EXPECT_THAT(std::string(FromJson(R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})")
                              .status()
                              .message()),
              HasSubstr("token 'a' has the ids 0 and 1"));
  const auto config = FromJson(ToyFile().dump(), R"({"bos_token": "<no>"})");
  EXPECT_THAT(std::string(config.status().message()),
              HasSubstr("tokenizer_config.json: bos_token '<no>' is not a token"));
}

}  // namespace
}  // namespace isobit
