// QkvProjection of the CUDA backend against the reference, which runs it as two operations.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/cuda/packed_weight.h"
#include "tests/kernels/cuda/gemm_gpu.h"
#include "tests/kernels/cuda/rope_twins.h"

namespace isobit {
namespace {

struct ProjectionCase {
  RopeCase rope;
  int64_t width = 96;
  bool bias = false;
  float scale = 1.0f;
  bool is_wild = false;  // rows of x that are not finite, and any finite bf16
  std::optional<int> loaded_rotary = std::nullopt;          // rotary_dim of the weight, if another
  std::optional<cuda::GemmKernelId> kernel = std::nullopt;  // instead of the backend's choice
  bool few_units = false;                                   // of that kernel, with many tiles each
};

class CudaQkvProjectionTest : public RopeTwins {
 protected:
  void Check(const ProjectionCase& c) {
    const RopeCase& rope = c.rope;
    const int64_t fused = (rope.heads + 2 * rope.kv_heads) * rope.head_dim;
    int64_t rows = 0;
    for (const auto& [first, count] : rope.sequences) rows += count;
    RandomValues random(static_cast<uint64_t>(rows * 1009 + fused * 13 + c.width));
    const std::vector<Bf16> weights = random.NormalRow(fused * c.width, 0.25);
    const auto x = Both(MakeX(random, rows, c));
    std::vector<float> bias_values;
    for (int64_t i = 0; i < fused; ++i) bias_values.push_back(static_cast<float>(random.Normal()));
    const auto bias = Both(bias_values);
    const auto of_cuda = Load(cuda(), c, weights), of_reference = Load(reference(), c, weights);
    RopeTwins::Check(rope, [&](bool on_cuda, const RopeKvWrite& op) {
      const Gemm projection = {.rows = rows,
                               .weight = on_cuda ? of_cuda.get() : of_reference.get(),
                               .x = Side(x, on_cuda),
                               .bias = c.bias ? Side(bias, on_cuda) : nullptr,
                               .scale = c.scale,
                               .out_bf16 = const_cast<Bf16*>(op.qkv)};
      if (on_cuda && c.kernel) return RunKernel(*c.kernel, c.few_units, {projection, op});
      (on_cuda ? cuda() : reference()).Run(QkvProjection{projection, op});
    });
  }

 private:
  static std::vector<Bf16> MakeX(RandomValues& random, int64_t rows, const ProjectionCase& c) {
    std::vector<Bf16> x = random.NormalRow(rows * c.width);
    if (!c.is_wild) return x;
    for (size_t i = 0; i < x.size(); i += 7) x[i] = random.FiniteBf16();
    x[0] = {0x7fc0};                                              // NaN
    x[static_cast<size_t>((rows - 1) * c.width + 1)] = {0xff80};  // -infinity
    return x;
  }

  static std::unique_ptr<Weight> Load(Backend& backend, const ProjectionCase& c,
                                      const std::vector<Bf16>& weights) {
    const RopeCase& r = c.rope;
    std::vector<MatrixSource> parts;
    int64_t first = 0;
    for (const int heads : {r.heads, r.kv_heads, r.kv_heads}) {
      const int64_t part_rows = int64_t{heads} * r.head_dim;
      parts.push_back({part_rows, c.width,
                       [&weights, first, k = c.width](int64_t begin, int64_t end, Bf16* to) {
                         std::copy(weights.begin() + (first + begin) * k,
                                   weights.begin() + (first + end) * k, to);
                       }});
      first += part_rows;
    }
    const int rotary_dim = c.loaded_rotary.value_or(r.rotary_dim);
    return backend.LoadQkvWeight(parts, {r.heads, r.kv_heads, r.head_dim, rotary_dim}).value();
  }

  void RunKernel(const cuda::GemmKernelId& kernel, bool few_units, const QkvProjection& op) {
    ASSERT_TRUE(cuda().Synchronize().ok());
    const cuda::PackedMatrix& matrix =
        static_cast<const cuda::PackedWeight&>(*op.projection.weight).matrix();
    ASSERT_GT(matrix.layout.heads.head_dim, 0);
    auto plan =
        cuda::PlanWithKernel(kernel, matrix.layout, op.projection.rows, cuda::Multiprocessors());
    ASSERT_TRUE(plan.has_value());
    if (few_units) plan->units = std::min(plan->units, 2);
    cuda::Check(cuda::LaunchQkvProjection(op, matrix,
                                          static_cast<const cuda::CudaKvCache&>(*op.rope.cache),
                                          *plan, cuda::GemmLaunch{}, nullptr));
    cuda::Check(cudaDeviceSynchronize());
  }
};

TEST_F(CudaQkvProjectionTest, EveryHeadDim) {
  for (int head_dim : cuda::kHeadDims) {
    Check({.rope = {4, 2, head_dim, 16, head_dim, false, {{0, 3}, {17, 1}, {60, 9}}}});
    Check({.rope = {6, 1, head_dim, 32, head_dim, false, {{31, 2}, {299, 1}}},
           .width = 200,
           .bias = true});
  }
}

TEST_F(CudaQkvProjectionTest, PartialAndNoRotation) {
  for (const bool bias : {false, true}) {
    Check({.rope = {3, 3, 80, 16, 32, false, {{5, 4}}}, .bias = bias});
    Check({.rope = {3, 3, 64, 16, 20, false, {{250, 4}}}, .bias = bias});  // not fused
    Check({.rope = {2, 1, 128, 64, 0, false, {{63, 3}}}, .bias = bias});
    // A layer that does not rotate, of a model that does.
    Check({.rope = {2, 1, 128, 64, 0, false, {{63, 3}}}, .bias = bias, .loaded_rotary = 128});
  }
}

TEST_F(CudaQkvProjectionTest, PageSizes) {
  for (int page_tokens : {16, 48, 64, 112, 128}) {
    Check({.rope = {2, 2, 64, page_tokens, 64, false, {{0, 70}, {110, 30}}}, .scale = 0.5f});
  }
}

TEST_F(CudaQkvProjectionTest, AnyNumbers) {
  for (const int rows : {1, 7, 40}) {
    Check({.rope = {4, 2, 64, 16, 64, false, {{3, rows}, {100, 2}}}, .is_wild = true});
  }
}

// More rows than a tile, a band and all multiprocessors have.
TEST_F(CudaQkvProjectionTest, ManyRows) {
  Check({.rope = {9, 3, 64, 16, 64, false, {{0, 300}, {0, 1}, {3, 250}, {299, 1}}}, .width = 32});
  std::vector<std::pair<int, int>> sequences;
  for (int i = 0; i < 10; ++i) sequences.push_back({i, 290});
  Check({.rope = {8, 2, 128, 32, 128, false, sequences}, .width = 16});
}

TEST_F(CudaQkvProjectionTest, EveryKernel) {
  for (const cuda::GemmKernelId& kernel : cuda::GemmKernels()) {
    for (const int rows : {1, 20, 150}) {
      const int head_dim = rows == 20 ? 80 : 128;
      const int rotary_dim = rows == 20 ? 32 : 128;
      Check({.rope = {5, 1, head_dim, 16, rotary_dim, false, {{7, rows}, {120, 2}}},
             .width = 32,
             .bias = rows == 20,
             .kernel = kernel});
    }
  }
}

// CTAs with many tiles, of which warpgroups may take turns, that go around the ring many times.
TEST_F(CudaQkvProjectionTest, ManyTilesAndALongK) {
  for (const int tile_rows : {128, 160, 256}) {
    Check({.rope = {8, 1, 80, 16, 32, false, {{7, 290}, {120, 2}}},
           .width = 768,
           .bias = tile_rows == 160,
           .kernel = cuda::GemmKernelId{tile_rows, 2, false},
           .few_units = true});
  }
}

}  // namespace
}  // namespace isobit
