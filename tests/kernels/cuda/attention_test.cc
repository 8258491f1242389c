// Attention of the CUDA backend, bit for bit: against the reference backend, and on larger inputs
// against the specification run on the GPU (attention_oracle.h).

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/kv_layout.h"
#include "kernels/cuda/qualify_inputs.h"
#include "tests/kernels/cuda/attention_case.h"
#include "tests/kernels/cuda/attention_oracle.h"
#include "tests/kernels/cuda/attention_plan_run.h"
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
    CheckAgainstOracle(MakeInputs(shape, rows, scores, ++seed_), Name(shape, scores));
  }
  void CheckAgainstOracle(const AttentionInputs& in, const std::string& what) {
    const auto expected = RunOracle(in);
    AttentionOnBackend on_cuda(cuda(), in);
    const auto actual = on_cuda.Run();
    ExpectEqualBits(actual, expected, int64_t{in.shape.heads} * in.shape.head_dim, what);
    // Again, with other work on other SMs: a race would show.
    ExpectEqualBits(on_cuda.Run(), actual, 1, "repeated, " + what);
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

// While a CTA loads the keys of a unit it gets ready for the next one, if the unit is long enough.
TEST_F(CudaAttentionTest, SeveralUnitsACta) {
  std::vector<SequenceRows> rows;
  for (int i = 0; i < 130; ++i) rows.push_back({i % 40 == 7 ? 1100 : i * 37 % 300, 1});
  for (int head_dim : {64, 80, 128, 256}) {
    CheckAgainstReference({4, 2, head_dim, 16}, rows, Scores::kNormal);
  }
  CheckAgainstReference({6, 2, 128, 32}, rows, Scores::kNotFinite);
}

TEST_F(CudaAttentionTest, SeveralShortUnitsACta) {
  std::vector<SequenceRows> rows;
  for (int i = 0; i < 140; ++i) rows.push_back({i * 37 % 150, 1});
  CheckAgainstReference({4, 2, 64, 16}, rows, Scores::kNormal);
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

// ---- Works of the prefill kernel that are cut in two: there are few and long ones for each CTA

struct CutCase {
  AttentionShape shape;
  std::vector<SequenceRows> rows;
};
const CutCase kCutCases[] = {
    {{32, 8, 128, 16}, {{2000, 820}}},
    {{32, 8, 64, 32}, {{2400, 500}, {3000, 330}}},
    {{16, 8, 256, 16}, {{1600, 1100}}},
    // A window, so that first parts hide keys too.
    {{32, 8, 64, 16, 1500}, {{3100, 830}}},
    {{32, 8, 128, 16, 1300}, {{2200, 820}}},
    // All heads of one key head; short works and decoding rows beside them.
    {{16, 1, 64, 16}, {{2000, 1700}, {0, 70}}},
    {{32, 8, 64, 16}, {{2000, 820}, {0, 100}, {700, 1}, {5, 20}, {900, 60}}},
};

TEST_F(CudaAttentionTest, CutWorks) {
  for (const CutCase& c : kCutCases) {
    ASSERT_GT(PlanPrefillOnGpu(c.shape, c.rows, Multiprocessors()).counts.prefill_cut_tiles, 0);
    for (Scores scores : {Scores::kNormal, Scores::kShelves, Scores::kNotFinite}) {
      CheckAgainstOracle(c.shape, c.rows, scores);
    }
  }
}

// What the fast path leaves to the split kernel lies in the first keys, in the last ones before the
// rows' own, or among those: in first parts, second parts or both, of a few heads.
TEST_F(CudaAttentionTest, CutWorksWithOddKeysAndValues) {
  constexpr Bf16 kNan = {0x7fc0}, kInfinity = {0x7f80}, kHuge = {0x4700};
  for (const CutCase& c : {kCutCases[0], kCutCases[2], kCutCases[3]}) {
    const AttentionInputs normal = MakeInputs(c.shape, c.rows, Scores::kNormal, 31);
    const int first = c.rows[0].first, width = c.shape.kv_heads * c.shape.head_dim;
    for (const std::vector<int>& positions : {std::vector<int>{70},
                                              {first - 1300},
                                              {first - 5},
                                              {first + 400},
                                              {first - 1300, first}}) {
      for (const auto& [key, value] : {std::pair(kNan, kNan), std::pair(kHuge, kInfinity)}) {
        AttentionInputs in = normal;
        for (const int position : positions) {
          const auto row = static_cast<size_t>(position * width);
          in.keys[row + 3] = key;
          in.values[row + static_cast<size_t>(c.shape.head_dim) + 5] = value;
        }
        CheckAgainstOracle(in, "odd key at " + std::to_string(positions[0]));
      }
    }
  }
}

// The rows from `begin` to `end` of inputs of one sequence, as a batch of their own.
AttentionInputs SomeRows(const AttentionInputs& in, int begin, int end) {
  AttentionInputs some = in;
  const SequenceRows& all = in.sequences[0];
  some.sequences = {{all.first + begin, end - begin}};
  some.rows = end - begin;
  some.max_context = some.history_rows = all.first + end;
  some.position.assign(in.position.begin() + begin, in.position.begin() + end);
  some.sequence.resize(static_cast<size_t>(some.rows));
  some.history.resize(static_cast<size_t>(some.rows));
  some.first_row = {0, end - begin};
  const int width = in.shape.heads * in.shape.head_dim;
  some.q.assign(in.q.begin() + begin * width, in.q.begin() + end * width);
  const int64_t kv_width = int64_t{in.shape.kv_heads} * in.shape.head_dim;
  some.keys.resize(static_cast<size_t>(some.history_rows * kv_width));
  some.values.resize(some.keys.size());
  return some;
}

// In batches with fewer tiles than CTAs nothing is cut.
TEST_F(CudaAttentionTest, CutWorksAsInSmallerBatches) {
  for (const CutCase& c : {kCutCases[0], kCutCases[2]}) {
    const int rows = c.rows[0].rows, half = rows / 2;
    const AttentionInputs in = MakeInputs(c.shape, c.rows, Scores::kPeaky, 51);
    const auto whole = AttentionOnBackend(cuda(), in).Run();
    const std::vector<Bf16>::const_iterator cut = whole.begin() + half * (whole.size() / rows);
    for (const auto& [begin, end] : {std::pair(0, half), std::pair(half, rows)}) {
      const AttentionInputs some = SomeRows(in, begin, end);
      EXPECT_EQ(
          PlanPrefillOnGpu(c.shape, some.sequences, Multiprocessors()).counts.prefill_cut_tiles, 0);
      ExpectEqualBits(
          AttentionOnBackend(cuda(), some).Run(),
          begin == 0 ? std::vector<Bf16>(whole.begin(), cut) : std::vector<Bf16>(cut, whole.end()),
          c.shape.heads * c.shape.head_dim, "rows from " + std::to_string(begin));
    }
  }
}

// Recorded and replayed, in turn with inputs that leave NaN wherever results are handed on.
TEST_F(CudaAttentionTest, CutWorksReplayed) {
  for (const CutCase& c : {kCutCases[0], kCutCases[2]}) {
    const AttentionInputs in = MakeInputs(c.shape, c.rows, Scores::kNormal, 41);
    AttentionInputs poison = in;
    std::fill(poison.keys.begin(), poison.keys.end(), Bf16{0x7fc0});
    std::fill(poison.values.begin(), poison.values.end(), Bf16{0x7fc0});
    AttentionOnBackend on_cuda(cuda(), in), poisoned(cuda(), poison);
    const auto expected = RunOracle(in);
    ExpectEqualBits(on_cuda.Run(), expected, 1, "run");
    poisoned.Run();
    const auto recording = cuda().Record([&] { on_cuda.Queue(); });
    const auto poisoning = cuda().Record([&] { poisoned.Queue(); });
    ASSERT_NE(recording, nullptr);
    ASSERT_NE(poisoning, nullptr);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(cuda().Replay(*poisoning));
      on_cuda.Poison();
      ASSERT_TRUE(cuda().Replay(*recording));
      ExpectEqualBits(on_cuda.Output(), expected, 1, "replay " + std::to_string(i));
    }
  }
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

// With enough to do behind them, tiles are taken whole: a CTA goes from split to split.
TEST_F(CudaAttentionTest, WholeTiles) {
  std::vector<SequenceRows> rows;
  for (int i = 0; i < 100; ++i) rows.push_back({i < 6 ? 2200 - 170 * i : i * 67 % 700, 1});
  for (Scores scores : {Scores::kNormal, Scores::kRising, Scores::kShelves, Scores::kNotFinite}) {
    CheckAgainstOracle({8, 8, 16, 16}, rows, scores);
  }
  CheckAgainstOracle({16, 8, 32, 32, 1500}, rows, Scores::kNegative);
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
