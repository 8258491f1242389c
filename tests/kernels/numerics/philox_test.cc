#include "kernels/numerics/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace isobit {
namespace {

void ExpectPhilox(PhiloxCounter counter, PhiloxKey key, PhiloxCounter expected) {
  const PhiloxCounter got = Philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], expected.word[i]) << i;
}

// Known answers published with Random123.
TEST(Philox, KnownAnswers) {
  ExpectPhilox({{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  ExpectPhilox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {{0xffffffff, 0xffffffff}},
               {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  ExpectPhilox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}},
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(DrawBits, IsAddressedBySeedSampleAndPosition) {
  const uint64_t seed = 0x299f31d0a4093822u, position = 0x85a308d3243f6a88u;
  const PhiloxCounter words =
      Philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0}}, {{0xa4093822, 0x299f31d0}});
  EXPECT_EQ(DrawBits(seed, 0x13198a2e, position), uint64_t{words.word[1]} << 32 | words.word[0]);
  // Each part counts, in both halves.
  std::set<uint64_t> draws;
  for (uint64_t s : {seed, seed + 1, seed ^ (uint64_t{1} << 40)}) {
    for (uint32_t sample : {0u, 1u, 0x80000000u}) {
      for (uint64_t p : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
        draws.insert(DrawBits(s, sample, p));
      }
    }
  }
  EXPECT_EQ(draws.size(), 27u);
}

static_assert(DrawBits(0, 0, 0) == 0xe169c58d6627e8d5u, "usable at compile time");

}  // namespace
}  // namespace isobit
