// Attention of the CUDA backend, bit for bit: against the reference backend, and on larger inputs
// against the specification run on the GPU (attention_oracle.h).

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/kv_layout.h"
#include "kernels/cuda/qualify_inputs.h"
#include "tests/kernels/cuda/attention_case.h"
#include "tests/kernels/cuda/attention_oracle.h"
#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

class CudaAttentionTest : public TwinBackends {
 protected:
  static std::string Name(const AttentionShape& shape, Scores scores) {
    return std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
           std::to_string(shape.head_dim) + ", pages of " + std::to_string(shape.page_tokens) +
           ", window " + std::to_string(shape.window) + ", " + ToString(scores) + " scores";
  }

  void CheckAgainstReference(const AttentionShape& shape, const std::vector<SequenceRows>& rows,
                             Scores scores) {
    const AttentionInputs in = MakeInputs(shape, rows, scores, ++seed_);
    const auto expected = AttentionOnBackend(reference(), in).Run();
    AttentionOnBackend on_cuda(cuda(), in);
    EXPECT_EQ(cuda::LaunchPoisonSharedMemory(nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto actual = on_cuda.Run();
    ExpectEqualBits(actual, expected, int64_t{shape.heads} * shape.head_dim, Name(shape, scores));
  }

  void CheckAgainstOracle(const AttentionShape& shape, const std::vector<SequenceRows>& rows,
                          Scores scores) {
    const AttentionInputs in = MakeInputs(shape, rows, scores, ++seed_);
    const auto expected = RunOracle(in);
    AttentionOnBackend on_cuda(cuda(), in);
    const auto actual = on_cuda.Run();
    ExpectEqualBits(actual, expected, int64_t{shape.heads} * shape.head_dim, Name(shape, scores));
    // Again, with other work on other SMs: a race would show.
    ExpectEqualBits(on_cuda.Run(), actual, 1, "repeated, " + Name(shape, scores));
  }

  std::vector<Bf16> RunOracle(const AttentionInputs& in) {
    const auto q = ToGpu(in.q), keys = ToGpu(in.keys), values = ToGpu(in.values);
    const auto position = ToGpu(in.position);
    const auto history = ToGpu(in.history);
    const auto out = cuda().Allocate(in.q.size() * sizeof(Bf16)).value();
    EXPECT_TRUE(cuda().Synchronize().ok());
    const AttentionOracle oracle = {.rows = in.rows,
                                    .heads = in.shape.heads,
                                    .kv_heads = in.shape.kv_heads,
                                    .head_dim = in.shape.head_dim,
                                    .window = in.shape.window,
                                    .softmax_scale = in.shape.softmax_scale,
                                    .soft_cap = in.shape.soft_cap,
                                    .q = q->As<Bf16>(),
                                    .position = position->As<int32_t>(),
                                    .history = history->As<int64_t>(),
                                    .keys = keys->As<Bf16>(),
                                    .values = values->As<Bf16>(),
                                    .out = out->As<Bf16>()};
    EXPECT_EQ(LaunchAttentionOracle(oracle, nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<Bf16> result(in.q.size());
    cuda().Download(out->data(), result.size() * sizeof(Bf16), result.data());
    EXPECT_TRUE(cuda().Synchronize().ok());
    return result;
  }

 private:
  template <typename T>
  std::unique_ptr<Buffer> ToGpu(const std::vector<T>& values) {
    auto buffer = cuda().Allocate(values.size() * sizeof(T)).value();
    cuda().Upload(values.data(), values.size() * sizeof(T), buffer->data());
    return buffer;
  }

  uint64_t seed_ = 0;
};

// ---- Against the reference

TEST_F(CudaAttentionTest, DecodeAtPositionsAroundBlocksAndSplits) {
  for (int position : {0, 1, 15, 16, 62, 63, 64, 65, 127, 128, 129, 1022, 1023, 1024, 1025, 2100}) {
    CheckAgainstReference({4, 1, 128, 16}, {{position, 1}}, Scores::kNormal);
  }
}

TEST_F(CudaAttentionTest, DecodeOfEveryHeadDimAndKind) {
  for (int head_dim : cuda::kHeadDims) {
    for (Scores scores : kAllScores) {
      CheckAgainstReference({2, 1, head_dim, 16}, {{1100, 1}, {70, 1}, {5, 1}}, scores);
    }
  }
}

TEST_F(CudaAttentionTest, GroupsOfHeads) {
  for (int group : {1, 2, 3, 4, 5, 7, 8, 16, 17, 33}) {
    CheckAgainstReference({2 * group, 2, 64, 32}, {{77, 1}, {130, 3}}, Scores::kNormal);
    // Several splits of keys, whose results are merged.
    CheckAgainstReference({3 * group, 3, 16, 32}, {{1200, 1}, {2100, 1}, {5, 1}}, Scores::kNormal);
  }
}

TEST_F(CudaAttentionTest, PageSizes) {
  for (int page_tokens : {16, 32, 48, 64, 80, 112, 128}) {
    CheckAgainstReference({4, 2, 64, page_tokens}, {{1030, 1}, {200, 2}, {100, 40}},
                          Scores::kNormal);
  }
}

TEST_F(CudaAttentionTest, PrefillOfEveryKind) {
  for (int head_dim : {64, 128, 256}) {
    for (Scores scores : kAllScores) {
      CheckAgainstReference({2, 1, head_dim, 16}, {{0, 40}, {90, 33}, {1000, 35}}, scores);
    }
  }
}

TEST_F(CudaAttentionTest, RowsOfOtherHeadDims) {
  for (int head_dim : {16, 32, 80, 96}) {
    for (Scores scores : {Scores::kNormal, Scores::kHuge, Scores::kNotFinite}) {
      CheckAgainstReference({3, 1, head_dim, 16}, {{0, 21}, {1015, 12}}, scores);
    }
  }
}

TEST_F(CudaAttentionTest, Windows) {
  for (int window : {1, 2, 63, 64, 65, 128, 300, 1024, 1500, 5000}) {
    CheckAgainstReference({2, 1, 64, 16, window}, {{1300, 1}, {20, 1}}, Scores::kNormal);
    CheckAgainstReference({4, 1, 64, 32, window}, {{1010, 30}, {0, 20}}, Scores::kNormal);
    CheckAgainstReference({2, 2, 64, 16, window}, {{100, 70}}, Scores::kNotFinite);
    CheckAgainstReference({2, 1, 128, 16, window}, {{1100, 34}}, Scores::kNegative);
  }
}

// The first step of a row's window, seen in part, asks for the exact path, and others that are seen
// in full come after it.
TEST_F(CudaAttentionTest, WindowsOfManySteps) {
  for (int window : {700, 1500}) {
    for (Scores scores : {Scores::kHuge, Scores::kShelves, Scores::kNegative}) {
      CheckAgainstReference({4, 2, 64, 16, window}, {{2900, 1}, {2500, 1}, {2333, 3}}, scores);
      CheckAgainstReference({4, 2, 128, 16, window}, {{2300, 1}, {1900, 40}}, scores);
    }
  }
}

TEST_F(CudaAttentionTest, SoftCaps) {
  for (int head_dim : cuda::kHeadDims) {
    for (Scores scores : kAllScores) {
      // A cap below the threshold of 32, and one above it, with which the exact path is taken too.
      for (float cap : {5.0f, 50.0f}) {
        const AttentionShape shape = {.heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = head_dim,
                                      .window = cap > 10 ? 200 : 0,
                                      .soft_cap = cap};
        CheckAgainstReference(shape, {{1100, 1}, {70, 1}, {1010, 9}}, scores);
      }
    }
  }
}

TEST_F(CudaAttentionTest, SoftCapsOfShortTexts) {
  for (int head_dim : {64, 256}) {
    CheckAgainstReference({.heads = 2, .kv_heads = 1, .head_dim = head_dim, .soft_cap = 50.0f},
                          {{70, 1}, {0, 20}}, Scores::kHuge);
  }
}

TEST_F(CudaAttentionTest, SoftCapsOnLargeInputs) {
  for (Scores scores : {Scores::kNormal, Scores::kHuge}) {
    CheckAgainstOracle({.heads = 8,
                        .kv_heads = 4,
                        .head_dim = 256,
                        .page_tokens = 32,
                        .softmax_scale = 1.0 / 16,
                        .soft_cap = 50.0f},
                       {{0, 700}, {3000, 1}, {2040, 130}}, scores);
  }
}

TEST_F(CudaAttentionTest, OtherScalesOfScores) {
  for (double scale : {1.0, 0.001, 30.0}) {
    AttentionShape shape = {2, 1, 64, 16};
    shape.softmax_scale = scale;
    CheckAgainstReference(shape, {{500, 1}, {30, 34}}, Scores::kNormal);
  }
}

// Decoding rows beside a prefill, and sequences without a row.
TEST_F(CudaAttentionTest, MixedBatches) {
  for (Scores scores : {Scores::kNormal, Scores::kRising, Scores::kNotFinite}) {
    CheckAgainstReference({4, 2, 128, 16},
                          {{300, 1}, {0, 33}, {7, 1}, {1200, 1}, {64, 16}, {10, 15}}, scores);
    CheckAgainstReference({4, 2, 64, 16}, {{30, 0}, {9, 2}, {100, 1}, {0, 0}}, scores);
  }
}

// ---- Against the specification on the GPU

TEST_F(CudaAttentionTest, LongPrefill) {
  for (Scores scores : {Scores::kNormal, Scores::kRising, Scores::kPeaky}) {
    CheckAgainstOracle({4, 1, 128, 16}, {{0, 2300}}, scores);
  }
  CheckAgainstOracle({3, 1, 64, 64}, {{0, 1500}, {0, 700}}, Scores::kNormal);
  CheckAgainstOracle({2, 2, 256, 128}, {{0, 1200}}, Scores::kNormal);
}

TEST_F(CudaAttentionTest, ChunkOfALongPrefill) {
  CheckAgainstOracle({8, 2, 128, 16}, {{6000, 200}}, Scores::kNormal);
  CheckAgainstOracle({4, 1, 64, 16}, {{5000, 300}}, Scores::kFalling);
  CheckAgainstOracle({4, 1, 128, 16, 1500}, {{3000, 500}}, Scores::kNormal);
}

// A CTA has several tiles, of several lengths and kinds, one after the other.
TEST_F(CudaAttentionTest, PrefillOfMoreTilesThanCtas) {
  for (Scores scores : {Scores::kNormal, Scores::kShelves, Scores::kNotFinite}) {
    CheckAgainstOracle({16, 4, 128, 16}, {{0, 2300}, {500, 300}, {0, 40}}, scores);
    CheckAgainstOracle({12, 4, 64, 32, 300}, {{0, 2300}, {1100, 500}}, scores);
    CheckAgainstOracle({8, 8, 256, 16}, {{0, 1200}, {700, 900}}, scores);
  }
}

// Heads are taken a few at a time, the last time fewer, as all of them would not fit in L2.
TEST_F(CudaAttentionTest, PrefillOfHeadsInTurn) {
  CheckAgainstOracle({10, 5, 128, 16}, {{8500, 150}, {0, 70}}, Scores::kNormal);
}

TEST_F(CudaAttentionTest, LongDecode) {
  for (Scores scores : kAllScores) {
    CheckAgainstOracle({8, 2, 128, 16}, {{9000, 1}, {4095, 1}, {4096, 1}}, scores);
  }
  CheckAgainstOracle({8, 1, 80, 16}, {{5000, 1}}, Scores::kNormal);
}

// With few sequences a cluster of four CTAs shares each split, with more one of two, then none.
TEST_F(CudaAttentionTest, ClustersOfEverySize) {
  for (Scores scores : kAllScores) {
    for (int neighbours : {0, 8, 28}) {
      std::vector<SequenceRows> rows = {{2100, 1}, {1300, 1}};
      for (int i = 0; i < neighbours; ++i) rows.push_back({i * 37 % 700, 1});
      CheckAgainstOracle({4, 1, 128, 16}, rows, scores);
    }
  }
}

TEST_F(CudaAttentionTest, ManySequences) {
  std::vector<SequenceRows> rows;
  for (int i = 0; i < 60; ++i) rows.push_back({i * 97 % 2200, 1});
  CheckAgainstOracle({8, 2, 64, 16}, rows, Scores::kNormal);
  for (size_t i = 0; i < rows.size(); i += 3) rows[i].rows = static_cast<int>(i % 90);
  CheckAgainstOracle({8, 2, 128, 32}, rows, Scores::kNormal);
}

// ---- What the tests above rest on

// Exact paths were taken, and only where they must be.
TEST_F(CudaAttentionTest, CountsExactWork) {
  const auto exact = [&](Scores scores, const std::vector<SequenceRows>& rows) {
    const BackendCounters before = cuda().Counters();
    const AttentionInputs in = MakeInputs({4, 1, 128, 16}, rows, scores, 5);
    AttentionOnBackend(cuda(), in).Run();
    const BackendCounters after = cuda().Counters();
    EXPECT_GT(after.attention_tiles, before.attention_tiles);
    return after.attention_tiles_exact - before.attention_tiles_exact;
  };
  EXPECT_EQ(exact(Scores::kNormal, {{1500, 1}}), 0u);
  EXPECT_EQ(exact(Scores::kNormal, {{0, 200}}), 0u);
  EXPECT_GT(exact(Scores::kHuge, {{1500, 1}}), 0u);
  EXPECT_GT(exact(Scores::kHuge, {{0, 200}}), 0u);
}

// The oracle is the specification: the same bits as the reference backend.
TEST_F(CudaAttentionTest, OracleIsTheReference) {
  for (Scores scores : kAllScores) {
    const AttentionInputs in = MakeInputs({4, 2, 64, 16}, {{1030, 2}, {3, 2}}, scores, 77);
    ExpectEqualBits(RunOracle(in), AttentionOnBackend(reference(), in).Run(), 4 * 64,
                    ToString(scores));
  }
}

}  // namespace
}  // namespace isobit
