#include "invariance/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "tests/invariance/faulty_backends.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

constexpr ModelShape kTinyShape = {.width = 64,
                                   .ffn_width = 96,
                                   .vocab = 267,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 16,
                                   .page_tokens = 16};

CheckReport Sweep(Backend& backend, const ModelShape& shape, const SweepOptions& options) {
  auto report = SweepOperations(backend, shape, options);
  EXPECT_TRUE(report.ok()) << report.status();
  return *std::move(report);
}

void ExpectInvariant(const CheckReport& report) {
  EXPECT_TRUE(report.ok());
  for (const CheckRow& row : report.rows) {
    EXPECT_GT(row.compared, 0) << row.name;
    EXPECT_EQ(row.first_difference, "") << row.name;
  }
}

TEST(Sweep, ReferenceBackendIsInvariant) {
  const auto backend = CreateReferenceBackend();
  ExpectInvariant(Sweep(*backend, kTinyShape, {.max_rows = 40}));
}

std::unique_ptr<Backend> Cpu(const CpuOptions& options) {
  auto backend = CreateCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// Case 2: every batch size from 1 to 300, shapes of a small model.
TEST(Sweep, Case2CpuBackendEveryBatchSize) {
  for (int threads : {1, 3}) {
    ExpectInvariant(Sweep(*Cpu({.threads = threads}), kTinyShape, {.max_rows = 300}));
  }
}

// Shapes of SmolLM2-135M but for a smaller vocabulary, batch sizes with a stride.
TEST(Sweep, Case2CpuBackendShapesOfARealModel) {
  const ModelShape shape = {.width = 576,
                            .ffn_width = 1536,
                            .vocab = 4096,
                            .heads = 9,
                            .kv_heads = 3,
                            .head_dim = 64,
                            .page_tokens = 32};
  ExpectInvariant(Sweep(*Cpu({.threads = 2}), shape, {.max_rows = 80, .step = 3}));
}

class FaultTest : public testing::TestWithParam<Fault> {};

// The sweep of the faulty operation fails, and no other.
TEST_P(FaultTest, IsCaughtWhereItIs) {
  const auto backend = GetParam().make();
  const CheckReport report = Sweep(*backend, kTinyShape, {.max_rows = 40});
  EXPECT_FALSE(report.ok());
  bool caught = false;
  for (const CheckRow& row : report.rows) {
    const bool suspect = row.name.find(GetParam().operation) != std::string::npos;
    if (!suspect) {
      EXPECT_EQ(row.first_difference, "") << row.name;
    }
    if (suspect && !row.ok()) caught = true;
    EXPECT_GT(row.compared, 0);
  }
  EXPECT_TRUE(caught);
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, testing::ValuesIn(Faults()), FaultName);

// What a report of a difference says, on a GEMM that splits K.
TEST(Sweep, ReportNamesTheDifference) {
  const auto backend = Faults()[0].make();
  const auto row = SweepGemm(*backend, {.n = 48, .k = 200}, {.max_rows = 12});
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_FALSE(row->ok());
  EXPECT_EQ(row->name, "GEMM 48x200, bf16");
  // Alone a row is split; from 5 rows on it is not.
  EXPECT_THAT(row->first_difference, HasSubstr("batch of 5, row "));
  EXPECT_THAT(row->first_difference, HasSubstr("column "));
  EXPECT_THAT(row->first_difference, HasSubstr("ULP of bf16"));
  EXPECT_THAT(row->first_difference, HasSubstr("of 48 values there differ"));
  EXPECT_THAT(row->first_difference, HasSubstr("in all"));
}

// One row at every place of every batch size: a fault at a single place is found.
TEST(Sweep, EveryPlace) {
  const auto backend = CreateReferenceBackend();
  const auto report = SweepEveryPlace(*backend, 64, {.max_rows = 9});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rows.size(), 7u);
  for (const CheckRow& row : report->rows) {
    EXPECT_EQ(row.first_difference, "") << row.name;
    EXPECT_GT(row.compared, 45 * 3) << row.name;
  }
  for (const Fault& fault : Faults()) {
    if (fault.name != "a GEMM whose last row reads its neighbour") continue;
    const auto faulty = fault.make();
    const auto found = SweepEveryPlace(*faulty, 64, {.max_rows = 9});
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(found->ok());
  }
}

}  // namespace
}  // namespace isobit
