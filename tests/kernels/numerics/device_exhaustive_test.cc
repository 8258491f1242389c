// The scalar functions on the GPU, all 2^32 inputs: the hashes of scalar_exhaustive_test.cc.

#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>
#include <vector>

#include "tests/kernels/numerics/device_numerics.h"
#include "tests/kernels/numerics/golden_hashes.h"

namespace isobit {
namespace {

void ExpectGolden(const std::string& name, ScalarFunction function) {
  if (!HasCudaDevice()) GTEST_SKIP() << "no CUDA device";
  constexpr uint64_t kChunk = uint64_t{1} << 22;
  std::vector<uint32_t> hashes;
  for (uint64_t first = 0; first <= 0xffffffffu; first += kChunk) {
    const auto outputs = DeviceScalar(function, static_cast<uint32_t>(first), 1, kChunk);
    const uint64_t hash = XXH3_64bits(outputs.data(), 4 * outputs.size());
    hashes.push_back(static_cast<uint32_t>(hash));
    hashes.push_back(static_cast<uint32_t>(hash >> 32));
  }
  EXPECT_EQ(HashOfWords(hashes), GoldenHash(name));
}

TEST(DeviceExhaustive, Exp2) { ExpectGolden("exp2_all", ScalarFunction::kExp2); }
TEST(DeviceExhaustive, Log) { ExpectGolden("log_all", ScalarFunction::kLog); }
TEST(DeviceExhaustive, Silu) { ExpectGolden("silu_all", ScalarFunction::kSilu); }

}  // namespace
}  // namespace isobit
