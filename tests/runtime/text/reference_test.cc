// Token ids of 2000 texts against Hugging Face's, for five vocabularies.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/model/gguf.h"
#include "runtime/text/text_stream.h"
#include "runtime/text/tokenizer.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

const std::string kGolden = ISOBIT_SOURCE_DIR "/golden/text/";

std::vector<std::string> Texts() {
  std::ifstream in(kGolden + "texts.json");
  return nlohmann::json::parse(in).get<std::vector<std::string>>();
}

std::vector<std::vector<int32_t>> Ids(const std::string& vocabulary) {
  std::ifstream in(kGolden + "ids_" + vocabulary + ".txt");
  std::vector<std::vector<int32_t>> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream numbers(line);
    rows.emplace_back();
    for (int32_t id; numbers >> id;) rows.back().push_back(id);
  }
  return rows;
}

std::unique_ptr<Tokenizer> Load(const std::string& path) {
  const auto file = GgufFile::Open(path);
  if (!file.ok()) {
    ADD_FAILURE() << file.status() << "\nThis test needs the file: run the set-up script, or set "
                  << "ISOBIT_TEST_MODEL.";
    return nullptr;
  }
  auto tokenizer = Tokenizer::FromGguf(**file);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.status();
    return nullptr;
  }
  return *std::move(tokenizer);
}

void ExpectSameIds(const Tokenizer& tokenizer, const std::string& vocabulary) {
  const std::vector<std::string> texts = Texts();
  const std::vector<std::vector<int32_t>> expected = Ids(vocabulary);
  ASSERT_EQ(texts.size(), 2000u);
  ASSERT_EQ(expected.size(), texts.size());
  int differences = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    EncodeOptions options;
    options.add_special = false;
    const auto ids = tokenizer.Encode(texts[i], options);
    ASSERT_TRUE(ids.ok()) << ids.status();
    if (*ids != expected[i] && ++differences <= 5) {
      ADD_FAILURE() << "text " << i << " " << nlohmann::json(texts[i]).dump() << "\n   got "
                    << nlohmann::json(*ids).dump() << "\nwanted "
                    << nlohmann::json(expected[i]).dump();
    }
    // The ids give back the text, whole and streamed. Only a normaliser changes it.
    const std::string decoded = tokenizer.Decode(*ids);
    if (vocabulary != "qwen2") {
      ASSERT_EQ(tokenizer.Decode(*ids, true, /*begins_text=*/true), texts[i]) << "text " << i;
    }
    TextStream stream(tokenizer);
    std::string streamed;
    for (const int32_t id : *ids) streamed += stream.Push(id);
    ASSERT_EQ(streamed + stream.Finish(), decoded) << "text " << i;
  }
  EXPECT_EQ(differences, 0) << "of " << texts.size() << " texts, " << vocabulary;
}

TEST(ReferenceTest, SmolLm2) {
  const auto tokenizer = Load(TestModelPath());
  ASSERT_NE(tokenizer, nullptr);
  ExpectSameIds(*tokenizer, "smollm2");
}

// The vocabularies ggml-vocab-*.gguf of llama.cpp's models folder, which the set-up script fetches.
std::string VocabularyPath(const std::string& name) {
  return TestVocabularyFolder() + "/ggml-vocab-" + name + ".gguf";
}

class VocabularyTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VocabularyTest, SameIds) {
  const auto tokenizer = Load(VocabularyPath(GetParam()));
  ASSERT_NE(tokenizer, nullptr);
  ExpectSameIds(*tokenizer, GetParam());
}

INSTANTIATE_TEST_SUITE_P(LlamaCpp, VocabularyTest,
                         ::testing::Values("gpt-2", "qwen2", "llama-bpe", "llama-spm"));

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The vectors that lie beside the vocabularies: texts and their ids without BOS.
class PublishedVectorsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedVectorsTest, SameIds) {
  const std::string path = VocabularyPath(GetParam());
  const auto tokenizer = Load(path);
  ASSERT_NE(tokenizer, nullptr);
  const std::string mark = "\n__ggml_vocab_test__\n";
  const std::string texts = ReadFile(path + ".inp");
  std::istringstream lines(ReadFile(path + ".out"));
  size_t compared = 0;
  for (size_t at = 0; at < texts.size();) {
    const size_t end = std::min(texts.find(mark, at), texts.size());
    const std::string text = texts.substr(at, end - at);
    at = end + mark.size();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << compared;
    std::istringstream numbers(line);
    std::vector<int32_t> expected;
    for (int32_t id; numbers >> id;) expected.push_back(id);
    EncodeOptions options;
    options.add_special = false;
    options.parse_special = false;
    EXPECT_EQ(tokenizer->Encode(text, options).value(), expected)
        << compared << " " << nlohmann::json(text).dump(-1, ' ', true);
    ++compared;
  }
  EXPECT_GE(compared, 30u);
}

// Neither a megabyte nor one character without end takes more than its length's time.
class LongTextTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LongTextTest, TakesLinearTime) {
  const auto tokenizer = Load(VocabularyPath(GetParam()));
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 rng(1);
  std::string mixed, letters, marks;
  const std::vector<std::string> words = Texts();
  while (mixed.size() < 1'000'000) mixed += words[rng() % words.size()];
  for (int i = 0; i < 200'000; ++i) letters += static_cast<char>((i % 7 ? 'a' : 'A') + rng() % 26);
  for (int i = 0; i < 50'000; ++i) marks += "\xCC\x81\xCC\xA7";
  std::vector<std::string> texts = {mixed, letters, marks};
  for (const char* unit :
       {"a", "A", " ", "\n", "7", "'", "<", "\xE4\xB8\xAD", "\xE2\x96\x81", " \n"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const std::clock_t begin = std::clock();
    const auto ids = tokenizer->Encode(text);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_LT(seconds, 5) << text.substr(0, 8) << "... " << text.size();  // about 0.1 measured
  }
}

INSTANTIATE_TEST_SUITE_P(LlamaCpp, LongTextTest,
                         ::testing::Values("deepseek-coder", "deepseek-llm", "falcon", "gemma-4",
                                           "llama-bpe", "llama-spm", "qwen2", "qwen35"));

INSTANTIATE_TEST_SUITE_P(LlamaCpp, PublishedVectorsTest,
                         ::testing::Values("command-r", "deepseek-coder", "deepseek-llm", "falcon",
                                           "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "mpt",
                                           "phi-3", "qwen2", "qwen35", "refact", "starcoder"));

}  // namespace
}  // namespace isobit
