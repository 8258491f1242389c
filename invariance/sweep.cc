#include "invariance/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/row_sweep.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

using Buffers = std::vector<Buffer*>;

std::vector<int32_t> Ascending(int64_t count) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<int32_t>(i));
  return values;
}

std::vector<float> RandomLogits(SplitMix& random, int64_t rows, int64_t vocab) {
  std::vector<float> logits;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t kind = random.Below(8);
    const float scale = kind == 0 ? 0.01f : kind == 1 ? 20.0f : 3.0f;
    for (int64_t i = 0; i < vocab; ++i) {
      float value = scale * random.Normal();
      if (kind == 2) value = std::round(value);  // many ties
      if (kind == 3 && random.Below(2) == 0) value = -std::numeric_limits<float>::infinity();
      logits.push_back(value);
    }
    if (kind == 4) {
      logits[logits.size() - static_cast<size_t>(1 + random.Below(vocab))] = CanonicalNan();
    }
  }
  return logits;
}

struct TiedRows {
  std::vector<Bf16> values;  // [rows][width]
  float eps = 0;
};

// Rows with the same elements in another order: their sums of squares differ by rounding alone,
// which one large element among small ones makes as large as it can be. eps puts their common scale
// at 1 + 2^-8, half way between two bf16, with as many rows above as below. So an element that is a
// power of two shows on which side the sum came out.
TiedRows MakeTiedRows(SplitMix& random, int64_t rows, int64_t width) {
  constexpr float kTie = 1 + 0x1p-8f;
  // Not much below n, so that eps is small and no bit of the sum is lost when it is added.
  const float large = std::sqrt(0.9f * static_cast<float>(width));
  std::vector<Bf16> elements = {RoundToBf16(large)};
  for (int64_t i = 1; i < width; ++i) {
    // Squares about as large as one unit in the last place of the sum.
    const float small = large * std::ldexp(1.0f, -12 + static_cast<int>(random.Below(3)));
    const float power = std::ldexp(1.0f, std::ilogb(small));
    elements.push_back(RoundToBf16(i % 2 == 0 ? power : small * random.Normal()));
  }
  TiedRows tied;
  std::vector<float> means;
  for (int64_t r = 0; r < rows; ++r) {
    Shuffle(random, elements);
    tied.values.insert(tied.values.end(), elements.begin(), elements.end());
    means.push_back(SumOfSquares(elements.data(), width) / static_cast<float>(width));
  }
  std::ranges::nth_element(means, means.begin() + rows / 2);
  const float median = means[static_cast<size_t>(rows / 2)];
  tied.eps = 1 / (kTie * kTie) - median;
  // The last steps by trying: the scale is the result of four roundings.
  while (RmsScale(median * static_cast<float>(width), width, tied.eps) > kTie) {
    tied.eps = std::nextafter(tied.eps, 1.0f);
  }
  return tied;
}

std::string EpilogueName(const GemmSweep& g) {
  std::string name = g.epilogue == Gemm::Epilogue::kFp32       ? ", fp32"
                     : g.epilogue == Gemm::Epilogue::kSiluGate ? ", SiLU gate"
                     : g.epilogue == Gemm::Epilogue::kGeluGate ? ", GELU gate"
                                                               : ", bf16";
  if (g.bias) name += ", bias";
  if (g.residual == GemmSweep::Residual::kOwn) name += ", residual";
  if (g.residual == GemmSweep::Residual::kInPlace) name += ", residual in place";
  return name;
}

constexpr int64_t kEdits = 4;         // of a row
constexpr int kMostAlternatives = 8;  // asked for by a row

std::vector<SamplingRow> RandomSampling(SplitMix& random, int64_t rows) {
  std::vector<SamplingRow> params;
  for (int64_t r = 0; r < rows; ++r) {
    SamplingRow p;
    p.temperature = 0.4f * static_cast<float>(random.Below(5));
    p.top_k = random.Below(2) == 0 ? 0 : static_cast<int32_t>(1 + random.Below(60));
    if (random.Below(2) == 0)
      p.top_p_q32 = ProbabilityQ32(0.1 * static_cast<double>(1 + random.Below(9)));
    if (random.Below(3) == 0) p.min_p_q32 = ProbabilityQ32(0.02);
    if (random.Below(2) == 0) p.repetition_penalty = 1.3f;
    if (random.Below(2) == 0) p.frequency_penalty = 0.5f;
    if (random.Below(2) == 0) p.presence_penalty = -0.25f;
    p.seed = random.Next();
    p.sample_index = static_cast<uint32_t>(random.Below(4));
    p.position = static_cast<uint64_t>(random.Below(5000));
    p.top_count = static_cast<int32_t>(random.Below(kMostAlternatives + 1));
    p.processed = static_cast<int32_t>(random.Below(2));
    params.push_back(p);
  }
  return params;
}

// Tokens of one row differ from each other.
std::vector<LogitEdit> RandomEdits(SplitMix& random, int64_t rows, int64_t vocab) {
  std::vector<LogitEdit> edits;
  for (int64_t i = 0; i < rows * kEdits; ++i) {
    const int64_t share = vocab / kEdits;
    edits.push_back({.token = static_cast<int32_t>(i % kEdits * share + random.Below(share)),
                     .bias = random.Normal(),
                     .output_count = static_cast<int32_t>(random.Below(3)),
                     .seen = static_cast<int32_t>(random.Below(2))});
  }
  return edits;
}

}  // namespace

absl::StatusOr<CheckRow> SweepEmbed(Backend& backend, int64_t vocab, int64_t width,
                                    const SweepOptions& options) {
  auto table = RandomWeight(backend, options.seed, vocab, width, WeightLayout::kConcatenated);
  if (!table.ok()) return table.status();
  RowSweep sweep(backend, options);
  SplitMix random(options.seed + 1);
  sweep.AddInput(RandomTokens(random, sweep.pool_rows(), vocab));
  sweep.AddOutput("column", RowSweep::Type::kBf16, width);
  return sweep.Run("embedding", [&](int64_t rows, const Buffers& in, const Buffers& out) {
    backend.Run(Embed{.rows = rows,
                      .table = table->get(),
                      .token_ids = in[0]->As<int32_t>(),
                      .out = out[0]->As<Bf16>()});
  });
}

absl::StatusOr<CheckRow> SweepRmsNorm(Backend& backend, int64_t width, NormRows kind,
                                      const SweepOptions& options) {
  RowSweep sweep(backend, options);
  SplitMix random(options.seed + 2);
  TiedRows rows_of_pool = {.values = {}, .eps = 1e-5f};
  if (kind == NormRows::kTies) {
    rows_of_pool = MakeTiedRows(random, sweep.pool_rows(), width);
  } else {
    rows_of_pool.values = WildRows(random, sweep.pool_rows(), width);
  }
  std::vector<Bf16> weight_values;
  for (int64_t i = 0; i < width; ++i) {
    weight_values.push_back(RoundToBf16(1.0f + 0.1f * random.Normal()));
  }
  auto weight = UploadNew(backend, weight_values);
  if (!weight.ok()) return weight.status();
  auto pool = UploadNew(backend, rows_of_pool.values);
  if (!pool.ok()) return pool.status();
  const bool picked = kind == NormRows::kPicked;
  if (picked) {
    sweep.AddInput(Ascending(sweep.pool_rows()));
  } else {
    sweep.AddInput(rows_of_pool.values);
  }
  sweep.AddOutput("column", RowSweep::Type::kBf16, width);
  const char* name = picked                    ? "RMSNorm of picked rows"
                     : kind == NormRows::kTies ? "RMSNorm at ties"
                                               : "RMSNorm";
  return sweep.Run(name, [&](int64_t rows, const Buffers& in, const Buffers& out) {
    backend.Run(RmsNorm{.rows = rows,
                        .width = width,
                        .eps = rows_of_pool.eps,
                        .x = (picked ? pool->get() : in[0])->As<Bf16>(),
                        .row_index = picked ? in[0]->As<int32_t>() : nullptr,
                        .weight = (*weight)->As<Bf16>(),
                        .out = out[0]->As<Bf16>()});
  });
}

absl::StatusOr<CheckRow> SweepGemm(Backend& backend, const GemmSweep& g,
                                   const SweepOptions& options) {
  const bool gated = IsGate(g.epilogue);
  const bool fp32 = g.epilogue == Gemm::Epilogue::kFp32;
  auto weight = RandomWeight(backend, options.seed, g.n, g.k,
                             gated ? WeightLayout::kGateUp : WeightLayout::kConcatenated);
  if (!weight.ok()) return weight.status();
  RowSweep sweep(backend, options);
  SplitMix random(options.seed + 3);
  std::vector<float> bias_values;
  for (int64_t i = 0; i < g.n; ++i) bias_values.push_back(random.Normal());
  auto bias = UploadNew(backend, bias_values);
  if (!bias.ok()) return bias.status();

  sweep.AddInput(WildRows(random, sweep.pool_rows(), g.k));
  const bool residual = g.residual != GemmSweep::Residual::kNone;
  const bool in_place = g.residual == GemmSweep::Residual::kInPlace;
  if (residual) sweep.AddInput(WildRows(random, sweep.pool_rows(), g.n));
  sweep.AddOutput("column", fp32 ? RowSweep::Type::kFp32 : RowSweep::Type::kBf16,
                  gated ? g.n / 2 : g.n, in_place ? 1 : -1);
  const std::string name = absl::StrCat("GEMM ", g.n, "x", g.k, EpilogueName(g));
  return sweep.Run(name, [&](int64_t rows, const Buffers& in, const Buffers& out) {
    Gemm op = {.rows = rows, .weight = weight->get(), .x = in[0]->As<Bf16>()};
    op.epilogue = g.epilogue;
    if (g.bias) op.bias = (*bias)->As<float>();
    if (residual) op.residual = (in_place ? out[0] : in[1])->As<Bf16>();
    if (fp32) {
      op.out_fp32 = out[0]->As<float>();
    } else {
      op.out_bf16 = out[0]->As<Bf16>();
    }
    backend.Run(op);
  });
}

absl::StatusOr<CheckRow> SweepScoring(Backend& backend, int64_t vocab,
                                      const SweepOptions& options) {
  RowSweep sweep(backend, options);
  SplitMix random(options.seed + 4);
  sweep.AddInput(RandomLogits(random, sweep.pool_rows(), vocab));
  sweep.AddInput(RandomTokens(random, sweep.pool_rows(), vocab));
  sweep.AddOutput("log-probability", RowSweep::Type::kFp32, 1);
  sweep.AddOutput("alternatives, word", RowSweep::Type::kInt32, 2 * kMostAlternatives);
  return sweep.Run("scoring", [&](int64_t rows, const Buffers& in, const Buffers& out) {
    backend.Run(ScoreTokens{.rows = rows,
                            .vocab = vocab,
                            .logits = in[0]->As<float>(),
                            .token = in[1]->As<int32_t>(),
                            .top_count = kMostAlternatives,
                            .logprob = out[0]->As<float>(),
                            .top = out[1]->As<TokenLogProb>()});
  });
}

absl::StatusOr<CheckRow> SweepSampling(Backend& backend, int64_t vocab,
                                       const SweepOptions& options) {
  static_assert(sizeof(SampledToken) == 12 && sizeof(TokenLogProb) == 8);
  RowSweep sweep(backend, options);
  SplitMix random(options.seed + 5);
  sweep.AddInput(RandomLogits(random, sweep.pool_rows(), vocab));
  sweep.AddInput(RandomSampling(random, sweep.pool_rows()), [](int64_t place, std::byte* row) {
    auto* params = reinterpret_cast<SamplingRow*>(row);
    params->edit_begin = static_cast<int32_t>(place * kEdits);
    params->edit_end = params->edit_begin + kEdits;
  });
  sweep.AddInput(RandomEdits(random, sweep.pool_rows(), vocab));
  sweep.AddOutput("drawn token (0: id, 1: log-probability, 2: processed), word",
                  RowSweep::Type::kInt32, 3);
  sweep.AddOutput("alternatives, word", RowSweep::Type::kInt32, 2 * kMostAlternatives);
  return sweep.Run("sampling", [&](int64_t rows, const Buffers& in, const Buffers& out) {
    backend.Run(SampleTokens{.rows = rows,
                             .vocab = vocab,
                             .logits = in[0]->As<float>(),
                             .params = in[1]->As<SamplingRow>(),
                             .edits = in[2]->As<LogitEdit>(),
                             .top_stride = kMostAlternatives,
                             .sampled = out[0]->As<SampledToken>(),
                             .top = out[1]->As<TokenLogProb>()});
  });
}

absl::StatusOr<CheckReport> SweepEveryPlace(Backend& backend, int64_t width,
                                            const SweepOptions& options) {
  constexpr int64_t kNarrow = 48;
  SweepOptions every = options;
  every.every_place = true;
  CheckReport report;
  absl::Status status;
  const auto add = [&](absl::StatusOr<CheckRow> row) {
    if (status.ok()) status = row.status();
    if (row.ok()) report.rows.push_back(*std::move(row));
  };
  add(SweepEmbed(backend, kNarrow, kNarrow, every));
  add(SweepRmsNorm(backend, width, NormRows::kTies, every));
  add(SweepGemm(backend, {.n = kNarrow, .k = width, .epilogue = Gemm::Epilogue::kFp32}, every));
  add(SweepGemm(backend, {.n = kNarrow, .k = width, .epilogue = Gemm::Epilogue::kSiluGate}, every));
  add(SweepGemm(backend,
                {.n = kNarrow, .k = width, .bias = true, .residual = GemmSweep::Residual::kInPlace},
                every));
  add(SweepScoring(backend, kNarrow, every));
  add(SweepSampling(backend, kNarrow, every));
  if (!status.ok()) return status;
  return report;
}

absl::StatusOr<CheckReport> SweepOperations(Backend& backend, const ModelShape& s,
                                            const SweepOptions& options,
                                            const CheckRowCallback& on_row) {
  const int64_t qkv = (int64_t{s.heads} + 2 * s.kv_heads) * s.head_dim;
  const int64_t attended = int64_t{s.heads} * s.head_dim;
  using Epilogue = Gemm::Epilogue;
  using Residual = GemmSweep::Residual;
  const GemmSweep gemms[] = {
      {.n = qkv, .k = s.width, .bias = true},
      {.n = s.width, .k = attended, .residual = Residual::kInPlace},
      {.n = s.width, .k = attended, .bias = true, .residual = Residual::kOwn},
      {.n = 2 * s.ffn_width, .k = s.width, .epilogue = Epilogue::kSiluGate},
      {.n = 2 * s.ffn_width, .k = s.width, .epilogue = Epilogue::kGeluGate},
      {.n = s.width, .k = s.ffn_width, .residual = Residual::kInPlace},
      {.n = s.vocab, .k = s.width, .epilogue = Epilogue::kFp32},
  };
  CheckReport report;
  absl::Status status;
  const auto add = [&](absl::StatusOr<CheckRow> row) {
    if (status.ok()) status = row.status();
    if (!row.ok()) return;
    if (on_row) on_row(*row);
    report.rows.push_back(*std::move(row));
  };
  add(SweepEmbed(backend, s.vocab, s.width, options));
  for (NormRows kind : {NormRows::kWild, NormRows::kPicked, NormRows::kTies}) {
    add(SweepRmsNorm(backend, s.width, kind, options));
  }
  for (const GemmSweep& gemm : gemms) add(SweepGemm(backend, gemm, options));
  add(SweepAttention(backend,
                     {.heads = s.heads,
                      .kv_heads = s.kv_heads,
                      .head_dim = s.head_dim,
                      .page_tokens = s.page_tokens},
                     options));
  add(SweepScoring(backend, s.vocab, options));
  add(SweepSampling(backend, s.vocab, options));
  if (!status.ok()) return status;
  return report;
}

}  // namespace isobit
