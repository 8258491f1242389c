#include "kernels/cuda/gemm_plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/gemm_planner.h"
#include "kernels/cuda/gemm_tuner.h"

namespace isobit::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int kMultiprocessors = 132;
const PackedLayout kPlain = {4096, 14336, false};
const PackedLayout kGated = {28672, 4096, true};

// A kernel that serves the weight and that PlanGemm would not take.
GemmKernelId OtherThanEstimated(const PackedLayout& weight, int64_t rows) {
  const GemmKernelId estimated = PlanGemm(weight, rows, kMultiprocessors).kernel;
  for (const GemmKernelId& kernel : GemmKernels()) {
    if (kernel != estimated && kernel.tile_rows % weight.GroupRows() == 0) return kernel;
  }
  ADD_FAILURE();
  return {};
}

GemmPlanFile SomePlans() {
  return {{"NVIDIA H200", 132, 13000, 13000, kGemmKernelsVersion},
          {{kPlain, Gemm::Epilogue::kBf16, 1, 8, OtherThanEstimated(kPlain, 8), 8, 28.5},
           {kGated, Gemm::Epilogue::kSiluGate, 9, 64, OtherThanEstimated(kGated, 64), 24, 57.25}}};
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GemmPlanFile, ComesBackAsItWasWritten) {
  const GemmPlanFile plans = SomePlans();
  const auto read = ParseGemmPlanFile(ToJson(plans));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key, plans.key);
  ASSERT_EQ(read->choices.size(), plans.choices.size());
  for (size_t i = 0; i < plans.choices.size(); ++i) {
    const GemmChoice& expected = plans.choices[i];
    const GemmChoice& actual = read->choices[i];
    EXPECT_EQ(actual.weight.rows, expected.weight.rows);
    EXPECT_EQ(actual.weight.cols, expected.weight.cols);
    EXPECT_EQ(actual.weight.gate_up, expected.weight.gate_up);
    EXPECT_EQ(actual.epilogue, expected.epilogue);
    EXPECT_EQ(actual.first_rows, expected.first_rows);
    EXPECT_EQ(actual.last_rows, expected.last_rows);
    EXPECT_EQ(actual.kernel, expected.kernel);
    EXPECT_EQ(actual.tile_tokens, expected.tile_tokens);
    EXPECT_EQ(actual.microseconds, expected.microseconds);
  }
  EXPECT_EQ(ToJson(*read), ToJson(plans));
}

TEST(GemmPlanFile, SaysWhatIsWrong) {
  const std::string good = ToJson(SomePlans());
  const auto expect = [](const std::string& text, const char* message) {
    const auto read = ParseGemmPlanFile(text);
    ASSERT_FALSE(read.ok()) << message;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(message));
  };
  expect("", "no JSON");
  expect(good.substr(0, good.size() / 2), "no JSON");
  expect("[]", "no file of \"isobit gemm plans\"");
  expect("{}", "no file of \"isobit gemm plans\"");
  expect(Replaced(good, "isobit gemm plans", "plans"), "no file of");
  expect(Replaced(good, "\"version\": 2", "\"version\": 1"), "version is 1");
  expect(Replaced(good, "\"choices\": [", "\"choices\": 3, \"others\": ["), "choices is missing");
  expect(Replaced(good, "\"gpu\": \"NVIDIA H200\"", "\"gpu\": 7"), "gpu is no string");
  expect(Replaced(good, "\"weight_rows\"", "\"rows\""), "choice 0: weight_rows is missing");
  expect(Replaced(good, "\"weight_cols\": 14336", "\"weight_cols\": 0"), "weight_cols is 0");
  expect(Replaced(good, "\"weight_cols\": 14336", "\"weight_cols\": 18446744073709551615"),
         "weight_cols is 18446744073709551615");
  expect(Replaced(good, "\"weight_cols\": 14336", "\"weight_cols\": 1e300"), "weight_cols is");
  expect(Replaced(good, "\"epilogue\": \"bf16\"", "\"epilogue\": \"relu\""),
         "no epilogue \"relu\"");
  expect(Replaced(good, "\"first_rows\": 9", "\"first_rows\": 65"), "choice 1: last_rows is 64");
  expect(Replaced(good, "\"tile_rows\": ", "\"tile_rows\": 1"), "choice 0: no kernel of 1");
  expect(Replaced(good, "\"pair\": ", "\"pair\": 0, \"double\": "), "pair is neither");
  expect(Replaced(good, "\"tile_tokens\": 24", "\"tile_tokens\": 0"), "choice 1: tile_tokens is 0");
  expect(Replaced(good, "\"tile_tokens\": 24", "\"tile_tokens\": 240"), "tile_tokens is 240");
}

TEST(GemmPlanner, TakesWhatWasMeasuredAndEstimatesTheRest) {
  const GemmPlanFile plans = SomePlans();
  GemmPlanner planner(kMultiprocessors);
  const auto planned = [&](const PackedLayout& weight, Gemm::Epilogue epilogue, int64_t rows) {
    return planner.Plan(weight, epilogue, rows).kernel;
  };
  const auto estimated = [](const PackedLayout& weight, int64_t rows) {
    return PlanGemm(weight, rows, kMultiprocessors).kernel;
  };
  using enum Gemm::Epilogue;
  EXPECT_EQ(planned(kPlain, kBf16, 8), estimated(kPlain, 8));
  planner.Use(plans.choices);
  for (int64_t rows = 1; rows <= 8; ++rows) {
    EXPECT_EQ(planned(kPlain, kBf16, rows), plans.choices[0].kernel);
  }
  EXPECT_EQ(planned(kPlain, kBf16, 9), estimated(kPlain, 9));
  EXPECT_EQ(planned(kPlain, kFp32, 8), estimated(kPlain, 8));
  EXPECT_EQ(planned(kGated, kSiluGate, 8), estimated(kGated, 8));
  EXPECT_EQ(planned(kGated, kSiluGate, 9), plans.choices[1].kernel);
  EXPECT_EQ(planned(kGated, kSiluGate, 64), plans.choices[1].kernel);
  EXPECT_EQ(planned(kGated, kGeluGate, 64), estimated(kGated, 64));
  // Of the rows asked for, not of the last of the range.
  EXPECT_EQ(planner.Plan(kPlain, kBf16, 3).tokens, 3);
  EXPECT_EQ(planner.Plan(kGated, kSiluGate, 9).token_tiles, 1);
  // In tiles no higher than the choice says.
  const GemmPlan tiled = planner.Plan(kGated, kSiluGate, 64);
  EXPECT_LE(tiled.tokens, 24);
  EXPECT_EQ(tiled.token_tiles, tiled.kernel.pair ? 2 : 3);
}

TEST(GemmTuner, RangesCoverAllRows) {
  for (const int64_t max_rows : {1, 8, 9, 100, 512, 8192, 16384}) {
    int64_t next = 1;
    for (const RowsRange& range : TunedRanges(max_rows)) {
      EXPECT_EQ(range.first, next);
      EXPECT_LE(range.first, range.last);
      next = range.last + 1;
    }
    EXPECT_EQ(next, max_rows + 1);
  }
}

}  // namespace
}  // namespace isobit::cuda
