// Sampling of the CUDA backend against the reference.

#include <string>
#include <vector>

#include "kernels/numerics/sampling.h"
#include "tests/kernels/cuda/logits.h"
#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

class CudaSampleTest : public TwinBackends {
 protected:
  // Rows of logits of one kind, each with the parameters of its own.
  void Check(int64_t vocab, LogitKind kind, std::vector<SamplingRow> params,
             const std::vector<LogitEdit>& edits) {
    RandomValues random(static_cast<uint64_t>(vocab) + 7);
    std::vector<float> logits;
    int stride = 0;
    for (const SamplingRow& row : params) {
      AppendLogits(vocab, kind, random, &logits);
      stride = std::max(stride, row.top_count);
    }
    const auto rows = static_cast<int64_t>(params.size());
    const auto logits_both = Both(logits);
    const auto params_both = Both(params);
    const auto edits_both = Both(edits);
    const auto sampled = Poisoned<SampledToken>(rows);
    const auto top = Poisoned<TokenLogProb>(rows * stride);
    RunBoth([&](bool c) {
      return SampleTokens{.rows = rows,
                          .vocab = vocab,
                          .logits = Side(logits_both, c),
                          .params = Side(params_both, c),
                          .edits = Side(edits_both, c),
                          .top_stride = stride,
                          .sampled = Side(sampled, c),
                          .top = Side(top, c)};
    });
    const std::string what = ToString(kind) + ", " + std::to_string(vocab) + " tokens";
    ExpectEqualBits(sampled, 1, "sampled, " + what);
    if (stride > 0) ExpectEqualBits(top, stride, "top, " + what);
    ExpectEqualBits(logits_both, vocab, "logits untouched, " + what);
  }

  static SamplingRow RandomRow(RandomValues& random) {
    SamplingRow row;
    constexpr float kTemperatures[] = {0.0f, 1e-6f, 0.1f, 0.7f, 1.0f, 1.0f, 1.5f, 10.0f};
    row.temperature = kTemperatures[random.Below(8)];
    constexpr int32_t kTopK[] = {0, 0, 1, 2, 40, 1000, 1 << 30};
    row.top_k = kTopK[random.Below(7)];
    constexpr double kTopP[] = {1.0, 1.0, 0.0, 0.1, 0.5, 0.9, 0.999999};
    row.top_p_q32 = ProbabilityQ32(kTopP[random.Below(7)]);
    constexpr double kMinP[] = {0.0, 0.0, 1e-9, 0.01, 0.5, 1.0};
    row.min_p_q32 = ProbabilityQ32(kMinP[random.Below(6)]);
    row.seed = random.Bits();
    row.sample_index = static_cast<uint32_t>(random.Below(3));
    row.position = random.Bits() % 5000;
    constexpr int kTop[] = {0, 1, 5, kMaxTopLogProbs};
    row.top_count = kTop[random.Below(4)];
    row.processed = static_cast<int32_t>(random.Below(2));
    return row;
  }
};

TEST_F(CudaSampleTest, RandomParameters) {
  RandomValues random(11);
  for (LogitKind kind : kAllLogitKinds) {
    for (int64_t vocab : {1, 2, 9, 300, 5000}) {
      std::vector<SamplingRow> params;
      for (int i = 0; i < 40; ++i) params.push_back(RandomRow(random));
      Check(vocab, kind, params, {});
    }
  }
}

TEST_F(CudaSampleTest, LargeVocabularies) {
  RandomValues random(12);
  for (LogitKind kind : {LogitKind::kNormal, LogitKind::kTies, LogitKind::kEqual}) {
    for (int64_t vocab : {49152, 128256, 262144}) {
      std::vector<SamplingRow> params;
      for (int i = 0; i < 8; ++i) params.push_back(RandomRow(random));
      Check(vocab, kind, params, {});
    }
  }
}

TEST_F(CudaSampleTest, EditsAndPenalties) {
  RandomValues random(13);
  constexpr int64_t kVocab = 1000;
  for (LogitKind kind : kAllLogitKinds) {
    std::vector<SamplingRow> params;
    std::vector<LogitEdit> edits;
    for (int i = 0; i < 30; ++i) {
      SamplingRow row = RandomRow(random);
      row.repetition_penalty = i % 3 == 0 ? 1.0f : 1.3f;
      row.frequency_penalty = i % 2 == 0 ? 0.0f : 0.7f;
      row.presence_penalty = i % 5 == 0 ? -0.4f : 0.2f;
      row.edit_begin = static_cast<int32_t>(edits.size());
      // Every seventh token, so that each CTA of a row has some; a few are forbidden or forced.
      for (int32_t token = i % 7; token < kVocab && i > 3; token += 7) {
        LogitEdit edit = {token, 0.25f, static_cast<int32_t>(random.Below(3)), 1};
        if (random.Below(20) == 0) edit.bias = -std::numeric_limits<float>::infinity();
        if (random.Below(200) == 0) edit.bias = 50.0f;
        edits.push_back(edit);
      }
      row.edit_end = static_cast<int32_t>(edits.size());
      params.push_back(row);
    }
    Check(kVocab, kind, params, edits);
  }
}

// Edits that leave nothing to draw from.
TEST_F(CudaSampleTest, EverythingForbidden) {
  std::vector<LogitEdit> edits;
  for (int32_t token = 0; token < 50; ++token) {
    edits.push_back({token, -std::numeric_limits<float>::infinity(), 0, 0});
  }
  RandomValues random(14);
  std::vector<SamplingRow> params;
  for (int i = 0; i < 10; ++i) {
    params.push_back(RandomRow(random));
    params.back().edit_end = i % 2 == 0 ? 50 : 49;  // or all but the last token
  }
  Check(50, LogitKind::kNormal, params, edits);
}

// Exact ties at the border of top_k, many seeds.
TEST_F(CudaSampleTest, TiesAtTheBorder) {
  std::vector<SamplingRow> params;
  for (int i = 0; i < 200; ++i) {
    SamplingRow row;
    row.temperature = 1.0f;
    row.top_k = 1 + i % 20;
    row.seed = static_cast<uint64_t>(i);
    row.top_count = 20;
    row.processed = i % 2;
    params.push_back(row);
  }
  Check(64, LogitKind::kTies, params, {});
  Check(64, LogitKind::kEqual, params, {});
  Check(64, LogitKind::kZeros, params, {});
}

}  // namespace
}  // namespace isobit
