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
constexpr std::string_view kSweeps = "13 sweeps of single operations";
constexpr std::string_view kOrders = "16 orders of sums revealed";

CheckReport Check(const std::function<std::unique_ptr<Backend>()>& make,
                  const CheckOptions& options) {
  const auto factory = [&](int) -> absl::StatusOr<std::unique_ptr<Backend>> { return make(); };
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
      CreateReferenceBackend,
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
  for (const char* name : {"alone, twice", "16 at once", "step budget of 7 tokens", "among noise",
                           "small KV pool, preempted", "prefix cache, cold and warm",
                           "scored = decoded", "free KV pages hold NaN", "2 threads",
                           "16 orders of sums revealed", "1 random schedule"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

class CheckFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(CheckFaultTest, IsCaught) {
  const CheckReport report = Check(GetParam().make, {.schedules = 0, .thread_counts = {}});
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
