// The CUDA backend around its kernels: memory, copies, checks and errors. Tests that need no GPU
// run everywhere.

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/backends.h"
#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

using testing::HasSubstr;

TEST(CudaBackendCreationTest, NamesWhatIsMissing) {
  const auto backend = CreateCudaBackend({.device = 1000});
  ASSERT_FALSE(backend.ok());
  if (absl::IsUnavailable(backend.status())) {
    EXPECT_THAT(backend.status().message(), HasSubstr("no CUDA device can be used"));
  } else {
    EXPECT_THAT(backend.status().message(), HasSubstr("CUDA device 1000 does not exist"));
  }
}

class CudaBackendTest : public TwinBackends {};

TEST_F(CudaBackendTest, DescribesTheDevice) {
  const DeviceInfo info = cuda().Info();
  EXPECT_EQ(info.kind, "cuda");
  EXPECT_EQ(info.instructions, "sm_90");
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.threads, 0);
  EXPECT_GT(info.available_bytes, 0);
  EXPECT_LE(info.available_bytes, info.memory_bytes);
}

TEST_F(CudaBackendTest, RefusesWhatItCannotDo) {
  const ModelShape good = {.width = 4096,
                           .ffn_width = 14336,
                           .vocab = 128256,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .page_tokens = 16};
  EXPECT_TRUE(cuda().CheckModel(good).ok());
  ModelShape shape = good;
  shape.head_dim = 72;
  EXPECT_THAT(cuda().CheckModel(shape).message(), HasSubstr("72"));
  shape = good;
  shape.width = 4100;
  EXPECT_THAT(cuda().CheckModel(shape).message(), HasSubstr("4100"));
  shape = good;
  shape.ffn_width = 100;
  EXPECT_THAT(cuda().CheckModel(shape).message(), HasSubstr("ffn_width"));
  shape = good;
  shape.vocab = 1000000;
  EXPECT_THAT(cuda().CheckModel(shape).message(), HasSubstr("1000000"));
  shape = good;
  shape.page_tokens = 2048;
  EXPECT_THAT(cuda().CheckModel(shape).message(), HasSubstr("2048"));
  shape = good;
  shape.page_tokens = 24;
  EXPECT_THAT(cuda().CheckModel(shape).message(), HasSubstr("24"));
}

// Sizes around the staging memory's segments, and more than all of it.
TEST_F(CudaBackendTest, CopiesOfAllSizes) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{1} << 20,
                       (size_t{1} << 20) + 1, (size_t{4} << 20) + 3, size_t{20} << 20}) {
    std::vector<uint8_t> from(bytes), to(bytes, 1);
    std::iota(from.begin(), from.end(), static_cast<uint8_t>(bytes));
    const auto buffer = cuda().Allocate(bytes + 1).value();
    // The caller's memory changes at once after an upload.
    std::vector<uint8_t> copy = from;
    cuda().Upload(copy.data(), bytes, buffer->data());
    std::fill(copy.begin(), copy.end(), uint8_t{0xee});
    cuda().Download(buffer->data(), bytes, to.data());
    ASSERT_TRUE(cuda().Synchronize().ok());
    EXPECT_TRUE(from == to) << bytes << " bytes";
  }
}

TEST_F(CudaBackendTest, ManySmallCopiesStayInOrder) {
  constexpr int kCount = 20000;
  const auto buffer = cuda().Allocate(kCount * sizeof(int32_t)).value();
  std::vector<int32_t> got(kCount), middle(kCount);
  for (int32_t i = 0; i < kCount; ++i) {
    cuda().Upload(&i, sizeof(i), buffer->As<int32_t>() + i);
    if (i % 2 == 0) {
      cuda().Download(buffer->As<int32_t>() + i, sizeof(i), &middle[static_cast<size_t>(i)]);
      const int32_t later = -i;
      cuda().Upload(&later, sizeof(later), buffer->As<int32_t>() + i);
    }
  }
  cuda().Download(buffer->data(), kCount * sizeof(int32_t), got.data());
  ASSERT_TRUE(cuda().Synchronize().ok());
  for (int32_t i = 0; i < kCount; ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_EQ(got[at], i % 2 == 0 ? -i : i);
    ASSERT_EQ(middle[at], i % 2 == 0 ? i : 0);
  }
}

// Each fence gives what was downloaded before it, however much is issued behind it.
TEST_F(CudaBackendTest, FencesWaitForWhatIsBeforeThem) {
  for (const size_t bytes : {size_t{4}, size_t{1000}, (size_t{4} << 20) + 5}) {
    const auto buffer = cuda().Allocate(bytes).value();
    std::vector<std::vector<uint8_t>> got(7, std::vector<uint8_t>(bytes, 0xee));
    std::vector<Fence> fences;
    const auto expect = [&](size_t i) {
      EXPECT_TRUE(got[i] == std::vector<uint8_t>(bytes, static_cast<uint8_t>(i))) << i;
    };
    for (size_t i = 0; i < got.size(); ++i) {
      const std::vector<uint8_t> value(bytes, static_cast<uint8_t>(i));
      cuda().Upload(value.data(), bytes, buffer->data());
      cuda().Download(buffer->data(), bytes, got[i].data());
      // The last has no fence of its own.
      if (i + 1 < got.size()) fences.push_back(cuda().PlaceFence());
      if (i == 0 || i > 4) continue;
      ASSERT_TRUE(cuda().Wait(fences[i - 1]).ok());
      expect(i - 1);
    }
    ASSERT_TRUE(cuda().Wait(fences[2]).ok()) << "was waited for before";
    ASSERT_TRUE(cuda().Synchronize().ok());
    for (size_t i = 0; i < got.size(); ++i) expect(i);
    ASSERT_TRUE(cuda().Wait(fences.back()).ok());
  }
}

TEST_F(CudaBackendTest, NamesMemoryThatIsNotThere) {
  const auto buffer = cuda().Allocate(size_t{1} << 50);
  ASSERT_TRUE(absl::IsResourceExhausted(buffer.status())) << buffer.status();
  EXPECT_THAT(buffer.status().message(), HasSubstr("1125899906842624 bytes asked for"));
  // Nothing is broken by it.
  EXPECT_TRUE(cuda().Allocate(16).ok());
  EXPECT_TRUE(cuda().Synchronize().ok());
  const auto cache = cuda().CreateKvCache({32, 8, 128, 16, int64_t{1} << 30});
  EXPECT_TRUE(absl::IsResourceExhausted(cache.status())) << cache.status();
}

// One layer as a model runs it, twice over: each operation's input is the one before's output.
TEST_F(CudaBackendTest, ALayerOfAModel) {
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 64, kWidth = 256, kFfn = 384;
  constexpr int64_t kRows = 37;
  RandomValues random(3);
  const auto weight = [&](int64_t rows, int64_t cols, WeightLayout layout,
                          const QkvHeads* heads = nullptr) {
    const std::vector<Bf16> values = random.NormalRow(rows * cols, 0.1);
    const auto read = [&values, cols](int64_t first) {
      return [&values, cols, first](int64_t begin, int64_t end, Bf16* out) {
        std::copy(values.begin() + (first + begin) * cols, values.begin() + (first + end) * cols,
                  out);
      };
    };
    std::vector<MatrixSource> parts = {{rows, cols, read(0)}};
    if (layout == WeightLayout::kGateUp) {
      parts = {{rows / 2, cols, read(0)}, {rows / 2, cols, read(rows / 2)}};
    }
    if (heads != nullptr) {
      const int64_t keys = int64_t{heads->kv_heads} * heads->head_dim, queries = rows - 2 * keys;
      parts = {
          {queries, cols, read(0)}, {keys, cols, read(queries)}, {keys, cols, read(rows - keys)}};
    }
    const auto load = [&](Backend& backend) {
      return heads == nullptr ? backend.LoadWeight(parts, layout).value()
                              : backend.LoadQkvWeight(parts, *heads).value();
    };
    return std::make_pair(load(cuda()), load(reference()));
  };
  constexpr int kFused = (kHeads + 2 * kKvHeads) * kHeadDim;
  const QkvHeads heads = {kHeads, kKvHeads, kHeadDim, kHeadDim};
  const auto qkv_weight = weight(kFused, kWidth, WeightLayout::kConcatenated, &heads);
  const auto o_weight = weight(kWidth, kHeads * kHeadDim, WeightLayout::kConcatenated);
  const auto gate_up = weight(2 * kFfn, kWidth, WeightLayout::kGateUp);
  const auto down = weight(kWidth, kFfn, WeightLayout::kConcatenated);
  const auto norm = Both(random.NormalRow(kWidth));
  std::vector<float> cos_values, sin_values;
  for (int64_t i = 0; i < kRows * kHeadDim / 2; ++i) {
    cos_values.push_back(static_cast<float>(std::cos(0.1 * static_cast<double>(i))));
    sin_values.push_back(static_cast<float>(std::sin(0.1 * static_cast<double>(i))));
  }
  const auto cos = Both(cos_values), sin = Both(sin_values);
  const auto hidden = Both(random.NormalRow(kRows * kWidth));
  const auto normed = Poisoned<Bf16>(kRows * kWidth);
  const auto qkv = Poisoned<Bf16>(kRows * kFused);
  const auto q = Poisoned<Bf16>(kRows * kHeads * kHeadDim);
  const auto attended = Poisoned<Bf16>(kRows * kHeads * kHeadDim);
  const auto active = Poisoned<Bf16>(kRows * kFfn);
  const KvCacheShape shape = {1, kKvHeads, kHeadDim, 16, 3};
  const auto cuda_cache = cuda().CreateKvCache(shape).value();
  const auto reference_cache = reference().CreateKvCache(shape).value();
  std::vector<int32_t> position(kRows);
  std::iota(position.begin(), position.end(), 0);
  const auto positions = Both(position);
  const auto sequence = Both(std::vector<int32_t>(kRows, 0));
  const auto first_row = Both(std::vector<int32_t>{0, kRows});
  const auto table = Both(std::vector<int32_t>{2, 0, 1});
  for (const bool c : {true, false}) {
    Backend& backend = c ? cuda() : reference();
    const auto of = [&](const auto& pair) { return c ? pair.first.get() : pair.second.get(); };
    KvCache* cache = c ? cuda_cache.get() : reference_cache.get();
    const RowBatch batch = {
        kRows, 1,    Side(positions, c), Side(sequence, c), Side(first_row, c), Side(table, c),
        3,     kRows};
    for (int layer = 0; layer < 2; ++layer) {
      const RmsNorm norm_op = {.rows = kRows,
                               .width = kWidth,
                               .eps = 1e-5f,
                               .x = Side(hidden, c),
                               .weight = Side(norm, c),
                               .out = Side(normed, c)};
      backend.Run(norm_op);
      const Gemm projection = {
          .rows = kRows, .weight = of(qkv_weight), .x = Side(normed, c), .out_bf16 = Side(qkv, c)};
      const RopeKvWrite rope = {.batch = &batch,
                                .heads = kHeads,
                                .kv_heads = kKvHeads,
                                .head_dim = kHeadDim,
                                .qkv = Side(qkv, c),
                                .rotary_dim = kHeadDim,
                                .cos = Side(cos, c),
                                .sin = Side(sin, c),
                                .q = Side(q, c),
                                .cache = cache,
                                .layer = 0};
      backend.Run(QkvProjection{projection, rope});
      backend.Run(Attention{.batch = &batch,
                            .heads = kHeads,
                            .kv_heads = kKvHeads,
                            .head_dim = kHeadDim,
                            .softmax_scale = 0.125,
                            .q = Side(q, c),
                            .cache = cache,
                            .layer = 0,
                            .out = Side(attended, c)});
      backend.Run(Gemm{.rows = kRows,
                       .weight = of(o_weight),
                       .x = Side(attended, c),
                       .residual = Side(hidden, c),
                       .out_bf16 = Side(hidden, c)});
      backend.Run(norm_op);
      backend.Run(Gemm{.rows = kRows,
                       .weight = of(gate_up),
                       .x = Side(normed, c),
                       .epilogue = Gemm::Epilogue::kSiluGate,
                       .out_bf16 = Side(active, c)});
      backend.Run(Gemm{.rows = kRows,
                       .weight = of(down),
                       .x = Side(active, c),
                       .residual = Side(hidden, c),
                       .out_bf16 = Side(hidden, c)});
    }
  }
  ExpectEqualBits(hidden, kWidth, "hidden state after two layers");
}

}  // namespace
}  // namespace isobit
