#include "kernels/cpu/attention_block.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/cpu/rounding_mode.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/dot16.h"

namespace isobit {
namespace {

static_assert(CpuKvCache::kKeyGroup == kDotTerms);

// 16 keys or values that nobody may read: finite, and never in need of the exact path.
constexpr auto kOnes = [] {
  std::array<Bf16, size_t{kDotTerms} * kMaxHeadDim> ones{};
  for (Bf16& x : ones) x = kOneBf16;
  return ones;
}();

// Sums with larger exponent fields than this, which only literal rows reach, could leave fp32's
// range inside the kernels, in which an unscaled sum is 2^6 times its exponent.
constexpr int kMaxSumExponent = kNonFiniteExponent - 1 - 8;

int ExponentField(float x) { return static_cast<int>(FloatBits(x) >> 23 & 0xff); }

// The exponents of n elements that a kernel could not rule on by its maximum alone.
ExponentRange ScanExponents(const Bf16* x, int64_t n) {
  ExponentRange range;
  for (int64_t i = 0; i < n; ++i) {
    const int magnitude = x[i].bits & 0x7fff;
    if (magnitude == 0) continue;
    const int exponent = std::max(1, magnitude >> 7);
    range.Include({exponent, exponent});
  }
  return range;
}

}  // namespace

AttentionRows AttentionRowsBuffer::Grow(int rows, int padded_head_dim) {
  return {rows,          padded_head_dim,    o_.Grow(int64_t{rows} * padded_head_dim),
          l_.Grow(rows), bucket_.Grow(rows), empty_.Grow(rows)};
}

AttentionJob::AttentionJob(const Attention& attention, CpuContext& ctx)
    : op(attention),
      cache(static_cast<const CpuKvCache&>(*attention.cache)),
      context(ctx),
      prepare_row(SelectPrepareRow(ctx)),
      kernels(SelectAttentionKernels(ctx)),
      scale(MakeAttentionScale(attention.softmax_scale, attention.soft_cap)),
      group(attention.heads / attention.kv_heads) {}

int64_t AttentionBlocks::OpRow(int row) const {
  return job_->op.batch->first_row[tile_.sequence] + (tile_.begin + row) / job_->group;
}

int AttentionBlocks::Head(int row) const {
  return tile_.kv_head * job_->group + static_cast<int>((tile_.begin + row) % job_->group);
}

int64_t AttentionBlocks::Position(int row) const { return job_->op.batch->position[OpRow(row)]; }

const Bf16* AttentionBlocks::Query(int row) const {
  return job_->op.q + (OpRow(row) * job_->op.heads + Head(row)) * head_dim_;
}

int32_t AttentionBlocks::PageOf(int64_t position) const {
  const RowBatch& batch = *job_->op.batch;
  return batch.page_table[tile_.sequence * batch.page_table_stride +
                          position / job_->cache.shape().page_tokens];
}

void AttentionBlocks::Start(const AttentionJob& job, const AttentionTile& tile) {
  assert(tile.rows() >= 1 && tile.rows() <= kAttentionRows);
  job_ = &job;
  tile_ = tile;
  head_dim_ = job.op.head_dim;
  first_readable_ = FirstVisibleKey(Position(0), job.op.window);
  last_readable_ = Position(tile.rows() - 1);
  const int steps = head_dim_ / kDotTerms;
  ActivationStep* q = q_.Grow(int64_t{tile.rows()} * steps);
  StepKind* kinds = q_kinds_.Grow(int64_t{tile.rows()} * steps);
  for (int row = 0; row < tile.rows(); ++row) {
    q_exponents_[row] = job.prepare_row(Query(row), head_dim_, ActivationForm::kTile,
                                        q + row * steps, kinds + row * steps);
  }
}

void AttentionBlocks::RunSplit(int64_t split, const AttentionRows& state) {
  std::fill(state.empty, state.empty + state.rows, true);
  std::fill(large_, large_ + state.rows, false);
  literal_ = false;
  const int64_t begin = std::max(split * kSplitKeys, first_readable_ / kBlockKeys * kBlockKeys);
  const int64_t end = std::min((split + 1) * kSplitKeys, last_readable_ + 1);
  for (int64_t block = begin; block < end; block += kBlockKeys) RunBlock(block, state);
  job_->context.attention_tiles.fetch_add(1, std::memory_order_relaxed);
  if (literal_) job_->context.attention_tiles_exact.fetch_add(1, std::memory_order_relaxed);
}

void AttentionBlocks::RunBlock(int64_t block_begin, const AttentionRows& state) {
  for (int row = 0; row < state.rows; ++row) {
    const int64_t position = Position(row);
    const int64_t first = FirstVisibleKey(position, job_->op.window);
    visible_[row] = {static_cast<int>(std::clamp<int64_t>(first - block_begin, 0, kBlockKeys)),
                     static_cast<int>(std::min<int64_t>(position - block_begin, kBlockKeys - 1))};
  }
  ComputeScores(block_begin);
  job_->kernels.probabilities({scores_, visible_, job_->scale, state, p_, p_kinds_, p_exponents_});
  AddValues(block_begin, state);
}

AttentionBlocks::Readable AttentionBlocks::ReadableKeys(int64_t group_begin) const {
  const int64_t group_end = group_begin + kDotTerms - 1;
  if (group_begin > last_readable_ || group_end < first_readable_) return Readable::kNone;
  const bool all = first_readable_ <= group_begin && group_end <= last_readable_;
  return all ? Readable::kAll : Readable::kSome;
}

const Bf16* AttentionBlocks::CachedKeys(int64_t group_begin) const {
  const int group = static_cast<int>(group_begin % job_->cache.shape().page_tokens) / kDotTerms;
  return job_->cache.KeyGroup(job_->op.layer, PageOf(group_begin), tile_.kv_head, group);
}

const Bf16* AttentionBlocks::CachedValues(int64_t group_begin) const {
  return job_->cache.Values(job_->op.layer, PageOf(group_begin), tile_.kv_head) +
         group_begin % job_->cache.shape().page_tokens * head_dim_;
}

void AttentionBlocks::LocateKeys(int64_t block_begin) {
  const int64_t group_elements = int64_t{kDotTerms} * head_dim_;
  Bf16* copy = key_copy_.Grow(kBlockSteps * group_elements);
  for (int g = 0; g < kBlockSteps; ++g, copy += group_elements) {
    const int64_t begin = block_begin + g * kDotTerms;
    const Readable readable = ReadableKeys(begin);
    if (readable == Readable::kNone) {
      keys_[g] = kOnes.data();
      continue;
    }
    keys_[g] = CachedKeys(begin);
    if (readable == Readable::kAll) continue;
    std::copy(keys_[g], keys_[g] + group_elements, copy);
    for (int key = 0; key < kDotTerms; ++key) {
      if (first_readable_ <= begin + key && begin + key <= last_readable_) continue;
      for (int d = 0; d < head_dim_; ++d) copy[CpuKvCache::KeyOffset(key, d)] = kOneBf16;
    }
    keys_[g] = copy;
  }
}

void AttentionBlocks::LocateValues(int64_t block_begin) {
  const int padded = PaddedHeadDim(head_dim_);
  const int64_t group_elements = int64_t{kDotTerms} * padded;
  Bf16* copy = value_copy_.Grow(kBlockSteps * group_elements);
  for (int g = 0; g < kBlockSteps; ++g, copy += group_elements) {
    const int64_t begin = block_begin + g * kDotTerms;
    const Readable readable = ReadableKeys(begin);
    if (readable == Readable::kNone) {
      values_[g] = kOnes.data();
      continue;
    }
    const Bf16* values = CachedValues(begin);
    if (readable == Readable::kAll && padded == head_dim_) {
      values_[g] = values;
      continue;
    }
    // The kernel reads rows of `padded` elements.
    std::fill(copy, copy + group_elements, kOneBf16);
    for (int key = 0; key < kDotTerms; ++key) {
      if (begin + key < first_readable_ || begin + key > last_readable_) continue;
      std::copy(values + key * head_dim_, values + (key + 1) * head_dim_, copy + key * padded);
    }
    values_[g] = copy;
  }
}

void AttentionBlocks::ComputeScores(int64_t block_begin) {
  LocateKeys(block_begin);
  ScoreBlock block;
  block.rows = tile_.rows();
  block.head_dim = head_dim_;
  block.q = q_.data();
  block.kinds = q_kinds_.data();
  std::copy(keys_, keys_ + kBlockSteps, block.keys);
  for (int g = 0; g < kBlockSteps; ++g) {
    const int64_t next = block_begin + kBlockKeys + g * kDotTerms;
    block.next[g] = next <= last_readable_ ? CachedKeys(next) : keys_[g];
  }
  block.scores = scores_;
  TileCheck check;
  {
    const ScopedRoundTowardZero toward_zero;
    check = job_->kernels.scores(block);
  }
  ExponentRange q;
  for (int row = 0; row < tile_.rows(); ++row) {
    if (q_exponents_[row].finite()) q.Include(q_exponents_[row]);
  }
  ExponentRange k = {0, check.max_weight_exponent};
  bool ok = !check.wrapped && ExponentsAreSafe(q, k, head_dim_);
  if (ok && check.min_exponent < RequiredExponent(q, k)) {
    k = {};
    for (const Bf16* group : keys_) k.Include(ScanExponents(group, kDotTerms * head_dim_));
    ok = check.min_exponent >= RequiredExponent(q, k);
  }
  for (int row = 0; row < tile_.rows(); ++row) {
    if (!ok || !q_exponents_[row].finite()) ScoreRowLiterally(block_begin, row);
  }
  if (job_->scale.soft_cap > 0.0f) {
    job_->kernels.cap_scores(job_->scale, int64_t{tile_.rows()} * kBlockKeys, scores_);
  }
}

void AttentionBlocks::AddValues(int64_t block_begin, const AttentionRows& state) {
  LocateValues(block_begin);
  const int64_t size = int64_t{state.rows} * state.padded_head_dim;
  const AttentionRows before = before_.Grow(state.rows, state.padded_head_dim);
  std::copy(state.o, state.o + size, before.o);
  std::copy(state.l, state.l + state.rows, before.l);

  ValueBlock block;
  block.p = p_;
  block.kinds = p_kinds_;
  std::copy(values_, values_ + kBlockSteps, block.values);
  for (int g = 0; g < kBlockSteps; ++g) {
    const int64_t next = block_begin + kBlockKeys + g * kDotTerms;
    block.next[g] = next <= last_readable_ ? CachedValues(next) : values_[g];
  }
  block.stride = PaddedHeadDim(head_dim_);
  block.state = state;
  ValueCheck check;
  {
    const ScopedRoundTowardZero toward_zero;
    check = job_->kernels.values(block);
  }
  ExponentRange p;
  for (int row = 0; row < state.rows; ++row) {
    if (p_exponents_[row].finite()) p.Include(p_exponents_[row]);
  }
  ExponentRange v = {0, check.o.max_weight_exponent};
  bool ok = !check.o.wrapped && check.min_l_exponent > kSearchFloor &&
            ExponentsAreSafe(p, v, last_readable_ + 1);
  if (ok && check.o.min_exponent < RequiredExponent(p, v)) {
    v = {};
    for (const Bf16* group : values_) v.Include(ScanExponents(group, kDotTerms * block.stride));
    int min_start = kNonFiniteExponent;
    for (int64_t i = 0; i < size; ++i) {
      if (before.o[i] != 0.0f) min_start = std::min(min_start, ExponentField(before.o[i]));
    }
    ok = check.o.min_exponent >= RequiredExponent(p, v, min_start);
  }
  for (int row = 0; row < state.rows; ++row) {
    if (ok && p_exponents_[row].finite() && !large_[row]) continue;
    const int64_t offset = int64_t{row} * state.padded_head_dim;
    std::copy(before.o + offset, before.o + offset + state.padded_head_dim, state.o + offset);
    state.l[row] = before.l[row];
    AddRowLiterally(row, state);
  }
}

void AttentionBlocks::ScoreRowLiterally(int64_t block_begin, int row) {
  const int page_tokens = job_->cache.shape().page_tokens;
  Bf16 key[kMaxHeadDim];
  for (int j = visible_[row].first; j <= visible_[row].last; ++j) {
    const int64_t position = block_begin + j;
    for (int d = 0; d < head_dim_; ++d) {
      key[d] = job_->cache.KeyAt(job_->op.layer, PageOf(position), tile_.kv_head,
                                 static_cast<int>(position % page_tokens), d);
    }
    scores_[row * kBlockKeys + j] = DotChain(Query(row), key, head_dim_);
    literal_ = true;
  }
}

void AttentionBlocks::AddRowLiterally(int row, const AttentionRows& state) {
  if (visible_[row].last < visible_[row].first) return;
  literal_ = true;
  float* o = state.o + int64_t{row} * state.padded_head_dim;
  const int64_t stride = PaddedHeadDim(head_dim_);
  for (int s = 0; s < kBlockSteps; ++s) {
    Bf16 p[kDotTerms];
    for (int j = 0; j < kDotTerms; ++j) {
      p[j] = TruncateToBf16(p_[row * kBlockSteps + s].value[j]);
    }
    const Bf16 one = kOneBf16;
    state.l[row] = Dot16(state.l[row], p, 1, &one, 0);
    for (int d = 0; d < head_dim_; ++d) {
      Bf16 column[kDotTerms] = {};
      for (int j = 0; j < kDotTerms; ++j) {
        const int key = s * kDotTerms + j;
        if (visible_[row].first <= key && key <= visible_[row].last) {
          column[j] = values_[s][j * stride + d];
        }
      }
      float& sum = o[DimensionPlace(d)];
      sum = Dot16(sum, p, column);
    }
  }
  int largest = ExponentField(state.l[row]);
  for (int d = 0; d < head_dim_; ++d) {
    largest = std::max(largest, ExponentField(o[DimensionPlace(d)]));
  }
  large_[row] = largest > kMaxSumExponent;
}

}  // namespace isobit
