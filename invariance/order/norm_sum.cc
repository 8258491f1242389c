// The sum of squares of a row, seen through RmsNorm.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/order/operation_sums.h"
#include "invariance/row_sweep.h"

namespace isobit {
namespace {

// The square of the large term is 2^24, whose last bit is 2.
constexpr float kLarge = 0x1p+12f;
constexpr float kQuarter = 0.5f;

// A number with about this square: bf16 is near enough for what probes ask for.
Bf16 RootOf(float quarters) { return RoundToBf16(std::sqrt(quarters * kQuarter)); }

class RmsNormSum : public NonNegativeSum {
 public:
  RmsNormSum(Backend& backend, int64_t rows, int64_t width)
      : backend_(backend), rows_(rows), width_(width) {}

  absl::Status Prepare() {
    const std::vector<Bf16> ones(static_cast<size_t>(width_), kOneBf16);
    x_.resize(static_cast<size_t>(rows_ * width_));
    absl::Status status;
    const auto keep = [&](const std::vector<Bf16>& values, std::unique_ptr<Buffer>& buffer) {
      auto made = UploadNew(backend_, values);
      if (status.ok()) status = made.status();
      if (made.ok()) buffer = *std::move(made);
    };
    keep(ones, weight_);
    keep(x_, x_buffer_);
    keep(x_, out_buffer_);
    return status;
  }

  int64_t terms() const override { return width_; }

  absl::StatusOr<std::vector<bool>> Raised(std::span<const TripleProbe> probes) override {
    std::vector<bool> raised;
    const auto rows = static_cast<size_t>(rows_);
    for (size_t begin = 0; begin < probes.size(); begin += rows) {
      const auto batch = probes.subspan(begin, std::min(rows, probes.size() - begin));
      if (absl::Status s = Run(batch); !s.ok()) return s;
      for (size_t r = 0; r < batch.size(); ++r) {
        // x * r is infinite where the mean and eps cancel.
        const Bf16 y = x_[r * static_cast<size_t>(width_) + static_cast<size_t>(batch[r].large)];
        if (IsNan(ToFloat(y))) {
          return absl::FailedPreconditionError(
              absl::StrCat("the norm of a row with three terms is not a number: ", batch[r].large,
                           ", ", batch[r].a, ", ", batch[r].b));
        }
        raised.push_back(std::isfinite(ToFloat(y)));
      }
    }
    return raised;
  }

 private:
  // Leaves the outputs in x_.
  absl::Status Run(std::span<const TripleProbe> batch) {
    std::ranges::fill(x_, Bf16{0});
    for (size_t r = 0; r < batch.size(); ++r) {
      Bf16* const row = x_.data() + r * static_cast<size_t>(width_);
      row[batch[r].large] = RoundToBf16(kLarge);
      row[batch[r].a] = RootOf(batch[r].a_quarters);
      row[batch[r].b] = RootOf(batch[r].b_quarters);
    }
    backend_.Upload(x_.data(), x_.size() * sizeof(Bf16), x_buffer_->data());
    backend_.Run(RmsNorm{.rows = rows_,
                         .width = width_,
                         .eps = -(kLarge * kLarge / static_cast<float>(width_)),
                         .x = x_buffer_->As<Bf16>(),
                         .weight = weight_->As<Bf16>(),
                         .out = out_buffer_->As<Bf16>()});
    backend_.Download(out_buffer_->data(), x_.size() * sizeof(Bf16), x_.data());
    return backend_.Synchronize();
  }

  Backend& backend_;
  const int64_t rows_, width_;
  std::vector<Bf16> x_;
  std::unique_ptr<Buffer> weight_, x_buffer_, out_buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NonNegativeSum>> MakeRmsNormSum(Backend& backend, int64_t rows,
                                                               int64_t width) {
  auto sum = std::make_unique<RmsNormSum>(backend, rows, width);
  if (absl::Status s = sum->Prepare(); !s.ok()) return s;
  return sum;
}

}  // namespace isobit
