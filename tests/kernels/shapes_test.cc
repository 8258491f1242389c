#include "kernels/shapes.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace isobit {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

std::vector<MatrixSource> Parts(const std::vector<std::pair<int64_t, int64_t>>& shapes) {
  std::vector<MatrixSource> parts;
  for (const auto& [rows, cols] : shapes) parts.push_back({rows, cols, nullptr});
  return parts;
}

TEST(MatrixParts, AddUpRows) {
  const auto parts = Parts({{3, 8}, {5, 8}, {1, 8}});
  const auto shape = CheckMatrixParts(parts, WeightLayout::kConcatenated);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->rows, 9);
  EXPECT_EQ(shape->cols, 8);
}

TEST(MatrixParts, RefusesWhatIsNoMatrix) {
  for (const auto& parts :
       {Parts({}), Parts({{0, 8}}), Parts({{8, -1}}), Parts({{4, 8}, {4, 9}}), Parts({{kHuge, 8}}),
        Parts({{kHuge / 2 + 1, 1}}), Parts({{kHuge / 4, 1}, {kHuge / 4, 1}, {kHuge / 4, 1}})}) {
    EXPECT_EQ(CheckMatrixParts(parts, WeightLayout::kConcatenated).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(MatrixParts, GateAndUpAreTwoOfOneShape) {
  EXPECT_TRUE(CheckMatrixParts(Parts({{4, 8}, {4, 8}}), WeightLayout::kGateUp).ok());
  EXPECT_FALSE(CheckMatrixParts(Parts({{4, 8}}), WeightLayout::kGateUp).ok());
  EXPECT_FALSE(CheckMatrixParts(Parts({{4, 8}, {5, 8}}), WeightLayout::kGateUp).ok());
  EXPECT_FALSE(CheckMatrixParts(Parts({{4, 8}, {4, 8}, {4, 8}}), WeightLayout::kGateUp).ok());
}

TEST(CheckKvCacheShape, CountsBytes) {
  const KvCacheShape shape = {/*layers=*/30, /*kv_heads=*/3, /*head_dim=*/64, /*page_tokens=*/16,
                              /*pages=*/100};
  const auto bytes = CheckKvCacheShape(shape);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, int64_t{2} * 2 * 30 * 3 * 64 * 16 * 100);
  EXPECT_EQ(*bytes, shape.BytesPerPage() * shape.pages);
}

TEST(CheckKvCacheShape, RefusesNumbersByName) {
  const KvCacheShape good = {2, 3, 64, 16, 100};
  KvCacheShape bad = good;
  bad.page_tokens = 24;
  EXPECT_THAT(std::string(CheckKvCacheShape(bad).status().message()),
              testing::HasSubstr("multiple of 16, got 24"));
  bad = good;
  bad.pages = kHuge / 1000;
  EXPECT_EQ(CheckKvCacheShape(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.layers = 0;
  EXPECT_EQ(CheckKvCacheShape(bad).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CheckModelShape, RefusesNumbersByName) {
  const ModelShape good = {576, 1536, 49152, 9, 3, 64, 16};
  EXPECT_TRUE(CheckModelShape(good).ok());
  const auto message = [](const ModelShape& shape) {
    return std::string(CheckModelShape(shape).message());
  };
  ModelShape bad = good;
  bad.width = 0;
  EXPECT_THAT(message(bad), testing::HasSubstr("width must be between 1 and 16777216, got 0"));
  bad = good;
  bad.vocab = int64_t{1} << 24;
  EXPECT_THAT(message(bad),
              testing::HasSubstr("vocab must be between 1 and 16777215, got 16777216"));
  bad = good;
  bad.head_dim = 513;
  EXPECT_THAT(message(bad), testing::HasSubstr("head_dim must be between 1 and 512, got 513"));
  bad = good;
  bad.heads = 10;
  EXPECT_THAT(message(bad), testing::HasSubstr("multiple of kv_heads, got 10 and 3"));
  bad = good;
  bad.page_tokens = 8;
  EXPECT_THAT(message(bad), testing::HasSubstr("got 8"));
}

}  // namespace
}  // namespace isobit
