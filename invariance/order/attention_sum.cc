// The sum of probabilities times values, seen through RopeKvWrite and Attention.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/order/operation_sums.h"
#include "invariance/row_sweep.h"

namespace isobit {
namespace {

// bf16 rounds by at most 2^-8; a little more, for the division before it.
constexpr double kRounding = 0x1p-8 * 1.01;

// Queries and keys are zero, so every score is 0, every probability exactly 1 and their sum the
// number of keys. Values differ by column: each column of each key head carries a probe.
class AttentionSum : public CancellingSum {
 public:
  AttentionSum(Backend& backend, const AttentionSumShape& shape)
      : backend_(backend),
        shape_(shape),
        columns_(int64_t{shape.kv_heads} * shape.head_dim),
        qkv_width_((int64_t{shape.heads} + 2 * shape.kv_heads) * shape.head_dim),
        rows_(std::min(shape.rows, shape.keys)) {}

  absl::Status Prepare() {
    const int64_t pages = (shape_.keys + shape_.page_tokens - 1) / shape_.page_tokens;
    auto cache = backend_.CreateKvCache({.layers = 1,
                                         .kv_heads = shape_.kv_heads,
                                         .head_dim = shape_.head_dim,
                                         .page_tokens = shape_.page_tokens,
                                         .pages = pages});
    if (!cache.ok()) return cache.status();
    cache_ = *std::move(cache);
    qkv_.resize(static_cast<size_t>(shape_.keys * qkv_width_));
    const int64_t q_width = int64_t{shape_.heads} * shape_.head_dim;
    q_.resize(static_cast<size_t>(shape_.keys * q_width));
    out_.resize(static_cast<size_t>(rows_ * q_width));
    std::vector<int32_t> table, position, sequence(static_cast<size_t>(shape_.keys), 0);
    for (int64_t i = 0; i < pages; ++i) table.push_back(static_cast<int32_t>(pages - 1 - i));
    for (int64_t i = 0; i < shape_.keys; ++i) position.push_back(static_cast<int32_t>(i));
    absl::Status status;
    const auto keep = [&](absl::StatusOr<std::unique_ptr<Buffer>> made) {
      if (status.ok()) status = made.status();
      if (!made.ok()) return static_cast<Buffer*>(nullptr);
      memory_.push_back(*std::move(made));
      return memory_.back().get();
    };
    const Buffer* const buffers[] = {
        keep(UploadNew(backend_, position)), keep(UploadNew(backend_, sequence)),
        keep(UploadNew(backend_, table)),
        keep(UploadNew(backend_, std::vector<int32_t>{0, static_cast<int32_t>(shape_.keys)})),
        keep(UploadNew(backend_, std::vector<int32_t>{0, static_cast<int32_t>(rows_)}))};
    qkv_buffer_ = keep(UploadNew(backend_, qkv_));
    q_buffer_ = keep(UploadNew(backend_, q_));
    out_buffer_ = keep(UploadNew(backend_, out_));
    if (!status.ok()) return status;
    all_ = {.rows = shape_.keys,
            .sequences = 1,
            .position = buffers[0]->As<int32_t>(),
            .sequence = buffers[1]->As<int32_t>(),
            .first_row = buffers[3]->As<int32_t>(),
            .page_table = buffers[2]->As<int32_t>(),
            .page_table_stride = pages,
            .max_context = shape_.keys};
    last_ = all_;
    last_.rows = rows_;
    last_.position += shape_.keys - rows_;
    last_.first_row = buffers[4]->As<int32_t>();
    return absl::OkStatus();
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
        const int64_t column = qkv_width_ - columns_ + static_cast<int64_t>(c);
        qkv_[static_cast<size_t>(key * qkv_width_ + column)] = RoundToBf16(value);
      };
      for (int32_t unit : batch[c].units) set(unit, 1);
      set(batch[c].plus, kHuge);
      set(batch[c].minus, -kHuge);
    }
    backend_.Upload(qkv_.data(), qkv_.size() * sizeof(Bf16), qkv_buffer_->data());
    backend_.Run(RopeKvWrite{.batch = &all_,
                             .heads = shape_.heads,
                             .kv_heads = shape_.kv_heads,
                             .head_dim = shape_.head_dim,
                             .qkv = qkv_buffer_->As<Bf16>(),
                             .q = q_buffer_->As<Bf16>(),
                             .cache = cache_.get()});
    backend_.Run(Attention{.batch = &last_,
                           .heads = shape_.heads,
                           .kv_heads = shape_.kv_heads,
                           .head_dim = shape_.head_dim,
                           .softmax_scale = 1.0 / std::sqrt(static_cast<double>(shape_.head_dim)),
                           .window = shape_.window,
                           .q = q_buffer_->As<Bf16>(),
                           .cache = cache_.get(),
                           .out = out_buffer_->As<Bf16>()});
    backend_.Download(out_buffer_->data(), out_.size() * sizeof(Bf16), out_.data());
    return backend_.Synchronize();
  }

  // All query heads of the key head must agree.
  absl::StatusOr<int64_t> Count(const CancellingProbe& probe, int64_t column) const {
    const int64_t dim = column % shape_.head_dim, group = shape_.heads / shape_.kv_heads;
    const int64_t first_head = column / shape_.head_dim * group;
    int64_t first = -1;
    for (int64_t head = first_head; head < first_head + group; ++head) {
      const int64_t at = ((rows_ - 1) * shape_.heads + head) * shape_.head_dim + dim;
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

  Backend& backend_;
  const AttentionSumShape shape_;
  const int64_t columns_, qkv_width_, rows_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::unique_ptr<Buffer>> memory_;
  std::vector<Bf16> qkv_, q_, out_;
  Buffer* qkv_buffer_ = nullptr;
  Buffer* q_buffer_ = nullptr;
  Buffer* out_buffer_ = nullptr;
  RowBatch all_, last_;
};

}  // namespace

SummationTree AttentionSumShape::Contract() const { return AttentionTree(first_key(), keys - 1); }

absl::StatusOr<std::unique_ptr<CancellingSum>> MakeAttentionSum(Backend& backend,
                                                                const AttentionSumShape& shape) {
  auto sum = std::make_unique<AttentionSum>(backend, shape);
  if (absl::Status s = sum->Prepare(); !s.ok()) return s;
  return sum;
}

}  // namespace isobit
