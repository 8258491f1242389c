#include "tools/isobit/bench_operations.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/model/forward.h"

namespace isobit {
namespace {

constexpr int64_t kGemmRows[] = {1,  2,   4,   8,   16,  20,  32,   40,
                                 64, 100, 128, 192, 256, 512, 1024, 4096};
// Logits are needed of a row a sequence.
constexpr int64_t kLogitRows[] = {1, 16, 64, 128, 256};
// The GEMMs of a layer come first (GemmShapesOf).
constexpr size_t kLayerGemms = 4;
constexpr int kAttentionRounds = 15;

struct Batch {
  int sequences, cached, rows;
};
constexpr Batch kBatches[] = {{1, 1023, 1},  {1, 8191, 1}, {8, 4095, 1},  {64, 1023, 1},
                              {64, 4095, 1}, {1, 0, 4096}, {1, 0, 16384}, {1, 14336, 2048}};

double Product(const GemmShape& shape) { return static_cast<double>(shape.rows * shape.cols); }

std::string Name(const GemmShape& shape) {
  const char* const what = IsGate(shape.epilogue)                    ? ", gate"
                           : shape.epilogue == Gemm::Epilogue::kFp32 ? ", fp32"
                                                                     : "";
  return absl::StrCat(shape.rows, " x ", shape.cols, what);
}

// "   117.7 1.14x", or blanks.
std::string BesideRival(double seconds, double rival_seconds) {
  if (rival_seconds == 0) return std::string(16, ' ');
  return absl::StrFormat("%9.1f %5.2fx", 1e6 * rival_seconds, rival_seconds / seconds);
}

std::string GemmRow(const std::string& name, const GemmTime& time, double product,
                    const Ceilings& ceilings) {
  const double reading = product * sizeof(Bf16) / ceilings.read_bytes_per_second;
  const double computing = 2 * product * static_cast<double>(time.rows) / ceilings.flops_per_second;
  return absl::StrFormat("%-24s %5d %9.1f %s %s %7.0f%% %8.0f%%\n", name, time.rows,
                         1e6 * time.seconds, BesideRival(time.seconds, time.rival_seconds),
                         BesideRival(time.seconds, time.best_rival_seconds),
                         100 * reading / time.seconds, 100 * computing / time.seconds);
}

}  // namespace

absl::StatusOr<GemmTimes> TimeGemms(const CudaOptions& options, const ModelConfig& config) {
  GemmTimes result;
  for (const GemmShape& shape : GemmShapesOf(config)) {
    const bool is_logits = shape.epilogue == Gemm::Epilogue::kFp32;
    auto times =
        TimeCudaGemm(options, shape, is_logits ? std::span<const int64_t>(kLogitRows) : kGemmRows);
    if (!times.ok()) return times.status();
    result.shapes.push_back({shape, *std::move(times)});
  }
  return result;
}

std::string GemmTimes::Text(const Ceilings& ceilings) const {
  std::string out =
      "\nGEMM                      rows        us  cuBLASLt  ratio  best of 8 ratio reading "
      "computing\n";
  std::vector<GemmTime> layer;
  double layer_product = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& [shape, times] = shapes[i];
    for (const GemmTime& time : times) {
      out += GemmRow(Name(shape), time, Product(shape), ceilings);
    }
    if (i >= kLayerGemms) continue;
    layer_product += Product(shape);
    layer.resize(times.size());
    for (size_t j = 0; j < times.size(); ++j) {
      layer[j].rows = times[j].rows;
      layer[j].seconds += times[j].seconds;
      layer[j].rival_seconds += times[j].rival_seconds;
      layer[j].best_rival_seconds += times[j].best_rival_seconds;
    }
  }
  for (const GemmTime& time : layer)
    out += GemmRow("sum of a layer", time, layer_product, ceilings);
  return out;
}

void GemmTimes::WriteJson(JsonWriter& out) const {
  out.Key("gemm").BeginArray();
  for (const auto& [shape, times] : shapes) {
    for (const GemmTime& time : times) {
      out.BeginObject().Field("n", shape.rows).Field("k", shape.cols);
      out.Field("gate", IsGate(shape.epilogue)).Field("rows", time.rows);
      out.Field("seconds", time.seconds);
      if (time.rival_seconds > 0) {
        out.Field("cublaslt_seconds", time.rival_seconds);
        out.Field("best_cublaslt_seconds", time.best_rival_seconds);
      }
      out.EndObject();
    }
  }
  out.EndArray();
}

absl::StatusOr<AttentionTimes> TimeAttention(const CudaOptions& options, const ModelConfig& config,
                                             int64_t block_size) {
  AttentionTimes result;
  for (const Batch& batch : kBatches) {
    if (batch.cached + batch.rows > config.context_length) continue;
    result.shapes.push_back({.sequences = batch.sequences,
                             .cached = batch.cached,
                             .rows = batch.rows,
                             .heads = config.heads,
                             .kv_heads = config.kv_heads,
                             .head_dim = config.head_dim,
                             .page_tokens = static_cast<int>(block_size),
                             .soft_cap = config.score_cap});
  }
  auto seconds = TimeCudaAttention(options, result.shapes, kAttentionRounds);
  if (!seconds.ok()) return seconds.status();
  result.seconds = *std::move(seconds);
  return result;
}

std::string AttentionTimes::Text(const Ceilings& ceilings) const {
  std::string out =
      "\nattention                           us      TB/s reading   TFLOP/s computing\n";
  for (size_t i = 0; i < shapes.size(); ++i) {
    const AttentionBatch& shape = shapes[i];
    const double bytes_rate = static_cast<double>(shape.KvBytes()) / seconds[i];
    const double flops_rate = shape.Flops() / seconds[i];
    const std::string name =
        shape.rows == 1 ? absl::StrCat("decode ", shape.sequences, " x ", shape.cached + 1)
                        : absl::StrCat("prefill of ", shape.rows,
                                       shape.cached > 0 ? absl::StrCat(" on ", shape.cached) : "");
    absl::StrAppendFormat(&out, "%-26s %11.1f %9.2f %6.0f%% %9.1f %8.0f%%\n", name,
                          1e6 * seconds[i], 1e-12 * bytes_rate,
                          100 * bytes_rate / ceilings.read_bytes_per_second, 1e-12 * flops_rate,
                          100 * flops_rate / ceilings.flops_per_second);
  }
  return out;
}

void AttentionTimes::WriteJson(JsonWriter& out) const {
  out.Key("attention").BeginArray();
  for (size_t i = 0; i < shapes.size(); ++i) {
    const AttentionBatch& shape = shapes[i];
    out.BeginObject().Field("sequences", shape.sequences).Field("cached", shape.cached);
    out.Field("rows", shape.rows).Field("seconds", seconds[i]);
    out.Field("bytes", shape.KvBytes()).Field("flops", shape.Flops()).EndObject();
  }
  out.EndArray();
}

}  // namespace isobit
