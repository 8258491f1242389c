// Single operations of each backend: cases 11, 12, 17, 28 and 29 from the field.

#include <gtest/gtest.h>

#include <set>

#include "invariance/row_sweep.h"
#include "invariance/sweep.h"
#include "kernels/numerics/sampling.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

class OperationsTest : public testing::TestWithParam<std::string> {
 protected:
  const std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());

  void ExpectInvariant(const absl::StatusOr<CheckRow>& row) {
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_GT(row->compared, 0) << row->name;
    EXPECT_EQ(row->first_difference, "") << row->name;
  }

  // Draws one token for each row of `params` from the same logits.
  std::vector<int32_t> Draw(const std::vector<float>& logits, std::vector<SamplingRow> params) {
    std::vector<float> rows;
    for (size_t r = 0; r < params.size(); ++r) {
      rows.insert(rows.end(), logits.begin(), logits.end());
    }
    const auto in = UploadNew(*backend_, rows);
    const auto rows_in = UploadNew(*backend_, params);
    std::vector<SampledToken> sampled(params.size());
    const auto out = UploadNew(*backend_, sampled);
    const auto top = UploadNew(*backend_, std::vector<TokenLogProb>(1));
    backend_->Run(SampleTokens{.rows = static_cast<int64_t>(params.size()),
                               .vocab = static_cast<int64_t>(logits.size()),
                               .logits = (*in)->As<float>(),
                               .params = (*rows_in)->As<SamplingRow>(),
                               .sampled = (*out)->As<SampledToken>(),
                               .top = (*top)->As<TokenLogProb>()});
    backend_->Download((*out)->data(), sampled.size() * sizeof(SampledToken), sampled.data());
    EXPECT_TRUE(backend_->Synchronize().ok());
    std::vector<int32_t> tokens;
    for (const SampledToken& s : sampled) tokens.push_back(s.token);
    return tokens;
  }

  // `base` with seeds 0 .. count - 1.
  static std::vector<SamplingRow> Seeds(SamplingRow base, int count) {
    std::vector<SamplingRow> rows(static_cast<size_t>(count), base);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].seed = i;
    return rows;
  }
};

// Case 11: of equal maximal logits, top_k = 1 gives the lowest id, with every seed.
TEST_P(OperationsTest, Case11TiesAtTopOne) {
  std::vector<float> logits(500, -1.0f);
  for (size_t token : {77, 78, 300, 499}) logits[token] = 2.5f;
  const auto drawn = Draw(logits, Seeds({.temperature = 1, .top_k = 1}, 500));
  EXPECT_EQ(std::set<int32_t>(drawn.begin(), drawn.end()), std::set<int32_t>{77});
  EXPECT_EQ(Draw(logits, {{.temperature = 0}})[0], 77);
  // All equal.
  EXPECT_EQ(
      Draw(std::vector<float>(500, 0.0f), {{.temperature = 0}, {.temperature = 1, .top_k = 1}}),
      (std::vector<int32_t>{0, 0}));
}

// Case 11: ties at the border of top_k: of the equal ones, the lowest ids stay.
TEST_P(OperationsTest, Case11TiesAtTheBorderOfTopK) {
  std::vector<float> logits(300, 0.0f);
  logits[200] = 0.5f;
  logits[100] = 0.25f;
  for (size_t token : {90, 95, 150, 250}) logits[token] = 0.125f;
  const auto drawn = Draw(logits, Seeds({.temperature = 1, .top_k = 4}, 2000));
  EXPECT_EQ(std::set<int32_t>(drawn.begin(), drawn.end()), (std::set<int32_t>{90, 95, 100, 200}));
}

// Case 12: in 10,000 draws no token that min_p or top_p filters out.
TEST_P(OperationsTest, Case12FilteredTokensAreNeverDrawn) {
  // Probabilities halve from token to token: 1/2, 1/4, ...
  std::vector<float> logits;
  for (int i = 0; i < 40; ++i) logits.push_back(-0.69314718f * static_cast<float>(i));
  const auto largest = [&](const SamplingRow& params) {
    const auto drawn = Draw(logits, Seeds(params, 10000));
    return *std::ranges::max_element(drawn);
  };
  EXPECT_GT(largest({.temperature = 1}), 8);
  EXPECT_EQ(largest({.temperature = 1, .min_p_q32 = ProbabilityQ32(0.06)}), 4);   // 1/16 stays
  EXPECT_EQ(largest({.temperature = 1, .min_p_q32 = ProbabilityQ32(0.065)}), 3);  // 1/16 goes
  EXPECT_EQ(largest({.temperature = 1, .top_p_q32 = ProbabilityQ32(0.87)}), 2);   // 7/8 is enough
  EXPECT_EQ(largest({.temperature = 1, .top_p_q32 = ProbabilityQ32(0.88)}), 3);
}

// Case 17: ones times ones is K, for every K: no tail is dropped.
TEST_P(OperationsTest, Case17AllOnes) {
  for (int64_t k = 1; k <= 600; k += k < 80 ? 1 : 17) {
    // The CUDA backend refuses models of other widths.
    if (GetParam() == "cuda" && k % 8 != 0) continue;
    const int64_t n = 37;
    const MatrixSource ones = {
        .rows = n, .cols = k, .read = [k](int64_t begin, int64_t end, Bf16* out) {
          std::fill_n(out, (end - begin) * k, kOneBf16);
        }};
    const auto weight = backend_->LoadWeight({&ones, 1}, WeightLayout::kConcatenated);
    ASSERT_TRUE(weight.ok()) << weight.status();
    for (int64_t rows : {1, 3, 16, 19}) {
      const auto x =
          UploadNew(*backend_, std::vector<Bf16>(static_cast<size_t>(rows * k), kOneBf16));
      std::vector<float> y(static_cast<size_t>(rows * n));
      const auto out = UploadNew(*backend_, y);
      backend_->Run(Gemm{.rows = rows,
                         .weight = weight->get(),
                         .x = (*x)->As<Bf16>(),
                         .epilogue = Gemm::Epilogue::kFp32,
                         .out_fp32 = (*out)->As<float>()});
      backend_->Download((*out)->data(), y.size() * sizeof(float), y.data());
      ASSERT_TRUE(backend_->Synchronize().ok());
      EXPECT_EQ(y, std::vector<float>(y.size(), static_cast<float>(k))) << k << ", rows " << rows;
    }
  }
}

// Case 28: scores that rise or fall with the position, causal, in a hundred batches.
TEST_P(OperationsTest, Case28RisingAndFallingKeys) {
  for (int window : {0, 70}) {
    ExpectInvariant(SweepAttention(*backend_,
                                   {.heads = 2,
                                    .kv_heads = 1,
                                    .head_dim = 32,
                                    .page_tokens = 16,
                                    .sequences = 12,
                                    .max_context = 260,
                                    .window = window,
                                    .rising_keys = true},
                                   {.max_rows = 100}));
  }
}

// Case 29: a norm of 1 to 65 rows, through the sizes where kernels change their shape.
TEST_P(OperationsTest, Case29NormOverRows) {
  for (int64_t width : {64, 576, 1000}) {
    for (NormRows kind : {NormRows::kWild, NormRows::kPicked, NormRows::kTies}) {
      ExpectInvariant(SweepRmsNorm(*backend_, width, kind, {.max_rows = 65}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OperationsTest, testing::ValuesIn(BackendNames()),
                         BackendTestName);

// Beyond the 1024 keys of one split.
TEST(Operations, AttentionOverSeveralSplits) {
  const auto backend = MakeBackend("cpu");
  const auto row = SweepAttention(
      *backend, {.heads = 1, .kv_heads = 1, .head_dim = 16, .sequences = 4, .max_context = 2100},
      {.max_rows = 40, .step = 4});
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_TRUE(row->ok()) << row->first_difference;
}

}  // namespace
}  // namespace isobit
