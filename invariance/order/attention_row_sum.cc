// The sum of probabilities that attention divides by, seen through RopeKvWrite and Attention.

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/order/operation_sums.h"
#include "invariance/order/paged_sequence.h"

namespace isobit {
namespace {

// A score of s has the probability 2^s: with this scale, c of contract 4 is 1, and scores below 64
// move no bucket.
constexpr double kScale = std::numbers::ln2;
// The last bit of the large term, 2^20, is 2^-3.
constexpr float kLargeScore = 20, kQuarter = 0x1p-5f;
// Terms that are not in a probe: lost beside everything that is.
constexpr float kNoScore = -63;

// Only whether l is 2^20 or more is to be seen. With p = odd * 2^-s of a small term, whose value is
// 2^(12 + s), and 1 as the large term's value, O is 2^20 * (1 + odd / 256), exactly and in any
// order. O / 2^20 lies halfway between two numbers of bf16 and rounds to the upper one, which is
// the even one where odd is 3 modulo 4. If l has one last bit more, it rounds to the lower one.
struct Border {
  float value;  // of the small term
  float upper;  // the output for l = 2^20
  float lower;  // and for more
};

Border BorderOf(float quarters) {
  const float p = quarters * kQuarter;  // 23 * 2^-8 or 3 * 2^-6
  float odd = p;
  while (odd != std::floor(odd)) odd *= 2;
  const float value = 0x1p+20f * 0x1p-8f * odd / p;
  return {value, 1 + (odd + 1) * 0x1p-8f, 1 + (odd - 1) * 0x1p-8f};
}

// Each query head has dimensions of its key head's keys to itself, and columns of the values: so it
// carries a probe of its own.
class AttentionRowSum : public NonNegativeSum {
 public:
  AttentionRowSum(std::unique_ptr<PagedSequence> sequence, const AttentionSumShape& shape)
      : sequence_(std::move(sequence)),
        shape_(shape),
        group_(shape.heads / shape.kv_heads),
        slots_(std::min(group_, shape.head_dim / 2)) {}

  // Keys that no probe names, and queries: each adds its two dimensions of a key.
  void Prepare() {
    const int64_t width = sequence_->qkv_width();
    plain_key_.resize(static_cast<size_t>(width));
    for (int head = 0; head < shape_.kv_heads; ++head) {
      for (int slot = 0; slot < slots_; ++slot) SetScore(plain_key_.data(), head, slot, kNoScore);
    }
    std::vector<int32_t> positions;
    std::vector<Bf16> qkv;
    for (int64_t key = 0; key < shape_.keys; ++key) {
      positions.push_back(static_cast<int32_t>(key));
      qkv.insert(qkv.end(), plain_key_.begin(), plain_key_.end());
    }
    sequence_->Write(positions, qkv);
    q_.resize(static_cast<size_t>(sequence_->rows() * shape_.heads * shape_.head_dim));
    for (int64_t head = 0; head < sequence_->rows() * shape_.heads; ++head) {
      const int64_t slot = head % shape_.heads % group_ % slots_;
      Bf16* const q = q_.data() + head * shape_.head_dim + 2 * slot;
      q[0] = q[1] = kOneBf16;
    }
  }

  int64_t terms() const override { return shape_.terms(); }

  absl::StatusOr<std::vector<bool>> Raised(std::span<const TripleProbe> probes) override {
    std::vector<bool> raised;
    const auto together = static_cast<size_t>(slots_ * shape_.kv_heads);
    for (size_t begin = 0; begin < probes.size(); begin += together) {
      const auto batch = probes.subspan(begin, std::min(together, probes.size() - begin));
      if (absl::Status s = Run(batch); !s.ok()) return s;
      for (size_t i = 0; i < batch.size(); ++i) {
        const absl::StatusOr<bool> one = Read(batch[i], static_cast<int>(i));
        if (!one.ok()) return one.status();
        raised.push_back(*one);
      }
    }
    return raised;
  }

 private:
  static float Carried(const TripleProbe& probe) {
    return probe.a_quarters > 0 ? probe.a_quarters : probe.b_quarters;
  }

  // Of a key, whose numbers begin at `qkv`. bf16 holds 8 bits: two dimensions hold 16.
  void SetScore(Bf16* qkv, int kv_head, int slot, float score) const {
    Bf16* const key = qkv + sequence_->first_key_column() + kv_head * shape_.head_dim + 2 * slot;
    key[0] = RoundToBf16(score);
    key[1] = RoundToBf16(score - ToFloat(key[0]));
  }
  // In all columns of the slot.
  void SetValue(Bf16* qkv, int kv_head, int slot, float value) const {
    Bf16* const values = qkv + sequence_->first_value_column() + kv_head * shape_.head_dim;
    for (int d = slot; d < shape_.head_dim; d += slots_) values[d] = RoundToBf16(value);
  }

  absl::Status Run(std::span<const TripleProbe> batch) {
    std::map<int64_t, std::vector<Bf16>> changed;
    for (int64_t key : dirty_) changed.emplace(key, plain_key_);
    dirty_.clear();
    for (size_t i = 0; i < batch.size(); ++i) {
      const int kv_head = static_cast<int>(i) / slots_, slot = static_cast<int>(i) % slots_;
      const auto set = [&](int32_t term, float score, float value) {
        const int64_t key = shape_.first_key() + term;
        Bf16* const qkv = changed.emplace(key, plain_key_).first->second.data();
        SetScore(qkv, kv_head, slot, score);
        SetValue(qkv, kv_head, slot, value);
        dirty_.push_back(key);
      };
      const TripleProbe& p = batch[i];
      const float value = BorderOf(Carried(p)).value;
      set(p.large, kLargeScore, 1);
      if (p.a_quarters > 0) set(p.a, std::log2(p.a_quarters * kQuarter), value);
      if (p.b_quarters > 0) {
        set(p.b, std::log2(p.b_quarters * kQuarter), p.a_quarters > 0 ? 0 : value);
      }
    }
    std::vector<int32_t> positions;
    std::vector<Bf16> qkv;
    for (const auto& [key, numbers] : changed) {
      positions.push_back(static_cast<int32_t>(key));
      qkv.insert(qkv.end(), numbers.begin(), numbers.end());
    }
    sequence_->Write(positions, qkv);
    return sequence_->Attend(kScale, q_, &out_);
  }

  // Of the last row, in all columns of the slot and all query heads that share it.
  absl::StatusOr<bool> Read(const TripleProbe& probe, int place) const {
    const int kv_head = place / slots_, slot = place % slots_;
    const Border border = BorderOf(Carried(probe));
    int raised = -1;
    for (int head = slot; head < group_; head += slots_) {
      const int64_t row = (sequence_->rows() - 1) * shape_.heads + kv_head * group_ + head;
      for (int d = slot; d < shape_.head_dim; d += slots_) {
        const float y = ToFloat(out_[static_cast<size_t>(row * shape_.head_dim + d)]);
        const bool above = y == border.lower;
        if ((above || y == border.upper) && (raised < 0 || raised == (above ? 1 : 0))) {
          raised = above ? 1 : 0;
          continue;
        }
        return absl::FailedPreconditionError(
            absl::StrCat("with probabilities at terms ", probe.large, ", ", probe.a, " and ",
                         probe.b, ", query head ", kv_head * group_ + head, " gives ", y,
                         " in column ", d, ", where one sum gives ",
                         raised == 0 ? "" : absl::StrCat(border.lower), raised < 0 ? " or " : "",
                         raised == 1 ? "" : absl::StrCat(border.upper), " in all columns"));
      }
    }
    return raised == 1;
  }

  const std::unique_ptr<PagedSequence> sequence_;
  const AttentionSumShape shape_;
  const int group_, slots_;  // query heads of a key head; those with a probe of their own
  std::vector<Bf16> plain_key_, q_, out_;
  std::vector<int64_t> dirty_;  // keys that are not plain
};

}  // namespace

absl::StatusOr<std::unique_ptr<NonNegativeSum>> MakeAttentionRowSum(
    Backend& backend, const AttentionSumShape& shape) {
  auto sequence = PagedSequence::Create(backend, shape);
  if (!sequence.ok()) return sequence.status();
  auto sum = std::make_unique<AttentionRowSum>(*std::move(sequence), shape);
  sum->Prepare();
  return sum;
}

}  // namespace isobit
