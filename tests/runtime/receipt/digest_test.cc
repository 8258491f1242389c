#include "runtime/receipt/digest.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

namespace isobit {
namespace {

TEST(Digest, HexIsHighHalfFirst) {
  const Digest digest = {0x0123456789abcdef, 0x00000000000000ff};
  EXPECT_EQ(digest.ToHex(), "0123456789abcdef00000000000000ff");
  const absl::StatusOr<Digest> back = Digest::FromHex(digest.ToHex());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, digest);
}

TEST(Digest, FromHexRefusesOtherText) {
  for (const std::string& text :
       {std::string(), std::string(31, '0'), std::string(33, '0'), std::string(31, '0') + "g",
        std::string(31, '0') + "A", " " + std::string(31, '0')}) {
    EXPECT_FALSE(Digest::FromHex(text).ok()) << text;
  }
}

// Little-endian bytes of a field, as contract 7 lays them out.
std::string FieldBytes(char type, const void* data, size_t bytes) {
  std::string field(1, type);
  for (int i = 0; i < 8; ++i) field += static_cast<char>(bytes >> (8 * i));
  field.append(static_cast<const char*>(data), bytes);
  return field;
}

TEST(DigestBuilder, IsXxh3OverTypedLengthPrefixedFields) {
  const int64_t integer = -2;
  const double number = 0.5;
  const float bits = -1.25f;
  const std::vector<int32_t> ids = {7, 9};
  std::string bytes = FieldBytes('i', &integer, 8) + FieldBytes('d', &number, 8) +
                      FieldBytes('f', &bits, 4) + FieldBytes('s', "text", 4) +
                      FieldBytes('t', ids.data(), 8);
  DigestBuilder builder;
  builder.Add(integer).Add(number).AddBits(bits).Add("text").Add(ids);
  const XXH128_hash_t expected = XXH3_128bits(bytes.data(), bytes.size());
  EXPECT_EQ(builder.Finish(), (Digest{expected.high64, expected.low64}));
  EXPECT_EQ(builder.Finish(), DigestBytes(bytes.data(), bytes.size()));
}

TEST(DigestBuilder, GoesOnAfterFinish) {
  DigestBuilder stepwise, whole;
  stepwise.Add(int64_t{1});
  const Digest first = stepwise.Finish();
  stepwise.Add(int64_t{2});
  whole.Add(int64_t{1}).Add(int64_t{2});
  EXPECT_EQ(stepwise.Finish(), whole.Finish());
  EXPECT_NE(first, whole.Finish());
}

TEST(DigestBuilder, BordersAndTypesOfFieldsCount) {
  const auto digest = [](auto add) {
    DigestBuilder builder;
    add(builder);
    return builder.Finish();
  };
  const std::vector<Digest> all = {
      digest([](DigestBuilder& b) { b.Add("ab").Add("c"); }),
      digest([](DigestBuilder& b) { b.Add("a").Add("bc"); }),
      digest([](DigestBuilder& b) { b.Add("abc"); }),
      digest([](DigestBuilder& b) { b.Add("abc").Add(""); }),
      digest([](DigestBuilder& b) { b.Add(int64_t{1}); }),
      digest([](DigestBuilder& b) { b.AddUnsigned(1); }),
      digest([](DigestBuilder& b) { b.Add(0.0); }),
      digest([](DigestBuilder& b) { b.Add(-0.0); }),
      digest([](DigestBuilder& b) {
        b.Add(std::vector<int32_t>{1, 2});
      }),
      digest([](DigestBuilder& b) { b.Add(std::vector<int32_t>{1}).Add(std::vector<int32_t>{2}); }),
      digest([](DigestBuilder& b) {
        b.Add(Digest{1, 2});
      }),
      digest([](DigestBuilder& b) {
        b.Add(Digest{2, 1});
      }),
      digest([](DigestBuilder&) {}),
  };
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " and " << j;
  }
}

}  // namespace
}  // namespace isobit
