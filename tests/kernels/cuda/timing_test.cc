// What `isobit bench` times on a GPU.

#include <gtest/gtest.h>

#include <vector>

#include "absl/status/status.h"
#include "kernels/backends.h"

namespace isobit {
namespace {

bool HasGpu() { return CreateCudaBackend({}).ok(); }

TEST(TimingTest, WithoutTheDeviceThereAreNoTimes) {
  const CudaOptions options = {.device = 99};
  const auto expected =
      HasGpu() ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable;
  const std::vector<int64_t> rows = {1};
  EXPECT_EQ(TimeCudaGemm(options, {64, 64}, rows).status().code(), expected);
  EXPECT_EQ(TimeCudaAttention(options, {}, 1).status().code(), expected);
}

class CudaTimingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU";
  }
};

// More work takes longer, and times are those of memory and tensor cores, not of the host.
TEST_F(CudaTimingTest, Gemm) {
  using enum Gemm::Epilogue;
  for (const Gemm::Epilogue epilogue : {kBf16, kSiluGate, kFp32}) {
    const std::vector<int64_t> rows = {1, 100, 1024};
    const auto times = TimeCudaGemm({}, {4096, 2048, epilogue}, rows);
    ASSERT_TRUE(times.ok()) << times.status();
    ASSERT_EQ(times->size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const GemmTime& time = (*times)[i];
      EXPECT_EQ(time.rows, rows[i]);
      EXPECT_GT(time.seconds, 1e-6);
      EXPECT_LT(time.seconds, 1e-3);
      EXPECT_LE(time.best_rival_seconds, time.rival_seconds);
    }
    EXPECT_GT((*times)[2].seconds, (*times)[0].seconds);
  }
}

TEST_F(CudaTimingTest, Attention) {
  const std::vector<AttentionBatch> shapes = {{.sequences = 3,
                                               .cached = 999,
                                               .rows = 1,
                                               .heads = 8,
                                               .kv_heads = 2,
                                               .head_dim = 64,
                                               .page_tokens = 16},
                                              {.sequences = 1,
                                               .cached = 50,
                                               .rows = 3000,
                                               .heads = 8,
                                               .kv_heads = 2,
                                               .head_dim = 64,
                                               .page_tokens = 32},
                                              {.sequences = 1,
                                               .cached = 0,
                                               .rows = 100,
                                               .heads = 8,
                                               .kv_heads = 2,
                                               .head_dim = 128,
                                               .page_tokens = 16,
                                               .soft_cap = 50}};
  const auto seconds = TimeCudaAttention({}, shapes, 3);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  ASSERT_EQ(seconds->size(), shapes.size());
  for (const double time : *seconds) {
    EXPECT_GT(time, 1e-6);
    EXPECT_LT(time, 1e-3);
  }
  EXPECT_GT((*seconds)[1], (*seconds)[0]);
}

TEST(AttentionBatchTest, CountsBytesAndFlops) {
  const AttentionBatch shape = {
      .sequences = 2, .cached = 10, .rows = 3, .heads = 8, .kv_heads = 2, .head_dim = 64};
  EXPECT_EQ(shape.KvBytes(), 2 * 2 * 2 * 13 * 2 * 64);
  // The rows see 11, 12 and 13 keys.
  EXPECT_EQ(shape.Flops(), 2.0 * (11 + 12 + 13) * 8 * 4 * 64);
}

}  // namespace
}  // namespace isobit
