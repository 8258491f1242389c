#include "runtime/text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/text/pretokenizer_names.h"
#include "runtime/text/unicode_classes.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNames[] = {"default",     "gpt-2",          "llama-bpe", "qwen2",
                                  "smollm",      "gpt-4o",         "tekken",    "qwen35",
                                  "deepseek-v3", "deepseek-coder", "falcon"};

std::vector<size_t> Lengths(const PreTokenizer& pre, std::string_view text) {
  std::vector<std::pair<size_t, size_t>> words;
  EXPECT_TRUE(pre.Split(text, &words).ok());
  std::vector<size_t> lengths;
  size_t at = 0;
  for (const auto& [begin, end] : words) {
    EXPECT_EQ(begin, at);
    lengths.push_back(end - begin);
    at = end;
  }
  EXPECT_EQ(at, text.size());
  return lengths;
}

// Random texts, split by Hugging Face's tokenizers: golden/text/make_splits.py.
TEST(PreTokenizerTest, SplitsAsHuggingFace) {
  std::ifstream in(ISOBIT_SOURCE_DIR "/golden/text/splits.json");
  const auto rows = nlohmann::json::parse(in);
  ASSERT_GT(rows.size(), 400u);
  for (const char* name : kNames) {
    const auto pre = PreTokenizer::ForName(name);
    ASSERT_TRUE(pre.ok());
    for (const auto& row : rows) {
      EXPECT_EQ(Lengths(*pre, row.at("text").get<std::string>()),
                row.at(name).get<std::vector<size_t>>())
          << name << " " << row.at("text").dump(-1, ' ', true);
    }
  }
}

// One expression of a published pre-tokenizer, run by PCRE2. Its \s is written out, since PCRE2
// counts U+180E to it.
class Expression {
 public:
  explicit Expression(std::string pattern) {
    const std::string space =
        R"(\t-\r\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
    const auto replace = [&](const std::string& what, const std::string& with) {
      for (size_t at = 0; (at = pattern.find(what, at)) != pattern.npos; at += with.size()) {
        pattern.replace(at, what.size(), with);
      }
    };
    replace("[^\\s", "[^" + space);
    replace("\\S", "[^" + space + "]");
    replace("\\s", "[" + space + "]");
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr));
    EXPECT_NE(code_, nullptr) << pattern << " at " << offset;
    match_.reset(pcre2_match_data_create(1, nullptr));
  }

  // Appends the lengths of the pieces that the expression isolates.
  void Split(std::string_view text, std::vector<std::string_view>* pieces) const {
    size_t at = 0;
    while (at < text.size()) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                    text.size(), at, PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match_.get());
      const size_t begin = found > 0 ? span[0] : text.size();
      const size_t end = found > 0 ? span[1] : text.size();
      if (begin > at) pieces->push_back(text.substr(at, begin - at));
      if (end > begin) pieces->push_back(text.substr(begin, end - begin));
      at = end;
    }
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

// Texts over characters at which the expressions decide something, all older than Unicode 14.
std::string RandomText(std::mt19937* rng) {
  static constexpr char32_t kPoints[] = {
      'a',    'Z',    's',    'T',   'r',  'e',    'v',     'l',    'd',    'm',     'S',    0x17F,
      0xE9,   0x4E2D, 0xD55C, 0x301, '0',  '1',    '7',     0xB2,   0x2167, 0x663,   ' ',    ' ',
      '\t',   '\n',   '\r',   '\v',  0x85, 0xA0,   0x1680,  0x180E, 0x2003, 0x2028,  0x3000, 0x200B,
      0xFEFF, '\'',   0x2019, '.',   ',',  '-',    '_',     '#',    '$',    '+',     '<',    '=',
      '>',    '^',    '~',    '|',   '`',  0x20AC, 0x1F642, 0,      0x1C,   0x10FFFF};
  const size_t pool = 1 + (*rng)() % std::size(kPoints);
  const size_t shift = (*rng)() % std::size(kPoints);
  std::string text;
  for (size_t i = 1 + (*rng)() % 30; i > 0; --i) {
    AppendUtf8(kPoints[(shift + (*rng)() % pool) % std::size(kPoints)], &text);
  }
  return text;
}

TEST(PreTokenizerTest, SplitsAsTheExpressionsSay) {
  std::mt19937 rng(3);
  ASSERT_GT(NamedPreTokenizers().size(), 40u);
  for (const NamedPreTokenizer& entry : NamedPreTokenizers()) {
    const std::string name(entry.name);
    const auto pre = PreTokenizer::ForName(name);
    ASSERT_TRUE(pre.ok()) << pre.status();
    std::vector<Expression> expressions;
    for (const std::string_view pattern : entry.patterns) {
      expressions.emplace_back(std::string(pattern));
    }
    for (int i = 0; i < 3000; ++i) {
      const std::string text = RandomText(&rng);
      std::vector<std::string_view> pieces = {text};
      for (const Expression& expression : expressions) {
        std::vector<std::string_view> finer;
        for (const std::string_view piece : pieces) expression.Split(piece, &finer);
        pieces = finer;
      }
      std::vector<size_t> expected;
      for (const std::string_view piece : pieces) expected.push_back(piece.size());
      ASSERT_EQ(Lengths(*pre, text), expected)
          << name << " " << nlohmann::json(text).dump(-1, ' ', true);
    }
  }
}

TEST(PreTokenizerTest, PropertiesOfEach) {
  for (const char* name : kNames) {
    const auto pre = PreTokenizer::ForName(name);
    ASSERT_TRUE(pre.ok());
    EXPECT_EQ(pre->name(), name);
    EXPECT_EQ(pre->normalizes(), std::string_view(name) == "qwen2");
    EXPECT_EQ(pre->ignores_merges(),
              name == std::string_view("llama-bpe") || name == std::string_view("tekken"));
    EXPECT_EQ(pre->NameAmong(pre->normalizes(), pre->ignores_merges()), name);
    EXPECT_TRUE(Lengths(*pre, "").empty());
  }
  PreTokenizer steps;
  EXPECT_EQ(steps.NameAmong(false, false), "none");
  ASSERT_TRUE(steps.AddPattern("[ab]", PreTokenizer::Behavior::kRemoved, true).ok());
  EXPECT_EQ(steps.NameAmong(true, false), "steps,nfc,0![ab]");
  const auto other = PreTokenizer::ForName("kimi-k2");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("pre-tokenizer 'kimi-k2' is not supported (supported: default, gpt-2, "
                        "llama-bpe, qwen2, smollm, gpt-4o, tekken, "));
}

// How many characters each class has in Hugging Face's tokenizers 0.23, counted by asking it about
// every character.
TEST(UnicodeClassesTest, CountsAreThoseOfHuggingFace) {
  const auto count = [](CharClasses classes) {
    int counted = 0;
    for (char32_t point = 0; point < 0x110000; ++point) {
      if (point == 0xD800) point = 0xE000;
      counted += IsIn(ClassOf(point), classes);
    }
    return counted;
  };
  EXPECT_EQ(count(kLetters), 141028);
  EXPECT_EQ(count(kNumbers), 1911);
  EXPECT_EQ(count(kPunctuation), 855);
  EXPECT_EQ(count(kSpaces), 25);
}

}  // namespace
}  // namespace isobit
