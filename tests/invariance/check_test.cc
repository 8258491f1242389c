#include "invariance/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/backends.h"
#include "tests/tiny_model.h"

namespace isobit {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> Reference(int) { return CreateReferenceBackend(); }

std::string Print(const CheckReport& report) {
  std::string text;
  for (const CheckRow& row : report.rows) {
    char line[200];
    std::snprintf(line, sizeof(line), "%-45s %10lld %6.2fs ", row.name.c_str(),
                  static_cast<long long>(row.compared), row.seconds);
    text += line + (row.ok() ? "ok" : row.first_difference) + "\n";
  }
  return text;
}

TEST(Check, TinyModelOnTheReferenceBackend) {
  const auto report = CheckModel(WriteTinyModel(), Reference, {.thread_counts = {1}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok());
  std::puts(Print(*report).c_str());
}

}  // namespace
}  // namespace isobit
