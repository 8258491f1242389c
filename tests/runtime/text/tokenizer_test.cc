#include "runtime/text/tokenizer.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/model/gguf.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe.h"
#include "tests/model_path.h"
#include "tests/runtime/model/gguf_builder.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Built(ToyTokenizer& toy) {
  auto built = toy.Build();
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

TEST(BpeTest, LowestRankFirstThenLeftmost) {
  Bpe bpe;
  ASSERT_TRUE(bpe.Add(1, 2, 10, 0));   // ab
  ASSERT_TRUE(bpe.Add(2, 3, 11, 1));   // bc
  ASSERT_TRUE(bpe.Add(10, 3, 12, 2));  // abc
  ASSERT_TRUE(bpe.Add(1, 1, 13, 3));   // aa
  ASSERT_TRUE(bpe.Add(4, 5, 14, 4));   // de
  ASSERT_TRUE(bpe.Add(5, 6, 15, 4));   // ef, of the same rank
  EXPECT_FALSE(bpe.Add(1, 2, 99, 5)) << "a pair is known once";
  Bpe::Scratch scratch;
  const auto merged = [&](const Ids& ids) {
    Ids out;
    bpe.Merge(ids, &scratch, &out);
    return out;
  };
  EXPECT_THAT(merged({1, 2, 3}), ElementsAre(12));
  EXPECT_THAT(merged({2, 3, 3}), ElementsAre(11, 3));
  EXPECT_THAT(merged({1, 1, 2, 3}), ElementsAre(1, 12)) << "ab has the lower rank";
  EXPECT_THAT(merged({1, 1, 1}), ElementsAre(13, 1)) << "the left pair goes first";
  EXPECT_THAT(merged({4, 5, 6}), ElementsAre(14, 6)) << "of equal rank the left one";
  EXPECT_THAT(merged({4}), ElementsAre(4));
  EXPECT_THAT(merged({}), IsEmpty());
}

// The definition of BPE, one pair at a time.
Ids MergeSlowly(Ids ids, const std::vector<std::array<int32_t, 3>>& merges) {
  while (true) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (merges[rank][0] == ids[i] && merges[rank][1] == ids[i + 1]) {
          best = rank;
          at = i;
        }
      }
    }
    if (best == merges.size()) return ids;
    ids[at] = merges[best][2];
    ids.erase(ids.begin() + static_cast<long>(at) + 1);
  }
}

TEST(BpeTest, EqualsTheDefinitionOnRandomMerges) {
  std::mt19937 rng(5);
  Bpe::Scratch scratch;
  for (int round = 0; round < 200; ++round) {
    Bpe bpe;
    std::vector<std::array<int32_t, 3>> merges;
    for (int32_t made = 3; made < 23; ++made) {
      const auto left = static_cast<int32_t>(rng() % static_cast<uint32_t>(made));
      const auto right = static_cast<int32_t>(rng() % static_cast<uint32_t>(made));
      const auto rank = static_cast<uint32_t>(merges.size());
      if (bpe.Add(left, right, made, rank)) merges.push_back({left, right, made});
    }
    for (int i = 0; i < 20; ++i) {
      Ids ids(rng() % 40);
      for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 3);
      Ids out;
      bpe.Merge(ids, &scratch, &out);
      ASSERT_EQ(out, MergeSlowly(ids, merges));
    }
  }
}

AddedToken Added(int32_t id) {
  AddedToken token;
  token.id = id;
  return token;
}

// Segments as "[id:text]", text between tokens as it is.
std::string Segments(const AddedTokens& added, std::string_view text, bool with_special = true) {
  std::string shown;
  for (const auto& segment : added.Split(text, with_special)) {
    const std::string part(text.substr(segment.begin, segment.end - segment.begin));
    shown += segment.id < 0 ? part : "[" + std::to_string(segment.id) + ":" + part + "]";
  }
  return shown;
}

TEST(AddedTokensTest, EarliestThenLongest) {
  AddedTokens added;
  added.Add("<a>", Added(1));
  added.Add("<a>b", Added(2));
  added.Add("a>b", Added(3));
  added.Add("<a>bcd", Added(4));
  EXPECT_EQ(Segments(added, "x<a>"), "x[1:<a>]");
  EXPECT_EQ(Segments(added, "x<a>b"), "x[2:<a>b]");
  EXPECT_EQ(Segments(added, "<a>bc"), "[2:<a>b]c");
  EXPECT_EQ(Segments(added, "<a>bcd"), "[4:<a>bcd]");
  EXPECT_EQ(Segments(added, " a>bcd"), " [3:a>b]cd");
  EXPECT_EQ(Segments(added, "<<a>"), "<[1:<a>]");
  EXPECT_EQ(Segments(added, "<a"), "<a");
  EXPECT_EQ(Segments(added, ""), "");
  EXPECT_EQ(added.Find("a>b"), 3);
  EXPECT_EQ(added.Find("a>"), -1);
  EXPECT_EQ(added.Find("xa>b"), -1);
}

TEST(AddedTokensTest, StripsAndKeepsWordsWhole) {
  AddedTokens added;
  AddedToken token = Added(1);
  token.lstrip = true;
  added.Add("<l>", token);
  token = Added(2);
  token.rstrip = true;
  added.Add("<r>", token);
  token = Added(3);
  token.single_word = true;
  added.Add("cat", token);
  token = Added(4);
  token.special = true;
  added.Add("<s>", token);
  EXPECT_EQ(Segments(added, "a \n\u3000<l> b"), "a[1: \n\u3000<l>] b");
  EXPECT_EQ(Segments(added, "a <r> \t b"), "a [2:<r> \t ]b");
  EXPECT_EQ(Segments(added, "<r>  <l>"), "[2:<r>  ][1:<l>]") << "what is taken stays taken";
  EXPECT_EQ(Segments(added, "cat cats bobcat _cat cat."), "[3:cat] cats bobcat _cat [3:cat].");
  EXPECT_EQ(Segments(added, "\u00e9cat"), "\u00e9cat");
  EXPECT_EQ(Segments(added, "<s><l>"), "[4:<s>][1:<l>]");
  EXPECT_EQ(Segments(added, "<s><l>", false), "<s>[1:<l>]");
}

TEST(TokenizerTest, SpecialTokensInText) {
  ToyTokenizer toy;
  const int32_t ab = toy.Merge("a", "b");
  const int32_t end = toy.Token("<|end|>", TokenKind::kControl);
  const int32_t user = toy.Token("<user>", TokenKind::kUserDefined);
  toy.Token("<unused>", TokenKind::kUnused);
  const auto tokenizer = Built(toy);
  EXPECT_THAT(tokenizer->Encode("ab<|end|>ab<user>").value(), ElementsAre(ab, end, ab, user));
  EXPECT_THAT(tokenizer->Encode("a<|end|>b").value(), ElementsAre('a', end, 'b'))
      << "nothing merges across";
  EXPECT_EQ(tokenizer->Encode("<unused>").value().size(), 8u);
  EncodeOptions plain;
  plain.parse_special = false;
  EXPECT_EQ(tokenizer->Encode("<|end|>", plain).value().size(), 7u);

  const Ids ids = {'a', end, user, 'b'};
  EXPECT_EQ(tokenizer->Decode(ids), "a<user>b");
  EXPECT_EQ(tokenizer->Decode(ids, false), "a<|end|><user>b");
  EXPECT_TRUE(tokenizer->IsSpecial(end));
  EXPECT_FALSE(tokenizer->IsSpecial(user));
  EXPECT_FALSE(tokenizer->IsSpecial(ab));
  EXPECT_EQ(tokenizer->FindSpecial("<|end|>"), end);
  EXPECT_EQ(tokenizer->FindSpecial("<|end|"), std::nullopt);
  EXPECT_EQ(tokenizer->FindSpecial("x<|end|>"), std::nullopt);
  EXPECT_EQ(tokenizer->FindSpecial("ab"), std::nullopt);
}

TEST(TokenizerTest, IdsOutOfRangeAreHarmless) {
  ToyTokenizer toy;
  const auto tokenizer = Built(toy);
  for (const int32_t id : {-1, 256, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(tokenizer->Piece(id), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
    EXPECT_EQ(tokenizer->Decode(Ids{'a', id, 'b'}), "ab");
  }
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->Piece(0xC3), "\xC3") << "raw bytes, not text";
}

TEST(TokenizerTest, BosAndEosOnlyIfTheTablesSay) {
  ToyTokenizer toy;
  const int32_t bos = toy.Token("<s>", TokenKind::kControl);
  const int32_t eos = toy.Token("</s>", TokenKind::kControl);
  toy.tables.bos_id = bos;
  toy.tables.eos_id = eos;
  const auto without = Built(toy);
  EXPECT_THAT(without->Encode("a").value(), ElementsAre('a'));
  EXPECT_FALSE(without->adds_bos());
  toy.tables.add_bos = toy.tables.add_eos = true;
  const auto with = Built(toy);
  EXPECT_THAT(with->Encode("a").value(), ElementsAre(bos, 'a', eos));
  EXPECT_THAT(with->Encode("").value(), ElementsAre(bos, eos));
  EncodeOptions bare;
  bare.add_special = false;
  EXPECT_THAT(with->Encode("a", bare).value(), ElementsAre('a'));
  EXPECT_NE(with->Fingerprint(), without->Fingerprint());
}

TEST(TokenizerTest, StopIdsAreCollectedFromKeysAndNames) {
  ToyTokenizer toy;
  const int32_t text_end = toy.Token("<|endoftext|>", TokenKind::kControl);
  const int32_t turn_end = toy.Token("<|im_end|>", TokenKind::kControl);
  const int32_t eot = toy.Token("[eot]", TokenKind::kControl);
  toy.Token("<|eot_id|>");  // an ordinary token of that name ends nothing
  toy.tables.eos_id = turn_end;
  toy.tables.more_stop_ids = {eot};
  const auto tokenizer = Built(toy);
  EXPECT_THAT(tokenizer->stop_ids(), ElementsAre(text_end, turn_end, eot));
  EXPECT_EQ(tokenizer->eos_id(), turn_end);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
}

TEST(TokenizerTest, BrokenUtf8IsRefusedWithItsPlace) {
  ToyTokenizer toy;
  const auto tokenizer = Built(toy);
  const auto ids = tokenizer->Encode("abc\xFFz");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("byte offset 3 (0xff)"));
  EXPECT_FALSE(tokenizer->Encode("ab\xE2\x82").ok()) << "a cut character";
  EXPECT_FALSE(tokenizer->Encode("\xED\xA0\x80").ok()) << "a surrogate";
  EXPECT_TRUE(tokenizer->Encode(std::string_view("\0", 1)).ok());
}

TEST(TokenizerTest, DecodeReplacesBrokenBytesOverTokenBorders) {
  ToyTokenizer toy;
  const auto tokenizer = Built(toy);
  EXPECT_EQ(tokenizer->Decode(Ids{0xE2, 0x82, 0xAC}), "\xE2\x82\xAC");
  EXPECT_EQ(tokenizer->Decode(Ids{0xE2, 0x82, 'a'}),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(tokenizer->Decode(Ids{0x82, 0xE2, 0x82}), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(TokenizerTest, ABytelessVocabularyLeavesBytesOut) {
  ToyTokenizer toy;
  toy.tokens[0x04] = "filler";
  const auto tokenizer = Built(toy);
  EXPECT_THAT(tokenizer->bytes_without_token(), ElementsAre(0x04));
  EXPECT_THAT(tokenizer
                  ->Encode("a\x04"
                           "b")
                  .value(),
              ElementsAre('a', 'b'));
}

TEST(TokenizerTest, WordsThatAreTokensWholeSkipMergingWhereThePreTokenizerSays) {
  for (const char* name : {"gpt-2", "llama-bpe"}) {
    ToyTokenizer toy;
    toy.tables.pre_tokenizer = name;
    const int32_t abc = toy.Token("abc");  // no merge leads to it
    const auto tokenizer = Built(toy);
    if (std::string_view(name) == "llama-bpe") {
      EXPECT_THAT(tokenizer->Encode("abc").value(), ElementsAre(abc));
    } else {
      EXPECT_THAT(tokenizer->Encode("abc").value(), ElementsAre('a', 'b', 'c'));
    }
  }
}

TEST(TokenizerTest, Qwen2NormalizesToNfc) {
  ToyTokenizer toy;
  toy.tables.pre_tokenizer = "qwen2";
  const auto tokenizer = Built(toy);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("e\xCC\x81").value()), "\xC3\xA9");
}

// Tables that contradict each other or lie; each change must be refused by name.
TEST(TokenizerTest, RefusesBrokenTables) {
  using Change = void (*)(ToyTokenizer&);
  struct Case {
    Change change;
    absl::StatusCode code;
    const char* message;
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Case kCases[] = {
      {[](ToyTokenizer& t) { t.tables.pre_tokenizer = "nope"; }, absl::StatusCode::kUnimplemented,
       "'nope' is not supported"},
      {[](ToyTokenizer& t) { t.tokens.clear(), t.kinds.clear(); }, kInvalid, "has 0 tokens"},
      {[](ToyTokenizer& t) { t.kinds.pop_back(); }, kInvalid, "256 tokens but 255 token types"},
      {[](ToyTokenizer& t) { t.Token("a"); }, kInvalid, "tokens 97 and 256 are both 'a'"},
      {[](ToyTokenizer& t) { t.Token("a", TokenKind::kControl); }, kInvalid, "are both 'a'"},
      {[](ToyTokenizer& t) { t.tokens['x'] = "xx"; }, kInvalid,
       "no token for 1 of the 95 printable ASCII bytes, the first 0x78"},
      {[](ToyTokenizer& t) {
         for (size_t i = 0; i < 256; ++i) t.tokens[i] = "word" + std::to_string(i);
       },
       kInvalid, "no token for 95 of the 95"},
      {[](ToyTokenizer& t) { t.merges = {"ab"}; }, kInvalid, "merge 0 'ab' is not two pieces"},
      {[](ToyTokenizer& t) { t.merges = {"a b c"}; }, kInvalid, "is not two pieces"},
      {[](ToyTokenizer& t) { t.merges = {" b"}; }, kInvalid, "is not two pieces"},
      {[](ToyTokenizer& t) { t.merges = {"a "}; }, kInvalid, "is not two pieces"},
      {[](ToyTokenizer& t) { t.merges = {""}; }, kInvalid, "is not two pieces"},
      {[](ToyTokenizer& t) { t.merges = {"a \xE4\xB8\xAD"}; }, kInvalid, "byte alphabet"},
      {[](ToyTokenizer& t) { t.merges = {"aa b"}; }, kInvalid, "a first part that is not"},
      {[](ToyTokenizer& t) { t.merges = {"a bb"}; }, kInvalid, "a second part that is not"},
      {[](ToyTokenizer& t) { t.merges = {"a b"}; }, kInvalid, "gives a token that is not"},
      {[](ToyTokenizer& t) { t.Merge("a", "b"), t.merges.push_back("a b"); }, kInvalid,
       "merge 1 'a b' appears twice"},
      {[](ToyTokenizer& t) { t.tables.bos_id = 256; }, kInvalid,
       "BOS token id 256 must be in [0, 256)"},
      {[](ToyTokenizer& t) { t.tables.eos_id = -1; }, kInvalid, "EOS token id -1"},
      {[](ToyTokenizer& t) { t.tables.more_stop_ids = {999}; }, kInvalid, "stop token id 999"},
      {[](ToyTokenizer& t) { t.tables.add_bos = true; }, kInvalid, "no BOS token id"},
      {[](ToyTokenizer& t) { t.tables.add_eos = true; }, kInvalid, "no EOS token id"},
      {[](ToyTokenizer& t) { t.Token(std::string(1025, '<'), TokenKind::kControl); }, kInvalid,
       "1025 bytes long, the limit is 1024"},
  };
  for (const Case& c : kCases) {
    ToyTokenizer toy;
    c.change(toy);
    const auto built = toy.Build();
    ASSERT_FALSE(built.ok()) << c.message;
    EXPECT_EQ(built.status().code(), c.code) << c.message;
    EXPECT_THAT(std::string(built.status().message()), HasSubstr(c.message));
  }
}

// The keys of a GGUF file for the toy vocabulary.
GgufBuilder ToyFile() {
  ToyTokenizer toy;
  GgufBuilder b;
  b.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", "gpt-2");
  b.Texts("tokenizer.ggml.tokens", toy.tokens).Texts("tokenizer.ggml.merges", {});
  return b;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> FromBuilder(const GgufBuilder& builder) {
  const std::string bytes = builder.Build();
  const auto file = GgufFile::FromMemory(AsBytes(bytes), "toy.gguf");
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(**file);  // the file goes before the tokenizer does
}

TEST(TokenizerGgufTest, ReadsItsKeys) {
  Ids types(256, 1);
  types[200] = static_cast<int32_t>(TokenKind::kControl);
  const auto tokenizer = FromBuilder(ToyFile()
                                         .Ints("tokenizer.ggml.token_type", types)
                                         .U32("tokenizer.ggml.bos_token_id", 1)
                                         .U32("tokenizer.ggml.eos_token_id", 2)
                                         .U32("tokenizer.ggml.eot_token_id", 3)
                                         .Bool("tokenizer.ggml.add_bos_token", true)
                                         .Text("tokenizer.chat_template", "{{ x }}"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("hi").value(), ElementsAre(1, 'h', 'i'));
  EXPECT_THAT((*tokenizer)->stop_ids(), ElementsAre(2, 3));
  EXPECT_TRUE((*tokenizer)->IsSpecial(200));
  EXPECT_EQ((*tokenizer)->chat_template(), "{{ x }}");
  EXPECT_EQ((*tokenizer)->pre_tokenizer(), "gpt-2");
  EXPECT_TRUE(FromBuilder(ToyFile()).ok()) << "types and ids may be missing";
}

TEST(TokenizerGgufTest, RefusesLyingKeys) {
  const auto expect = [](const GgufBuilder& builder, absl::StatusCode code,
                         const std::string& part) {
    const auto tokenizer = FromBuilder(builder);
    ASSERT_FALSE(tokenizer.ok()) << part;
    EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status();
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("toy.gguf: "));
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(part));
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  GgufBuilder b;
  expect(b, kInvalid, "'tokenizer.ggml.model' is missing");
  expect(b.Text("tokenizer.ggml.model", "gpt2"), kInvalid, "'tokenizer.ggml.pre' is missing");
  expect(b.Text("tokenizer.ggml.pre", "gpt-2"), kInvalid, "'tokenizer.ggml.tokens' is missing");
  expect(b.Texts("tokenizer.ggml.tokens", {"a"}), kInvalid, "'tokenizer.ggml.merges' is missing");
  expect(b.Texts("tokenizer.ggml.merges", {}), kInvalid, "not a byte-level vocabulary");
  GgufBuilder other;
  expect(other.Text("tokenizer.ggml.model", "bert"), absl::StatusCode::kUnimplemented,
         "tokenizer model 'bert' is not supported (supported: gpt2, llama, gemma4)");
  expect(ToyFile().Ints("tokenizer.ggml.token_type", {1, 1}), kInvalid,
         "token_type has 2 entries for 256 tokens");
  Ids types(256, 1);
  types[7] = 9;
  expect(ToyFile().Ints("tokenizer.ggml.token_type", types), kInvalid,
         "token_type of token 7 is 9, expected 1 to 6");
  expect(ToyFile().Text("tokenizer.ggml.token_type", "x"), kInvalid, "expected an array");
  expect(ToyFile().U32("tokenizer.ggml.eos_token_id", UINT32_MAX), kInvalid,
         "'tokenizer.ggml.eos_token_id' is UINT32 4294967295");
  expect(ToyFile().U32("tokenizer.ggml.add_bos_token", 1), kInvalid, "expected BOOL");
  expect(ToyFile().U32("tokenizer.chat_template", 1), kInvalid, "expected STRING");
}

class RealTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = GgufFile::Open(TestModelPath());
    ASSERT_TRUE(file.ok()) << file.status() << "\nThis test needs the model: run the set-up "
                           << "script, or set ISOBIT_TEST_MODEL.";
    auto tokenizer = Tokenizer::FromGguf(**file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(RealTokenizerTest, KnowsTheModelsProperties) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_EQ(tokenizer_->pre_tokenizer(), "smollm");
  EXPECT_EQ(tokenizer_->bos_id(), 1);
  EXPECT_EQ(tokenizer_->eos_id(), 2);
  EXPECT_FALSE(tokenizer_->adds_bos());
  EXPECT_THAT(tokenizer_->stop_ids(), ElementsAre(0, 2));
  EXPECT_EQ(tokenizer_->bytes_without_token().size(), 21u);
  // Changes only if the tokenizer's meaning does: it is part of every digest.
  EXPECT_EQ(tokenizer_->Fingerprint().ToHex(), "1580616d6e657ee3a6b57d109b48655e");
}

// A text of any kind takes time in proportion: no quadratic merging, no deep recursion.
TEST_F(RealTokenizerTest, LongInputsTakeLinearTime) {
  std::mt19937 rng(1);
  std::string letters, marks, mixed;
  for (int i = 0; i < 200'000; ++i) letters += static_cast<char>('a' + rng() % 26);
  for (int i = 0; i < 50'000; ++i) marks += "\xCC\x81\xCC\xA7";
  for (int i = 0; i < 50'000; ++i) mixed += " \n<|";
  std::vector<std::string> texts = {letters, marks, mixed};
  for (const char c : {'a', ' ', '\n', '7', '<', '\''}) texts.emplace_back(200'000, c);
  for (const std::string& text : texts) {
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokenizer_->Encode(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(tokenizer_->Decode(*ids), text);
    // Wide of the usual 0.01 to 0.05 s, for busy machines and sanitizers; quadratic would be
    // minutes.
    EXPECT_LT(took.count(), 10.0) << testing::PrintToString(text.substr(0, 8));
  }
}

TEST_F(RealTokenizerTest, ManyThreadsGetTheSameIds) {
  const std::string text =
      "Threads share one tokenizer: 3.14 \xE4\xB8\xAD\xE6\x96\x87 <|im_end|>\n\n";
  const Ids expected = tokenizer_->Encode(text).value();
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  for (size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto ids = tokenizer_->Encode(text);
        same[t] += ids.ok() && *ids == expected && tokenizer_->Decode(*ids, false) == text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(same, ElementsAre(200, 200, 200, 200));
}

}  // namespace
}  // namespace isobit
