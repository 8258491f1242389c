// Host and device give the same bits from the same headers.

#include "tests/kernels/numerics/device_numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/numerics/attention.h"
#include "kernels/numerics/grid_exp.h"
#include "kernels/numerics/philox.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/sampling.h"
#include "tests/kernels/numerics/device_tensor_core.h"
#include "tests/kernels/numerics/golden_hashes.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

class DeviceNumerics : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasCudaDevice()) GTEST_SKIP() << "no CUDA device";
  }
};

constexpr std::pair<const char*, ScalarFunction> kFunctions[] = {{"exp2", ScalarFunction::kExp2},
                                                                 {"log", ScalarFunction::kLog},
                                                                 {"silu", ScalarFunction::kSilu}};

TEST_F(DeviceNumerics, ScalarFunctionsAtAStride) {
  constexpr int64_t kCount = (int64_t{0xffffffff} / kHashStride) + 1;
  for (const auto& [name, function] : kFunctions) {
    EXPECT_EQ(HashOfWords(DeviceScalar(function, 0, kHashStride, kCount)),
              GoldenHash(std::string(name) + "_stride"));
  }
}

TEST_F(DeviceNumerics, GridExp2OnTheWholeGrid) {
  const int32_t first = -127 * kGridSize;
  const auto device = DeviceGridExp2(first, 256 * kGridSize);
  for (size_t i = 0; i < device.size(); ++i) {
    const float x = static_cast<float>(first + static_cast<int32_t>(i)) / kGridSize;
    ASSERT_EQ(device[i], GridExp2(x)) << x;
  }
}

template <typename Dot>
void ExpectRecorded(const std::string& name, Dot&& dot) {
  std::ifstream file(std::string(ISOBIT_SOURCE_DIR) + "/golden/numerics/" + name, std::ios::binary);
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                                   std::istreambuf_iterator<char>());
  ASSERT_GT(bytes.size(), 100000u) << name;
  const std::vector<uint32_t> device = dot(bytes);
  ASSERT_EQ(device.size(), bytes.size() / 72);
  for (size_t i = 0; i < device.size(); ++i) {
    uint32_t recorded;
    std::memcpy(&recorded, bytes.data() + 72 * i + 68, 4);
    ASSERT_EQ(device[i], recorded) << name << " " << i;
  }
}

TEST_F(DeviceNumerics, Dot16OnRecordedSteps) {
  ExpectRecorded("mma_bf16_k16_sm90.bin", DeviceDot16Bf16);
  ExpectRecorded("mma_bf16_k16_edges_sm90.bin", DeviceDot16Bf16);
  ExpectRecorded("mma_fp16_k16_sm90.bin", DeviceDot16Fp16);
  ExpectRecorded("mma_fp16_k16_edges_sm90.bin", DeviceDot16Fp16);
}

// Not only recorded steps: the tensor core that is there, on a billion steps made to be hard.
TEST_F(DeviceNumerics, Dot16OnTheTensorCore) {
  if (!HasHopper()) GTEST_SKIP() << "no Hopper tensor core";
  const TensorCoreReport report = CompareWithTensorCore(2026, 1000);
  EXPECT_GE(report.compared, 1000000000u);
  EXPECT_EQ(report.different, 0u) << "first: c " << report.c << " expected " << report.expected
                                  << " got " << report.got;
  for (auto count : {report.zeros, report.subnormals, report.infinities, report.nans}) {
    EXPECT_GT(count, report.compared / 1000);
  }
}

TEST_F(DeviceNumerics, RopeTable) {
  std::vector<int64_t> positions;
  for (int64_t position = 0; position < 8192; position += 3) positions.push_back(position);
  EXPECT_EQ(HashOfWords(DeviceRopeTable(500000.0, 128, positions)), GoldenHash("rope_table"));
}

TEST_F(DeviceNumerics, Attention) {
  constexpr int kHeadDim = 64;
  RandomValues random(1);
  // Scores from tame to far beyond the threshold.
  std::vector<Bf16> q, keys, values;
  std::vector<int64_t> first, last;
  for (int64_t r = 0; r < 24; ++r) {
    const auto row = random.NormalRow(kHeadDim, r % 3 == 0 ? 1.0 : r % 3 == 1 ? 20.0 : 300.0);
    q.insert(q.end(), row.begin(), row.end());
    last.push_back(50 * r + random.Below(50));
    first.push_back(FirstVisibleKey(last.back(), r % 2 == 0 ? 0 : 1 + random.Below(1100)));
  }
  for (int64_t j = 0; j < 1250; ++j) {
    const auto key = random.NormalRow(kHeadDim), value = random.NormalRow(kHeadDim);
    keys.insert(keys.end(), key.begin(), key.end());
    values.insert(values.end(), value.begin(), value.end());
  }
  const auto device = DeviceAttention(q, keys, values, first, last);
  std::vector<Bf16> host(q.size());
  for (size_t r = 0; r < first.size(); ++r) {
    AttendRow(
        &q[r * kHeadDim], kHeadDim, MakeAttentionScale(0.125), first[r], last[r],
        [&](int64_t j) { return &keys[static_cast<size_t>(j) * kHeadDim]; },
        [&](int64_t j) { return &values[static_cast<size_t>(j) * kHeadDim]; }, &host[r * kHeadDim]);
  }
  EXPECT_EQ(device, host);
}

TEST_F(DeviceNumerics, RmsNorm) {
  RandomValues random(2);
  for (int64_t n : {33, 64, 576, 4096}) {
    const auto x = random.NormalRow(8 * n, 3.0), weight = random.NormalRow(n);
    std::vector<Bf16> host(x.size());
    for (int64_t r = 0; r < 8; ++r)
      RmsNormRow(&x[static_cast<size_t>(r * n)], weight.data(), n, 1e-5f,
                 &host[static_cast<size_t>(r * n)]);
    EXPECT_EQ(DeviceRmsNorm(x, weight, 1e-5f), host);
  }
}

TEST_F(DeviceNumerics, Sampling) {
  RandomValues random(3);
  std::vector<float> z;
  for (int i = 0; i < 20000; ++i) z.push_back(static_cast<float>(random.Normal() * 10.0));
  const float m = *std::max_element(z.begin(), z.end());
  uint64_t sum = 0;
  for (float x : z) sum += SoftmaxWeight(x, m);
  std::vector<uint64_t> host;
  for (size_t i = 0; i < z.size(); ++i) {
    host.push_back(SoftmaxWeight(z[i], m));
    host.push_back(FloatBits(LogProb(z[i], m, sum)));
    host.push_back(TopPThreshold(FloatBits(z[i]), sum));
    host.push_back(DrawTarget(DrawBits(99, static_cast<uint32_t>(i), FloatBits(z[i])), sum));
  }
  EXPECT_EQ(DeviceSampling(z, m, sum, 99), host);
}

}  // namespace
}  // namespace isobit
