#ifndef ISOBIT_KERNELS_CUDA_SOFTMAX_ROW_CUH_
#define ISOBIT_KERNELS_CUDA_SOFTMAX_ROW_CUH_

// A row of logits held by a cluster of CTAs: what scoring and sampling are made of (contract 6).
//
// Each CTA keeps a slice of the vocabulary, in ascending ids, in its shared memory, so global
// memory is read once. All sums are sums of integers, and so need no order.
//
// Unless said otherwise every function is called by all threads of the cluster with the same
// arguments, and returns the same in all of them.

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/numerics/sampling.h"
#include "kernels/ops.h"

namespace isobit::cuda {

inline constexpr int kRowCtas = 8;
inline constexpr int kRowThreads = 512;
inline constexpr int kRowWarps = kRowThreads / 32;

// Bins of a histogram over a row.
inline constexpr int kRowBinBits = 11;
inline constexpr int kRowBins = 1 << kRowBinBits;
inline constexpr int kBinsPerCta = kRowBins / kRowCtas;

// Weights are added up in 32-bit pieces of 14 bits, as wide additions in shared memory are slow.
inline constexpr int kPieceBits = 14;
inline constexpr int kPieces = 3;
static_assert(kPieces * kPieceBits > kWeightBits);
// Then a slice may have this many tokens.
inline constexpr int64_t kMaxSliceTokens = 48 << 10;
inline constexpr int64_t kMaxRowVocab = kRowCtas * kMaxSliceTokens;
static_assert(kMaxSliceTokens << kPieceBits <= int64_t{1} << 32);

// What is known of some tokens together.
struct RowSummary {
  uint64_t max_key = 0;  // RankKey
  uint64_t min_key = ~uint64_t{0};
  uint64_t weight = 0;
  uint32_t count = 0;
  uint32_t invalid = 0;  // of them are NaN or +infinity

  __device__ void Add(const RowSummary& b) {
    max_key = b.max_key > max_key ? b.max_key : max_key;
    min_key = b.min_key < min_key ? b.min_key : min_key;
    weight += b.weight;
    count += b.count;
    invalid += b.invalid;
  }
};

// Shared memory of one CTA, in front of its slice.
struct RowShared {
  uint32_t histogram[kPieces][kRowBins];
  uint64_t scanned[kBinsPerCta];  // running sums over the bins that this CTA looks after
  uint64_t warp_sum[kRowWarps];
  RowSummary warp_summary[kRowWarps];
  // Two of each, used in turn: a place is written again only after a barrier that follows its
  // reads.
  RowSummary summary[2];
  uint64_t bin_total[2];
  struct {
    int bin;
    uint64_t before;  // measure of all bins in front of it
  } found[2];
  uint64_t top[kMaxTopLogProbs];
  uint32_t top_count;
};

// Bytes of shared memory of one CTA: RowShared, then its slice.
inline int RowSharedBytes(int64_t vocab) {
  const int64_t slice_tokens = (vocab + kRowCtas - 1) / kRowCtas;
  return static_cast<int>(sizeof(RowShared) + slice_tokens * sizeof(float));
}

// Some tokens of a row whose largest z is m.
struct RowFilter {
  float m;
  bool keeps_forbidden;     // z = -infinity
  uint64_t min_weight = 0;  // SoftmaxWeight
  uint64_t min_key = 0;     // RankKey

  __device__ bool Keeps(uint64_t key, float z) const {
    return key >= min_key && (keeps_forbidden || z != -__builtin_huge_valf()) &&
           (min_weight == 0 || SoftmaxWeight(z, m) >= min_weight);
  }
  __device__ bool Keeps(int token, float z) const {
    return Keeps(RankKey(z, static_cast<uint32_t>(token)), z);
  }
};

// What a selection counts: tokens, or weights.
enum class Measure { kTokens, kWeights };

class SoftmaxRow {
 public:
  __device__ SoftmaxRow(RowShared& shared, float* slice, int64_t vocab)
      : cluster_(cooperative_groups::this_cluster()),
        shared_(shared),
        slice_(slice),
        rank_(static_cast<int>(cluster_.block_rank())),
        slice_tokens_(static_cast<int>((vocab + kRowCtas - 1) / kRowCtas)) {
    first_ = rank_ * slice_tokens_;
    const int left = static_cast<int>(vocab) - first_;
    count_ = left < 0 ? 0 : left < slice_tokens_ ? left : slice_tokens_;
  }

  // Must be the last call: no CTA may end while others still read its memory.
  __device__ void Finish() { cluster_.sync(); }

  __device__ int first() const { return first_; }
  __device__ bool Owns(int token) const { return token >= first_ && token < first_ + count_; }
  // Of a token of this CTA's slice.
  __device__ float& Z(int token) { return slice_[token - first_]; }

  // z of any token. Between barriers of the cluster.
  __device__ float ZOf(int token) const {
    const int owner = token / slice_tokens_;
    return *cluster_.map_shared_rank(slice_ + token - owner * slice_tokens_, owner);
  }
  __device__ float WaitForZOf(int token) {
    cluster_.sync();
    return ZOf(token);
  }

  __device__ void Load(const float* logits) {
#pragma unroll 8
    for (int i = Thread(); i < count_; i += kRowThreads) slice_[i] = logits[first_ + i];
    __syncthreads();
  }

  // visit(token, z) for the slice; each thread its part.
  template <typename Visit>
  __device__ void ForEach(const Visit& visit) {
    for (int i = Thread(); i < count_; i += kRowThreads) visit(first_ + i, slice_[i]);
  }

  // The sum of what all threads of the cluster give. A barrier of the cluster.
  __device__ RowSummary Reduce(RowSummary own);
  // Of the whole row: keys and invalid numbers.
  __device__ RowSummary Summarise();

  // Count and weight of the tokens that are kept.
  __device__ RowSummary SummariseKept(const RowFilter& filter);

  // Going down the total order of the tokens that are kept: the RankKey of the first at which the
  // running measure reaches `target`. REQUIRES: 0 < target <= the whole measure.
  template <Measure kMeasure>
  __device__ uint64_t SelectKey(uint64_t target, const RowFilter& filter);

  // The first token in ascending id at which the running weight of those kept exceeds target.
  // REQUIRES: target < that sum. Known to one thread of the cluster; -1 in all others.
  __device__ int TokenAtWeight(uint64_t target, const RowFilter& filter);

  // The `count` first tokens in the total order of those kept, with log-probabilities, then tokens
  // -1 up to `stride`. kept: their summary.
  __device__ void WriteTop(const RowSummary& kept, int count, int stride, const RowFilter& filter,
                           TokenLogProb* top);

 private:
  static __device__ int Thread() { return static_cast<int>(threadIdx.x); }
  template <typename T>
  __device__ T* Remote(T* mine, int rank) const {
    return cluster_.map_shared_rank(mine, rank);
  }

  struct Found {
    int bin;
    uint64_t before;
  };
  template <Measure kMeasure, typename BinOf>
  __device__ Found FindBin(uint64_t target, float m, const BinOf& bin_of);
  template <Measure kMeasure>
  __device__ uint64_t BinMeasure(int bin) const;
  __device__ uint64_t ScanBins(uint64_t own);

  cooperative_groups::cluster_group cluster_;
  RowShared& shared_;
  float* const slice_;
  const int rank_;
  const int slice_tokens_;
  int first_, count_;  // tokens of this CTA's slice
  int turn_ = 0;       // which of two places the next exchange uses
};

// ---- Reductions

__device__ inline uint64_t ShuffleDown(uint64_t value, int distance) {
  return __shfl_down_sync(0xffffffffu, static_cast<unsigned long long>(value), distance);
}

__device__ inline RowSummary ReduceWarp(RowSummary own) {
  for (int distance = 16; distance >= 1; distance /= 2) {
    RowSummary other;
    other.max_key = ShuffleDown(own.max_key, distance);
    other.min_key = ShuffleDown(own.min_key, distance);
    other.weight = ShuffleDown(own.weight, distance);
    other.count = __shfl_down_sync(0xffffffffu, own.count, distance);
    other.invalid = __shfl_down_sync(0xffffffffu, own.invalid, distance);
    own.Add(other);
  }
  return own;
}

__device__ inline RowSummary SoftmaxRow::Reduce(RowSummary own) {
  own = ReduceWarp(own);
  if (Thread() % 32 == 0) shared_.warp_summary[Thread() / 32] = own;
  __syncthreads();
  if (Thread() == 0) {
    RowSummary of_cta;
    for (const RowSummary& warp : shared_.warp_summary) of_cta.Add(warp);
    shared_.summary[turn_] = of_cta;
  }
  cluster_.sync();
  RowSummary total;
  for (int rank = 0; rank < kRowCtas; ++rank) total.Add(*Remote(&shared_.summary[turn_], rank));
  turn_ ^= 1;
  return total;
}

__device__ inline RowSummary SoftmaxRow::Summarise() {
  RowSummary own;
  ForEach([&](int token, float z) {
    const uint64_t key = RankKey(z, static_cast<uint32_t>(token));
    RowSummary one = {key, key, 0, 1, 0};
    one.invalid = IsNan(z) || z == BitsFloat(0x7f800000u) ? 1 : 0;
    own.Add(one);
  });
  return Reduce(own);
}

__device__ inline RowSummary SoftmaxRow::SummariseKept(const RowFilter& filter) {
  RowSummary own;
  ForEach([&](int token, float z) {
    if (!filter.Keeps(token, z)) return;
    own.weight += SoftmaxWeight(z, filter.m);
    ++own.count;
  });
  return Reduce(own);
}

// ---- Selection

template <Measure kMeasure>
__device__ uint64_t SoftmaxRow::BinMeasure(int bin) const {
  uint64_t measure = 0;
  for (int rank = 0; rank < kRowCtas; ++rank) {
    for (int piece = 0; piece < (kMeasure == Measure::kTokens ? 1 : kPieces); ++piece) {
      const uint32_t sum = *Remote(&shared_.histogram[piece][bin], rank);
      measure += uint64_t{sum} << (piece * kPieceBits);
    }
  }
  return measure;
}

// Running sums of one value a thread over the first kBinsPerCta threads, to shared_.scanned.
// Returns the sum in all threads of the CTA.
__device__ inline uint64_t SoftmaxRow::ScanBins(uint64_t own) {
  const int lane = Thread() % 32, warp = Thread() / 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint64_t before =
        __shfl_up_sync(0xffffffffu, static_cast<unsigned long long>(own), distance);
    if (lane >= distance) own += before;
  }
  if (lane == 31) shared_.warp_sum[warp] = own;
  __syncthreads();
  uint64_t before = 0, total = 0;
  for (int w = 0; w < kBinsPerCta / 32; ++w) {
    if (w < warp) before += shared_.warp_sum[w];
    total += shared_.warp_sum[w];
  }
  if (Thread() < kBinsPerCta) shared_.scanned[Thread()] = before + own;
  __syncthreads();
  return total;
}

// The first bin at which the measure of the tokens in bins, added up from bin 0, reaches target.
// bin_of(token, z) is in [0, kRowBins), or negative for tokens that don't count.
template <Measure kMeasure, typename BinOf>
__device__ SoftmaxRow::Found SoftmaxRow::FindBin(uint64_t target, float m, const BinOf& bin_of) {
  for (int i = Thread(); i < kPieces * kRowBins; i += kRowThreads) {
    shared_.histogram[i / kRowBins][i % kRowBins] = 0;
  }
  __syncthreads();
  ForEach([&](int token, float z) {
    const int bin = bin_of(token, z);
    if (bin < 0) return;
    if constexpr (kMeasure == Measure::kTokens) {
      atomicAdd(&shared_.histogram[0][bin], 1u);
    } else {
      const uint64_t weight = SoftmaxWeight(z, m);
      for (int piece = 0; piece < kPieces; ++piece) {
        const auto part =
            static_cast<uint32_t>(weight >> (piece * kPieceBits)) & ((1u << kPieceBits) - 1);
        if (part != 0) atomicAdd(&shared_.histogram[piece][bin], part);
      }
    }
  });
  cluster_.sync();

  // Each CTA adds up an eighth of the bins over the cluster.
  const int first_bin = rank_ * kBinsPerCta;
  const uint64_t total =
      ScanBins(Thread() < kBinsPerCta ? BinMeasure<kMeasure>(first_bin + Thread()) : 0);
  if (Thread() == 0) shared_.bin_total[turn_] = total;
  cluster_.sync();

  // The CTA that owns the bin tells all.
  uint64_t before = 0;
  int owner = -1;
  for (int rank = 0; rank < kRowCtas; ++rank) {
    const uint64_t of_rank = *Remote(&shared_.bin_total[turn_], rank);
    if (owner < 0 && before + of_rank >= target) owner = rank;
    if (owner < 0) before += of_rank;
  }
  if (rank_ == owner && Thread() < kBinsPerCta) {
    const uint64_t end = before + shared_.scanned[Thread()];
    const uint64_t begin = before + (Thread() == 0 ? 0 : shared_.scanned[Thread() - 1]);
    if (begin < target && target <= end) {
      shared_.found[turn_].bin = first_bin + Thread();
      shared_.found[turn_].before = begin;
    }
  }
  cluster_.sync();
  const auto* found = Remote(&shared_.found[turn_], owner);
  turn_ ^= 1;
  return {found->bin, found->before};
}

// Not inlined, as it is large and called in several places.
template <Measure kMeasure>
__device__ __noinline__ uint64_t SoftmaxRow::SelectKey(uint64_t target, const RowFilter& filter) {
  // First by distance from the maximum, which spreads real logits over the bins and keeps the order
  // of keys (subtraction and product are monotonous).
  constexpr float kBinsPerUnit = 64.0f;
  const float m = filter.m;
  const auto distance_bin = [&](int token, float z) {
    if (!filter.Keeps(token, z)) return -1;
    return static_cast<int>(fminf(ieee::Mul(ieee::Sub(m, z), kBinsPerUnit), kRowBins - 1));
  };
  const Found found = FindBin<kMeasure>(target, m, distance_bin);
  target -= found.before;

  // Then by key: each round cuts the interval of keys that are left into kRowBins parts.
  uint64_t low = 0, high = ~uint64_t{0};
  const auto is_left = [&](uint64_t key, int token, float z) {
    return low <= key && key <= high && distance_bin(token, z) == found.bin;
  };
  for (;;) {
    RowSummary left;
    ForEach([&](int token, float z) {
      const uint64_t key = RankKey(z, static_cast<uint32_t>(token));
      if (is_left(key, token, z)) left.Add({key, key, 0, 1, 0});
    });
    left = Reduce(left);
    low = left.min_key;
    high = left.max_key;
    if (low == high) return high;
    const int bits = 64 - __clzll(static_cast<long long>(high - low));
    const int shift = bits > kRowBinBits ? bits - kRowBinBits : 0;
    const auto key_bin = [&](int token, float z) {
      const uint64_t key = RankKey(z, static_cast<uint32_t>(token));
      return is_left(key, token, z) ? static_cast<int>((high - key) >> shift) : -1;
    };
    const Found part = FindBin<kMeasure>(target, m, key_bin);
    target -= part.before;
    high -= static_cast<uint64_t>(part.bin) << shift;
    const uint64_t width = (uint64_t{1} << shift) - 1;
    if (high - low > width) low = high - width;
  }
}

// ---- Draw and top list

__device__ inline int SoftmaxRow::TokenAtWeight(uint64_t target, const RowFilter& filter) {
  // Each warp has a run of neighbouring tokens of the slice.
  const int warp = Thread() / 32, lane = Thread() % 32;
  const int run = (count_ + kRowWarps - 1) / kRowWarps;
  const int begin = warp * run < count_ ? warp * run : count_;
  const int end = begin + run < count_ ? begin + run : count_;
  const auto weight_at = [&](int i) {
    const bool kept = i < end && filter.Keeps(first_ + i, slice_[i]);
    return kept ? SoftmaxWeight(slice_[i], filter.m) : 0;
  };
  RowSummary of_warp;
  for (int i = begin + lane; i < end; i += 32) of_warp.weight += weight_at(i);
  of_warp = ReduceWarp(of_warp);
  if (lane == 0) shared_.warp_sum[warp] = of_warp.weight;
  __syncthreads();
  uint64_t before = 0, of_cta = 0;
  for (int w = 0; w < kRowWarps; ++w) {
    if (w < warp) before += shared_.warp_sum[w];
    of_cta += shared_.warp_sum[w];
  }
  if (Thread() == 0) shared_.bin_total[turn_] = of_cta;
  cluster_.sync();
  for (int rank = 0; rank < rank_; ++rank) before += *Remote(&shared_.bin_total[turn_], rank);
  turn_ ^= 1;

  const uint64_t warp_end = before + shared_.warp_sum[warp];
  if (target < before || target >= warp_end) return -1;
  for (int i = begin; i < end; i += 32) {
    uint64_t running = weight_at(i + lane);
    for (int distance = 1; distance < 32; distance *= 2) {
      const uint64_t left =
          __shfl_up_sync(0xffffffffu, static_cast<unsigned long long>(running), distance);
      if (lane >= distance) running += left;
    }
    const unsigned past = __ballot_sync(0xffffffffu, before + running > target);
    if (past != 0) return lane == __ffs(static_cast<int>(past)) - 1 ? first_ + i + lane : -1;
    before += __shfl_sync(0xffffffffu, static_cast<unsigned long long>(running), 31);
  }
  return -1;
}

__device__ inline void SoftmaxRow::WriteTop(const RowSummary& kept, int count, int stride,
                                            const RowFilter& filter, TokenLogProb* top) {
  if (stride == 0) return;
  const uint32_t wanted = kept.count < static_cast<uint32_t>(count) ? kept.count : count;
  if (wanted > 0) {
    const uint64_t last = SelectKey<Measure::kTokens>(wanted, filter);
    if (rank_ == 0 && Thread() == 0) shared_.top_count = 0;
    cluster_.sync();
    ForEach([&](int token, float z) {
      const uint64_t key = RankKey(z, static_cast<uint32_t>(token));
      if (key < last || !filter.Keeps(key, z)) return;
      Remote(shared_.top, 0)[atomicAdd(Remote(&shared_.top_count, 0), 1u)] = key;
    });
  }
  cluster_.sync();
  // Keys differ, so each one's place is the number of higher ones.
  for (int i = Thread(); rank_ == 0 && i < stride; i += kRowThreads) {
    if (i >= static_cast<int>(wanted)) {
      top[i] = TokenLogProb{};
      continue;
    }
    const uint64_t key = shared_.top[i];
    int place = 0;
    for (uint32_t j = 0; j < wanted; ++j) place += shared_.top[j] > key ? 1 : 0;
    const auto token = static_cast<int32_t>(RankKeyToken(key));
    top[place] = {token, LogProb(ZOf(token), filter.m, kept.weight)};
  }
  cluster_.sync();  // from here on the others may change their z
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_SOFTMAX_ROW_CUH_
