// Receipts of small models, golden/receipts/tiny_N.json, replay with every instruction set of this
// machine and on its GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/invariance/golden_digests.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

class GoldenReceipts : public testing::TestWithParam<std::string> {};

TEST_P(GoldenReceipts, Replay) {
  const std::vector<GoldenModel> models = GoldenTinyModels();
  for (size_t i = 0; i < models.size(); ++i) {
    SCOPED_TRACE(GoldenTinyReceiptPath(i));
    const auto receipt = ReadReceipt(GoldenTinyReceiptPath(i));
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(CheckIntact(*receipt), absl::OkStatus());
    EXPECT_FALSE(receipt->completion.choices.front().token_ids.empty());
    const auto engine = MakeEngine({.kv_cache_tokens = 8192}, models[i].options, GetParam());
    ASSERT_EQ(CheckReplayable(*receipt, engine->model().digest()), absl::OkStatus());
    const auto replayed = engine->Generate({RequestOf(*receipt)});
    ASSERT_TRUE(replayed.front().ok()) << replayed.front().status();
    EXPECT_EQ(Compare(*receipt, *replayed.front()), absl::OkStatus());
  }
}

// There is no file of the series that no model stands for.
TEST(GoldenReceiptFiles, AllAreRead) {
  const auto folder = std::filesystem::path(GoldenTinyReceiptPath(0)).parent_path();
  const auto is_tiny = [](const auto& entry) {
    return entry.path().filename().string().starts_with("tiny_");
  };
  EXPECT_EQ(std::count_if(std::filesystem::directory_iterator(folder), {}, is_tiny),
            std::ssize(GoldenTinyModels()));
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenReceipts, testing::ValuesIn(BackendNames()),
                         BackendTestName);

}  // namespace
}  // namespace isobit
