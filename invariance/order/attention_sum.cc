// The sum of probabilities times values, seen through RopeKvWrite and Attention.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/order/operation_sums.h"
#include "invariance/order/paged_sequence.h"

namespace isobit {
namespace {

// bf16 rounds by at most 2^-8; a little more, for the division before it.
constexpr double kRounding = 0x1p-8 * 1.01;

// Queries and keys are zero, so every score is 0, every probability exactly 1 and their sum the
// number of keys. Values differ by column: each column of each key head carries a probe.
class AttentionSum : public CancellingSum {
 public:
  AttentionSum(std::unique_ptr<PagedSequence> sequence, const AttentionSumShape& shape)
      : sequence_(std::move(sequence)),
        shape_(shape),
        columns_(int64_t{shape.kv_heads} * shape.head_dim),
        every_key_(static_cast<size_t>(shape.keys)),
        qkv_(static_cast<size_t>(shape.keys * sequence_->qkv_width())),
        q_(static_cast<size_t>(sequence_->rows() * shape.heads * shape.head_dim)) {
    std::iota(every_key_.begin(), every_key_.end(), 0);
  }

  int64_t terms() const override { return shape_.terms(); }
  // A count divided by the number of keys, to bf16's 8 bits, and multiplied back: below 128 no two
  // counts fall together.
  int64_t most_units() const override { return 100; }

  absl::StatusOr<std::vector<int64_t>> Survivors(std::span<const CancellingProbe> probes) override {
    std::vector<int64_t> counts;
    const auto columns = static_cast<size_t>(columns_);
    for (size_t begin = 0; begin < probes.size(); begin += columns) {
      const auto batch = probes.subspan(begin, std::min(columns, probes.size() - begin));
      if (absl::Status s = Run(batch); !s.ok()) return s;
      for (size_t c = 0; c < batch.size(); ++c) {
        const absl::StatusOr<int64_t> count = Count(batch[c], static_cast<int64_t>(c));
        if (!count.ok()) return count.status();
        counts.push_back(*count);
      }
    }
    return counts;
  }

 private:
  absl::Status Run(std::span<const CancellingProbe> batch) {
    std::ranges::fill(qkv_, Bf16{0});
    for (size_t c = 0; c < batch.size(); ++c) {
      const auto set = [&](int32_t term, float value) {
        const int64_t key = shape_.first_key() + term;
        const int64_t column = sequence_->first_value_column() + static_cast<int64_t>(c);
        qkv_[static_cast<size_t>(key * sequence_->qkv_width() + column)] = RoundToBf16(value);
      };
      for (int32_t unit : batch[c].units) set(unit, 1);
      set(batch[c].plus, kHuge);
      set(batch[c].minus, -kHuge);
    }
    sequence_->Write(every_key_, qkv_);
    return sequence_->Attend(1.0 / std::sqrt(static_cast<double>(shape_.head_dim)), q_, &out_);
  }

  // All query heads of the key head must agree.
  absl::StatusOr<int64_t> Count(const CancellingProbe& probe, int64_t column) const {
    const int64_t dim = column % shape_.head_dim, group = shape_.heads / shape_.kv_heads;
    const int64_t first_head = column / shape_.head_dim * group;
    int64_t first = -1;
    for (int64_t head = first_head; head < first_head + group; ++head) {
      const int64_t at = ((sequence_->rows() - 1) * shape_.heads + head) * shape_.head_dim + dim;
      const double keys = static_cast<double>(terms());
      const double result = double{ToFloat(out_[static_cast<size_t>(at)])} * keys;
      const double nearest = std::round(result);
      const absl::StatusOr<int64_t> count =
          AsCount(std::fabs(result - nearest) <= kRounding * nearest ? nearest : result,
                  probe.units.size());
      if (!count.ok()) return count.status();
      if (first < 0) first = *count;
      if (*count == first) continue;
      return absl::FailedPreconditionError(absl::StrCat("query heads ", first_head, " and ", head,
                                                        " add the same keys in different "
                                                        "orders: with huge terms ",
                                                        probe.plus, " and ", probe.minus, ", ",
                                                        first, " and ", *count, " ones survive"));
    }
    return first;
  }

  const std::unique_ptr<PagedSequence> sequence_;
  const AttentionSumShape shape_;
  const int64_t columns_;
  std::vector<int32_t> every_key_;
  std::vector<Bf16> qkv_, q_, out_;
};

}  // namespace

SummationTree AttentionSumShape::Contract() const { return AttentionTree(first_key(), keys - 1); }

absl::StatusOr<std::unique_ptr<CancellingSum>> MakeAttentionSum(Backend& backend,
                                                                const AttentionSumShape& shape) {
  auto sequence = PagedSequence::Create(backend, shape);
  if (!sequence.ok()) return sequence.status();
  return std::make_unique<AttentionSum>(*std::move(sequence), shape);
}

}  // namespace isobit
