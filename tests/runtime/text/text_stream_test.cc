#include "runtime/text/text_stream.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/utf8.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

class TextStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ToyTokenizer toy;
    special_ = toy.Token("<|end|>", TokenKind::kControl);
    euro_n_ = toy.Token(InByteAlphabet("\xAC\x0A"));  // the end of a euro sign and a line break
    auto built = toy.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    tokenizer_ = *std::move(built);
  }
  int32_t special_ = 0, euro_n_ = 0;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TextStreamTest, HoldsBackPartsOfCharacters) {
  TextStream stream(*tokenizer_);
  EXPECT_EQ(stream.Push('a'), "a");
  EXPECT_EQ(stream.Push(0xE2), "");
  EXPECT_EQ(stream.Push(0x82), "");
  EXPECT_EQ(stream.Push(special_), "") << "a special token without text changes nothing";
  EXPECT_EQ(stream.Push(euro_n_), "\xE2\x82\xAC\n");
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push('b'),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.Push('c'), "c");
}

TEST_F(TextStreamTest, PrintsSpecialTokensIfAsked) {
  TextStream stream(*tokenizer_, /*skip_special=*/false);
  EXPECT_EQ(stream.Push(0xE2), "");
  EXPECT_EQ(stream.Push(special_), "\xEF\xBF\xBD<|end|>");
}

// Any ids whatever: the pieces are valid UTF-8 and make up what Decode gives.
TEST_F(TextStreamTest, PiecesMakeUpTheWhole) {
  std::mt19937 rng(4);
  const int32_t kLikely[] = {0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0,     0x9F,    0x99, 0x82,
                             0xED, 0xA0, 0x80, 0xFF, 'a',  special_, euro_n_, -5,   100000};
  for (int round = 0; round < 20000; ++round) {
    std::vector<int32_t> ids(rng() % 12);
    for (int32_t& id : ids) {
      id = rng() % 4 == 0 ? static_cast<int32_t>(rng() % 258) : kLikely[rng() % std::size(kLikely)];
    }
    for (const bool skip : {true, false}) {
      TextStream stream(*tokenizer_, skip);
      std::string text;
      for (const int32_t id : ids) {
        const std::string piece = stream.Push(id);
        ASSERT_EQ(ValidUtf8Prefix(piece), piece.size());
        text += piece;
      }
      text += stream.Finish();
      ASSERT_EQ(text, tokenizer_->Decode(ids, skip)) << testing::PrintToString(ids);
    }
  }
}

}  // namespace
}  // namespace isobit
