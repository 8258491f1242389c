#include "kernels/reference/backend.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backends.h"

namespace isobit {
namespace {

using reference::ReferenceKvCache;
using reference::ReferenceWeight;

// Element (row, col) of part p is unique.
Bf16 Element(int part, int64_t row, int64_t col) {
  return Bf16{static_cast<uint16_t>(part * 20000 + row * 100 + col)};
}

MatrixSource Source(int part, int64_t rows, int64_t cols, std::map<int64_t, int>* reads) {
  return {rows, cols, [part, rows, cols, reads](int64_t begin, int64_t end, Bf16* out) {
            EXPECT_EQ(begin % kWeightBlockRows, 0);
            EXPECT_EQ(end, std::min(begin + kWeightBlockRows, rows));
            ++(*reads)[begin];
            for (int64_t r = begin; r < end; ++r) {
              for (int64_t c = 0; c < cols; ++c) *out++ = Element(part, r, c);
            }
          }};
}

TEST(ReferenceBackend, LaysPartsBelowEachOtherAndReadsEachBlockOnce) {
  auto backend = CreateReferenceBackend();
  std::map<int64_t, int> reads[3];
  const int64_t rows[] = {70, 32, 1};
  std::vector<MatrixSource> parts;
  for (int p = 0; p < 3; ++p) parts.push_back(Source(p, rows[p], 5, &reads[p]));
  auto weight = backend->LoadWeight(parts, WeightLayout::kConcatenated);
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_EQ((*weight)->rows(), 103);
  EXPECT_EQ((*weight)->cols(), 5);
  EXPECT_EQ(reads[0], (std::map<int64_t, int>{{0, 1}, {32, 1}, {64, 1}}));
  EXPECT_EQ(reads[1], (std::map<int64_t, int>{{0, 1}}));
  EXPECT_EQ(reads[2], (std::map<int64_t, int>{{0, 1}}));
  const auto& w = static_cast<const ReferenceWeight&>(**weight);
  EXPECT_EQ(w.Row(69)[4], Element(0, 69, 4));
  EXPECT_EQ(w.Row(70)[0], Element(1, 0, 0));
  EXPECT_EQ(w.Row(102)[3], Element(2, 0, 3));
}

TEST(ReferenceBackend, FillsWholePagesAndNothingElse) {
  auto backend = CreateReferenceBackend();
  const KvCacheShape shape = {/*layers=*/2, /*kv_heads=*/2, /*head_dim=*/4, /*page_tokens=*/16,
                              /*pages=*/3};
  auto cache = *backend->CreateKvCache(shape);
  backend->FillPages(*cache, std::vector<int32_t>{0, 1, 2}, kOneBf16);
  backend->FillPages(*cache, std::vector<int32_t>{1}, kCanonicalNanBf16);
  const auto& kv = static_cast<const ReferenceKvCache&>(*cache);
  for (int layer = 0; layer < 2; ++layer) {
    for (int page = 0; page < 3; ++page) {
      for (int h = 0; h < 2; ++h) {
        for (int slot = 0; slot < 16; ++slot) {
          for (int i = 0; i < 4; ++i) {
            const Bf16 want = page == 1 ? kCanonicalNanBf16 : kOneBf16;
            ASSERT_EQ(kv.Key(layer, page, h, slot)[i], want);
            ASSERT_EQ(kv.Value(layer, page, h, slot)[i], want);
          }
        }
      }
    }
  }
}

TEST(ReferenceBackend, CopiesUpAndDown) {
  auto backend = CreateReferenceBackend();
  auto buffer = *backend->Allocate(16);
  std::vector<uint8_t> up = {1, 2, 3, 4}, down(4);
  backend->Upload(up.data(), 4, buffer->As<uint8_t>() + 3);
  up.assign(4, 9);  // has been read already
  backend->Download(buffer->As<uint8_t>() + 3, 4, down.data());
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_EQ(down, (std::vector<uint8_t>{1, 2, 3, 4}));
  backend->Upload(nullptr, 0, nullptr);
}

TEST(ReferenceBackend, RefusesWithAStatus) {
  auto backend = CreateReferenceBackend();
  EXPECT_EQ(backend->Allocate(std::numeric_limits<size_t>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->LoadWeight({}, WeightLayout::kConcatenated).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->CreateKvCache({1, 1, 64, 15, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->CreateKvCache({80, 8, 128, 16, int64_t{1} << 40}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(backend->CheckModel({576, 1536, 49152, 9, 2, 64, 16}).ok());
  EXPECT_TRUE(backend->CheckModel({576, 1536, 49152, 9, 3, 64, 16}).ok());
}

TEST(ReferenceBackend, SaysWhatItIs) {
  const DeviceInfo info = CreateReferenceBackend()->Info();
  EXPECT_EQ(info.kind, "reference");
  EXPECT_EQ(info.instructions, "scalar");
  EXPECT_EQ(info.threads, 1);
  EXPECT_GT(info.available_bytes, 0);
  EXPECT_GE(info.memory_bytes, info.available_bytes);
}

}  // namespace
}  // namespace isobit
