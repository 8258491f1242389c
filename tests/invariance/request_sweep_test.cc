// One request in every situation: nothing differs, and what would is found.

#include "invariance/request_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/invariance/faulty_backends.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

TEST(RequestSweep, NoSituationShows) {
  auto model = LoadTiny();
  std::vector<std::string> seen;
  const auto rows =
      SweepRequest(model, {.on_row = [&](const CheckRow& row) { seen.push_back(row.name); }});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 8u);
  EXPECT_EQ(seen.size(), rows->size());
  for (const CheckRow& row : *rows) {
    EXPECT_EQ(row.first_difference, "") << row.name;
    // No logits are looked at where steps are issued ahead.
    EXPECT_GT(row.compared, row.name.starts_with("steps issued") ? 80 : 40'000) << row.name;
  }
  EXPECT_NE(model, nullptr);
}

// The rows that must find a fault which depends on the batch.
TEST(RequestSweep, FaultsShow) {
  for (const Fault& fault : Faults()) {
    if (fault.name != "a draw that depends on the slot" &&
        fault.name != "attention that follows a wrong page") {
      continue;
    }
    auto model = Model::Load(WriteTinyModel({}), fault.make());
    ASSERT_TRUE(model.ok());
    const auto rows = SweepRequest(*model, {.prompt = 24, .output = 6, .most_company = 4});
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (const CheckRow& row : *rows) {
      if (row.name.starts_with("every slot")) {
        EXPECT_NE(row.first_difference, "") << fault.name;
      }
      if (row.name.starts_with("prefill chunks")) {
        EXPECT_EQ(row.first_difference, "") << fault.name;
      }
    }
  }
}

}  // namespace
}  // namespace isobit
