// Tuning on a GPU: what qualifies is kept, what does not is named. Skipped where there is no card.

#include "kernels/cuda/gemm_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/cuda/gemm_gpu.h"

namespace isobit::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GemmTunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasHopper()) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
  GemmTunerTest() {
    options_.max_rows = 70;
    options_.max_fp32_rows = 20;
    options_.rounds = 3;
    options_.cold_bytes = 1 << 20;
  }

  absl::StatusOr<GemmTuning> Tune(std::vector<GemmShape> shapes) {
    return TuneGemms(shapes, options_, [this](const std::string& line) { said_.push_back(line); });
  }

  GemmTunerOptions options_;
  std::vector<std::string> said_;
};

TEST_F(GemmTunerTest, EveryRangeGetsAKernelAndNoneIsRejected) {
  using enum Gemm::Epilogue;
  const auto tuning =
      Tune({{960, 576, kBf16}, {3072, 576, kSiluGate}, {999, 200, kFp32}, {3072, 576, kGeluGate}});
  ASSERT_TRUE(tuning.ok()) << tuning.status();
  EXPECT_THAT(tuning->rejected, IsEmpty());
  const size_t ranges = 3 * TunedRanges(70).size() + TunedRanges(20).size();
  ASSERT_EQ(tuning->choices.size(), ranges);
  EXPECT_EQ(said_.size(), ranges);
  for (const GemmChoice& choice : tuning->choices) EXPECT_GT(choice.microseconds, 0);
  const auto key = ReadGemmPlanKey(0);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_TRUE(ParseGemmPlanFile(ToJson({*key, tuning->choices})).ok());
}

// One kernel rounds one output of the last row the other way: it is never chosen, however fast.
TEST_F(GemmTunerTest, AKernelWithOneWrongBitIsRejectedByName) {
  const GemmKernelId faulty = PlanGemm({960, 576, false}, 64, Multiprocessors()).kernel;
  options_.launch = [&](const Gemm& op, const PackedMatrix& weight, const GemmPlan& plan,
                        const GemmLaunch& launch, cudaStream_t stream) {
    const cudaError_t error = LaunchGemm(op, weight, plan, launch, stream);
    if (error != cudaSuccess || plan.kernel != faulty || op.rows < 64) return error;
    Bf16* last = op.out_bf16 + op.rows * weight.layout.rows - 1;
    return cudaMemsetAsync(last, 0x7b, 1, stream);
  };
  const auto tuning = Tune({{960, 576, Gemm::Epilogue::kBf16}});
  ASSERT_TRUE(tuning.ok()) << tuning.status();
  for (const GemmChoice& choice : tuning->choices) {
    if (choice.last_rows >= 64) {
      EXPECT_NE(choice.kernel, faulty);
    }
  }
  // All its plans, in the ranges up to 64 and from 65 rows.
  size_t faulty_plans = 0;
  for (const int64_t last : {64, 70}) {
    faulty_plans += PlansWithKernel(faulty, {960, 576, false}, last, Multiprocessors()).size();
  }
  ASSERT_EQ(tuning->rejected.size(), faulty_plans);
  EXPECT_THAT(tuning->rejected.front(),
              HasSubstr("1 of 61440 differ, first at row 63, column 959"));
  EXPECT_THAT(tuning->rejected.back(), HasSubstr("1 of 62400 differ, first at row 64, column 959"));
}

TEST_F(GemmTunerTest, NothingIsChosenIfNothingQualifies) {
  options_.launch = [](const Gemm&, const PackedMatrix&, const GemmPlan&, const GemmLaunch&,
                       cudaStream_t) { return cudaSuccess; };
  const auto tuning = Tune({{960, 576, Gemm::Epilogue::kBf16}});
  ASSERT_FALSE(tuning.ok());
  EXPECT_THAT(std::string(tuning.status().message()), HasSubstr("no GEMM kernel qualifies"));
}

}  // namespace
}  // namespace isobit::cuda
