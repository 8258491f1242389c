#include "invariance/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/backends.h"
#include "tests/invariance/faulty_backends.h"
#include "tests/tiny_model.h"

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// As little work as possible: a check runs its requests some thirty times.
constexpr TinyModelOptions kTiny = {
    .layers = 1, .width = 32, .ffn_width = 32, .heads = 2, .kv_heads = 1, .context_length = 1024};
constexpr std::string_view kSweeps = "sweeps of single operations";
constexpr std::string_view kOrders = "orders of sums revealed";

CheckReport Check(const BackendFactory& factory, const CheckOptions& options) {
  auto report = CheckModel(WriteTinyModel(kTiny), factory, options);
  EXPECT_TRUE(report.ok()) << report.status();
  return *std::move(report);
}

std::string FirstDifference(const CheckReport& report, std::string_view name) {
  for (const CheckRow& row : report.rows) {
    if (row.name == name) return row.first_difference;
  }
  return "no such row: " + std::string(name);
}

TEST(Check, EveryRowComparesAndPasses) {
  std::vector<std::string> seen;
  const CheckReport report = Check(
      [](int threads) { return CreateCpuBackend({.threads = threads}); },
      {.thread_counts = {1, 2}, .on_row = [&](const CheckRow& r) { seen.push_back(r.name); }});
  EXPECT_TRUE(report.ok());
  std::set<std::string> names;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const CheckRow& row = report.rows[i];
    EXPECT_EQ(row.first_difference, "") << row.name;
    // Full logits: far more than ids and log-probabilities. An order compares its terms.
    EXPECT_GT(row.compared, row.name == kOrders ? 16 * 16 : 50 * kTinyVocab) << row.name;
    EXPECT_EQ(seen[i], row.name);
    names.insert(row.name);
  }
  EXPECT_EQ(seen.size(), report.rows.size());
  EXPECT_EQ(names.size(), report.rows.size()) << "two rows have one name";
  for (const char* name :
       {"alone, twice", "16 at once", "step budget of 7 tokens", "among noise",
        "small KV pool, preempted", "prefix cache, cold and warm", "scored = decoded",
        "free KV pages hold NaN", "2 threads", "orders of sums revealed", "1 random schedule"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// A check that goes on after another one.
TEST(Check, LeavesOutWhatIsDone) {
  const auto make = [](int threads) { return CreateCpuBackend({.threads = threads}); };
  std::vector<std::string> asked;
  std::string digest;
  const CheckReport report = Check(make, {.thread_counts = {2},
                                          .on_model =
                                              [&](const Model& model) {
                                                digest = model.digest().ToHex();
                                                return absl::OkStatus();
                                              },
                                          .is_done =
                                              [&](const std::string& name) {
                                                asked.push_back(name);
                                                return name != "2 threads";
                                              }});
  EXPECT_EQ(digest.size(), 32u);
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].name, "alone, twice");
  EXPECT_EQ(report.rows[1].name, "2 threads");
  EXPECT_TRUE(report.ok());
  for (std::string_view name : {kSweeps, kOrders, std::string_view("1 random schedule")}) {
    EXPECT_NE(std::ranges::find(asked, name), asked.end()) << name;
  }
  const auto refuse = [](const Model&) { return absl::AbortedError("another model"); };
  EXPECT_EQ(CheckModel(WriteTinyModel(kTiny), make, {.on_model = refuse}).status().message(),
            "another model");
}

class CheckFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(CheckFaultTest, IsCaught) {
  const auto make = [](int) -> absl::StatusOr<std::unique_ptr<Backend>> {
    return GetParam().make();
  };
  const CheckReport report = Check(make, {.schedules = 0, .thread_counts = {1}});
  EXPECT_EQ(FirstDifference(report, "1 thread"), "no such row: 1 thread") << "not a CPU";
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(FirstDifference(report, kSweeps), HasSubstr(GetParam().operation));
  const auto failed = [](const CheckRow& row) {
    return row.name != kSweeps && row.name != kOrders && !row.ok();
  };
  EXPECT_EQ(std::ranges::any_of(report.rows, failed), GetParam().shows_in_model);
}

INSTANTIATE_TEST_SUITE_P(All, CheckFaultTest, testing::ValuesIn(Faults()), FaultName);

}  // namespace
}  // namespace isobit
