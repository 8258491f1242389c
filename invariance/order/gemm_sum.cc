// The sum of a linear layer, seen through Gemm.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/order/operation_sums.h"
#include "invariance/row_sweep.h"

namespace isobit {
namespace {

using Kind = GemmSumShape::Kind;

// Of one column: columns take turns. With a bias, the column decides what the bias is; with a gate,
// which term drives the other half.
constexpr int64_t kTurns = 4;
// SiLU of 64 is 64 in bf16, and products with it are exact.
constexpr float kDrive = 64;

class GemmSum : public CancellingSum {
 public:
  GemmSum(Backend& backend, const GemmSumShape& shape) : backend_(backend), shape_(shape) {}

  absl::Status Prepare() {
    const bool gated = IsGated();
    std::vector<MatrixSource> parts;
    for (int part = 0; part < (gated ? 2 : 1); ++part) {
      parts.push_back({.rows = Columns(), .cols = shape_.k, .read = Reader(part)});
    }
    auto weight =
        backend_.LoadWeight(parts, gated ? WeightLayout::kGateUp : WeightLayout::kConcatenated);
    if (!weight.ok()) return weight.status();
    weight_ = *std::move(weight);
    std::vector<float> bias;
    for (int64_t c = 0; c < Columns(); ++c) bias.push_back(BiasOf(c % kTurns));
    x_.resize(static_cast<size_t>(shape_.rows * shape_.k));
    residual_.resize(static_cast<size_t>(shape_.rows * Columns()));
    const size_t out_bytes = residual_.size() * (shape_.kind == Kind::kFp32 ? 4 : 2);
    out_.resize(out_bytes);
    absl::Status status;
    const auto keep = [&](absl::StatusOr<std::unique_ptr<Buffer>> made,
                          std::unique_ptr<Buffer>& buffer) {
      if (status.ok()) status = made.status();
      if (made.ok()) buffer = *std::move(made);
    };
    keep(UploadNew(backend_, bias), bias_buffer_);
    keep(UploadNew(backend_, x_), x_buffer_);
    keep(UploadNew(backend_, residual_), residual_buffer_);
    keep(UploadNew(backend_, out_), out_buffer_);
    return status;
  }

  int64_t terms() const override { return shape_.terms(); }
  int64_t most_units() const override {
    // bf16 holds the integers up to 256.
    return shape_.kind == Kind::kFp32 ? int64_t{1} << 22 : 256;
  }

  absl::StatusOr<std::vector<int64_t>> Survivors(std::span<const CancellingProbe> probes) override {
    std::vector<Placed> placed;
    for (size_t i = 0; i < probes.size(); ++i) Place(probes[i], i, placed);
    std::vector<int64_t> counts(probes.size(), 0);
    const auto rows = static_cast<size_t>(shape_.rows);
    for (size_t begin = 0; begin < placed.size(); begin += rows) {
      const std::span<const Placed> batch =
          std::span(placed).subspan(begin, std::min(rows, placed.size() - begin));
      if (absl::Status s = Run(batch); !s.ok()) return s;
      for (size_t r = 0; r < batch.size(); ++r) {
        const absl::StatusOr<int64_t> count = Count(batch[r], static_cast<int64_t>(r));
        if (!count.ok()) return count.status();
        counts[batch[r].of] += *count;
      }
    }
    return counts;
  }

 private:
  bool IsGated() const { return shape_.kind == Kind::kGate || shape_.kind == Kind::kUp; }
  int64_t Columns() const { return IsGated() ? shape_.n / 2 : shape_.n; }  // of the output
  int32_t BiasTerm() const { return static_cast<int32_t>(shape_.k); }
  int32_t ResidualTerm() const { return static_cast<int32_t>(shape_.k) + 1; }

  float BiasOf(int64_t turn) const {
    const float values[kTurns] = {0, 1, kHuge, -kHuge};
    return shape_.kind == Kind::kBiasResidual ? values[turn] : 0.0f;
  }

  // Ones. Of a gated layer's two halves, the one that is not looked at has a single weight a
  // column, at the term of the column's turn, where the other half has none: that term drives the
  // column.
  std::function<void(int64_t, int64_t, Bf16*)> Reader(int part) const {
    const bool drives = IsGated() && (part == 0) != (shape_.kind == Kind::kGate);
    // A gate must be large where it is not zero, or SiLU bends it.
    const float gate = IsGated() && part == 0 ? kDrive : 1.0f;
    return [k = shape_.k, gated = IsGated(), drives, gate](int64_t begin, int64_t end, Bf16* out) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t i = 0; i < k; ++i) {
          const bool set = !gated || (i == row % kTurns) == drives;
          *out++ = RoundToBf16(set ? gate : 0.0f);
        }
      }
    };
  }

  float ValueOf(const CancellingProbe& probe, int32_t term) const {
    if (term == probe.plus) return kHuge;
    if (term == probe.minus) return -kHuge;
    return std::ranges::find(probe.units, term) != probe.units.end() ? 1.0f : 0.0f;
  }

  // What one row of a batch carries, and the columns that show it.
  struct Placed {
    CancellingProbe probe;
    int64_t turn = 0;
    size_t of = 0;  // the probe that it belongs to
  };

  // The columns of a turn can't count the term that drives them: then two rows share a probe.
  void Place(const CancellingProbe& probe, size_t of, std::vector<Placed>& placed) const {
    const auto is_taken = [&](int64_t turn) { return turn == probe.plus || turn == probe.minus; };
    int64_t turn = 0;
    if (shape_.kind == Kind::kBiasResidual) {
      while (BiasOf(turn) != ValueOf(probe, BiasTerm())) ++turn;
    }
    while (IsGated() && is_taken(turn)) ++turn;
    placed.push_back({probe, turn, of});
    const auto driving = std::ranges::find(probe.units, static_cast<int32_t>(turn));
    if (!IsGated() || driving == probe.units.end()) return;
    placed.back().probe.units.erase(placed.back().probe.units.begin() +
                                    (driving - probe.units.begin()));
    int64_t other = turn + 1;
    while (is_taken(other)) ++other;
    placed.push_back({{probe.plus, probe.minus, {static_cast<int32_t>(turn)}}, other, of});
  }

  absl::Status Run(std::span<const Placed> batch) {
    std::ranges::fill(x_, Bf16{0});
    std::ranges::fill(residual_, Bf16{0});
    for (size_t r = 0; r < batch.size(); ++r) FillRow(batch[r], r);
    backend_.Upload(x_.data(), x_.size() * sizeof(Bf16), x_buffer_->data());
    Gemm op = {.rows = shape_.rows, .weight = weight_.get(), .x = x_buffer_->As<Bf16>()};
    if (shape_.kind == Kind::kBiasResidual) {
      backend_.Upload(residual_.data(), residual_.size() * sizeof(Bf16), residual_buffer_->data());
      op.bias = bias_buffer_->As<float>();
      op.residual = residual_buffer_->As<Bf16>();
    }
    if (shape_.kind == Kind::kFp32) {
      op.epilogue = Gemm::Epilogue::kFp32;
      op.out_fp32 = out_buffer_->As<float>();
    } else {
      op.epilogue = IsGated() ? Gemm::Epilogue::kSiluGate : Gemm::Epilogue::kBf16;
      op.out_bf16 = out_buffer_->As<Bf16>();
    }
    backend_.Run(op);
    backend_.Download(out_buffer_->data(), out_.size(), out_.data());
    return backend_.Synchronize();
  }

  void FillRow(const Placed& placed, size_t row) {
    const CancellingProbe& probe = placed.probe;
    Bf16* const x = x_.data() + row * static_cast<size_t>(shape_.k);
    const auto set = [&](int64_t term, float value) {
      if (term < shape_.k) x[term] = RoundToBf16(value);
    };
    for (int32_t unit : probe.units) set(unit, 1);
    if (IsGated()) set(placed.turn, 1);
    set(probe.plus, kHuge);
    set(probe.minus, -kHuge);
    if (shape_.kind == Kind::kBiasResidual) {
      const Bf16 value = RoundToBf16(ValueOf(probe, ResidualTerm()));
      std::fill_n(residual_.begin() + static_cast<ptrdiff_t>(row) * Columns(), Columns(), value);
    }
  }

  float Result(int64_t row, int64_t column) const {
    const auto at = static_cast<size_t>(row * Columns() + column);
    if (shape_.kind == Kind::kFp32) return reinterpret_cast<const float*>(out_.data())[at];
    return ToFloat(reinterpret_cast<const Bf16*>(out_.data())[at]);
  }

  // All columns that show the probe must agree.
  absl::StatusOr<int64_t> Count(const Placed& placed, int64_t row) const {
    const CancellingProbe& probe = placed.probe;
    const bool all = shape_.kind == Kind::kFp32 || shape_.kind == Kind::kBf16;
    const int64_t begin = all ? 0 : placed.turn, step = all ? 1 : kTurns;
    int64_t first = -1;
    for (int64_t column = begin; column < Columns(); column += step) {
      const double result = Result(row, column) / (IsGated() ? double{kDrive} : 1.0);
      const absl::StatusOr<int64_t> count = AsCount(result, probe.units.size());
      if (!count.ok()) return count.status();
      if (first < 0) first = *count;
      if (*count == first) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "columns ", begin, " and ", column,
          " add the same terms in different orders: with huge "
          "terms ",
          probe.plus, " and ", probe.minus, ", ", first, " and ", *count, " ones survive"));
    }
    return first;
  }

  Backend& backend_;
  const GemmSumShape shape_;
  std::unique_ptr<Weight> weight_;
  std::vector<Bf16> x_, residual_;
  std::vector<std::byte> out_;
  std::unique_ptr<Buffer> bias_buffer_, x_buffer_, residual_buffer_, out_buffer_;
};

}  // namespace

SummationTree GemmSumShape::Contract() const {
  return ChainWithEpilogueTree(k, kind == Kind::kBiasResidual ? 2 : 0);
}

absl::StatusOr<std::unique_ptr<CancellingSum>> MakeGemmSum(Backend& backend,
                                                           const GemmSumShape& shape) {
  auto sum = std::make_unique<GemmSum>(backend, shape);
  if (absl::Status s = sum->Prepare(); !s.ok()) return s;
  return sum;
}

}  // namespace isobit
