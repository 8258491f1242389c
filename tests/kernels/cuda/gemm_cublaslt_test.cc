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
  static constexpr int64_t kN = 4096;

  void SetUp() override {
    if (!HasHopper()) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    if (CublasLtVersion().empty()) GTEST_SKIP() << "needs cuBLASLt";
  }

  // For each algorithm that the heuristic offers, how many elements differ from the chain rounded
  // once.
  struct Judged {
    CublasLtAlgorithm algorithm;
    uint64_t differences;
  };
  std::vector<Judged> JudgeAll(int64_t rows, int64_t k) {
    std::string error;
    const auto gemm = CublasLtGemm::Create(rows, kN, k, &error);
    EXPECT_NE(gemm, nullptr) << error;
    std::vector<Judged> judged;
    for (const CublasLtAlgorithm& algorithm : gemm->Heuristic(8)) {
      judged.push_back({algorithm, Differences(*gemm, algorithm, rows, k)});
    }
    return judged;
  }

 private:
  static uint64_t Differences(const CublasLtGemm& gemm, const CublasLtAlgorithm& algorithm,
                              int64_t rows, int64_t k) {
    const TestWeight w(kN, k, false, InputKind::kNormal, 2);
    DeviceArray<Bf16> x(rows * k), expected(rows * kN), got(rows * kN);
    DeviceArray<float> chains(rows * kN);
    DeviceArray<uint8_t> workspace(CublasLtGemm::kWorkspaceBytes);
    Check(LaunchFill(InputKind::kNormal, 3, 1.0f, rows * k, x.data(), nullptr));
    Check(LaunchReferenceChains(x.data(), w.rows(), rows, kN, k, chains.data(), nullptr));
    Gemm op;
    op.rows = rows;
    op.out_bf16 = expected.data();
    Check(LaunchReferenceEpilogue(op, chains.data(), kN, nullptr));
    EXPECT_TRUE(gemm.Launch(algorithm, x.data(), w.rows(), got.data(), workspace.data(), nullptr));
    BitDifference difference;
    Check(CompareBits(expected.data(), got.data(), rows * kN, sizeof(Bf16), &difference, nullptr));
    return difference.count;
  }
};

TEST_F(CublasLtTest, AnAlgorithmWithoutSplitsIsTheChain) {
  const auto judged = JudgeAll(1024, 4096);
  ASSERT_FALSE(judged.empty());
  for (const Judged& j : judged) {
    EXPECT_EQ(j.differences != 0, j.algorithm.SplitsK()) << j.algorithm.split_k;
  }
}

// At few rows and large k the heuristic offers algorithms that split K. Their bits give them away.
TEST_F(CublasLtTest, AnAlgorithmThatSplitsKIsRejected) {
  bool any = false;
  for (const Judged& j : JudgeAll(16, 14336)) {
    if (!j.algorithm.SplitsK()) continue;
    any = true;
    EXPECT_GT(j.differences, 0u);
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace isobit::cuda
