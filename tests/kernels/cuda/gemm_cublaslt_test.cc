// Qualification must tell cuBLASLt's algorithms apart: one that splits K is not the chain.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/qualify.h"
#include "kernels/cuda/qualify_cublaslt.h"
#include "tests/kernels/cuda/gemm_gpu.h"

namespace isobit::cuda {
namespace {

class CublasLtTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 1024, kN = 4096, kK = 4096;

  void SetUp() override {
    if (!HasHopper()) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    std::string error;
    gemm_ = CublasLtGemm::Create(kRows, kN, kK, &error);
    if (gemm_ == nullptr) GTEST_SKIP() << error;
  }

  // Elements that differ from the chain rounded once.
  uint64_t Differences(const CublasLtAlgorithm& algorithm) {
    const TestWeight w(kN, kK, false, InputKind::kNormal, 2);
    DeviceArray<Bf16> x(kRows * kK), expected(kRows * kN), got(kRows * kN);
    DeviceArray<float> chains(kRows * kN);
    DeviceArray<uint8_t> workspace(CublasLtGemm::kWorkspaceBytes);
    Check(LaunchFill(InputKind::kNormal, 3, 1.0f, kRows * kK, x.data(), nullptr));
    Check(LaunchReferenceChains(x.data(), w.rows(), kRows, kN, kK, chains.data(), nullptr));
    Gemm op;
    op.rows = kRows;
    op.out_bf16 = expected.data();
    Check(LaunchReferenceEpilogue(op, chains.data(), kN, nullptr));
    EXPECT_TRUE(
        gemm_->Launch(algorithm, x.data(), w.rows(), got.data(), workspace.data(), nullptr));
    BitDifference difference;
    Check(CompareBits(expected.data(), got.data(), kRows * kN, sizeof(Bf16), &difference, nullptr));
    return difference.count;
  }

  std::unique_ptr<CublasLtGemm> gemm_;
};

TEST_F(CublasLtTest, AnAlgorithmWithoutSplitsIsTheChain) {
  bool any = false;
  for (const CublasLtAlgorithm& algorithm : gemm_->Heuristic(8)) {
    if (algorithm.SplitsK()) continue;
    any = true;
    EXPECT_EQ(Differences(algorithm), 0u);
  }
  EXPECT_TRUE(any);
}

TEST_F(CublasLtTest, AnAlgorithmThatSplitsKIsRejected) {
  bool any = false;
  for (const CublasLtAlgorithm& algorithm : gemm_->Heuristic(8)) {
    CublasLtAlgorithm split;
    if (!gemm_->WithSplitK(algorithm, 4, &split)) continue;
    any = true;
    EXPECT_TRUE(split.SplitsK());
    EXPECT_GT(Differences(split), 0u);
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace isobit::cuda
