#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CONSUMER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CONSUMER_CUH_

// The warpgroups of the prefill kernel that compute.
//
// A warpgroup never stops between tiles of rows: with the last products of one it issues the first
// scores of the next.

#include "kernels/cuda/attention_prefill_handed.cuh"
#include "kernels/cuda/attention_prefill_shared.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/cuda/sm90/exp2.h"
#include "kernels/cuda/sm90/load_matrix.h"
#include "kernels/cuda/sm90/named_barrier.h"
#include "kernels/cuda/sm90/opaque.h"
#include "kernels/cuda/sm90/wgmma.h"
#include "kernels/cuda/sm90/wgmma_register_a.h"
#include "kernels/numerics/grid_exp.h"

namespace isobit::cuda {

// One warpgroup. A thread holds two of its rows, 16 (warp % 4) + lane / 4 and the one 8 further on
// (half 0 and 1), and of these the columns of wgmma's accumulators (wgmma.h).
template <class Config>
class PrefillConsumer {
 public:
  __device__ PrefillConsumer(const AttentionParams& p, PrefillShared<Config>& shared,
                             const PrefillAddresses<Config>& at, int warp)
      : p_(p),
        shared_(shared),
        at_(at),
        warpgroup_(warp / 4),
        first_row_(warp * 16),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    // Warpgroup 0 has the first turn.
    if (warpgroup_ == Config::kWarpgroups - 1) sm90::ArriveNamed(kTurnBarrier + 0, kTurnThreads);
  }

  __device__ void Run() {
    if (!Enter(work_)) return;
    FirstScores();
    wild_ = MaskScores(work_.slot);
    ToGrid(0);
    Exponentials(Ending::kNone);
    TakeUp();
#pragma unroll 1
    for (;;) {
      const bool is_last = keys_.IsLast(begin_);
      if (is_last) {
        if (!Enter(work_.After(1))) break;
      } else {
        begin_ += Config::kTileKeys;
      }
      IssueTurn();
      WaitForScores();
      const bool wild = MaskScores(is_last ? work_.After(1).slot : work_.slot);
      ToGrid(0);
      if (is_last) LocateOutput();
      WaitForOutput();
      Exponentials(is_last                    ? BeginFinish()
                   : begin_ % kSplitKeys == 0 ? BeginMerge()
                                              : Ending::kNone);
      if (is_last) GoOn();
      wild_ = wild_ || wild;
    }
    LastOutput();
    LocateOutput();
    const Ending ending = BeginFinish();
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      if (ending != Ending::kNone) End(ending, step);
    }
    HandOn();
  }

 private:
  // What has to be done with the output of the tile before.
  enum class Ending { kNone, kFirstSplit, kSplit, kLastSplit, kOnlySplit };

  static constexpr float kHidden = -__builtin_huge_valf();
  static constexpr int kTurnBarrier = 1;    // and the next: one for each warpgroup
  static constexpr int kTurnThreads = 256;  // those whose turn it is, and those who had the last
  static constexpr int kScores = Config::kTileKeys / 2;
  static constexpr int kOutputs = Config::kHeadDim / 2;
  static constexpr int kQuerySteps = Config::kHeadDim / kDotTerms;
  static constexpr int kValueSteps = Config::kTileKeys / kDotTerms;

  __device__ int Row(int half) const { return first_row_ + lane_ / 4 + 8 * half; }

  // ---- Work

  // Goes to the first tile of keys of another work; false if there is no more.
  __device__ bool Enter(const SlotCursor<PrefillShared<Config>::kWorkSlots>& work) {
    sm90::Wait(at_.work_full + 8 * work.slot, work.parity);
    const PrefillWork& entered = shared_.work[work.slot];
    if (entered.tile.rows == 0) return false;
    keys_ = PrefillKeys<Config>(p_, entered);
    begin_ = keys_.Begin();
    static_assert(PrefillShared<Config>::kWorkSlots % 2 == 0);
    sm90::Wait(at_.query_full, work.slot % 2);
    if constexpr (Config::kQueryInRegisters) {
      FetchQuery();
      sm90::Arrive(at_.query_empty);
    }
    return true;
  }

  __device__ void FetchQuery() {
    const uint32_t lane = sm90::Opaque(lane_);
    // The first chunk of this lane's row, or the second, where it lies; others are found by xor.
    const int row = first_row_ + static_cast<int>(lane % 16);
    const uint32_t first =
        at_.query + KvChunkOffset(Config::kHeadDim, row, static_cast<int>(lane / 16));
#pragma unroll
    for (int step = 0; step < kQuerySteps; ++step) {
      sm90::LoadMatrices(query_[step], (first ^ step % 4 * 32) + step / 4 * kKvAtomBytes);
    }
  }

  // ---- Products

  // Operands lie in atoms as in kv_layout.h. Descriptors count in units of 16 bytes.
  static __device__ uint64_t Descriptor(uint32_t address, uint32_t atoms_bytes) {
    return sm90::WgmmaAtomsDescriptor(address, atoms_bytes, kKvAtomBytes);
  }

  __device__ void IssueScores() {
    constexpr int kAtomsBytes = KvAtomsBytes(Config::kHeadDim);
    const uint64_t keys = Descriptor(at_.Keys(cursor_.slot), kAtomsBytes);
#pragma unroll
    for (int step = 0; step < kQuerySteps; ++step) {
      const uint64_t offset = (step / 4 * kKvAtomBytes + step % 4 * 2 * kDotTerms) / 16;
      if constexpr (Config::kQueryInRegisters) {
        sm90::WgmmaRegisterAByRows(s_, query_[step], keys + offset, step > 0);
      } else {
        const uint64_t query = Descriptor(
            at_.query + warpgroup_ * Config::kWarpgroupRows * Config::kHeadDim * 2, kAtomsBytes);
        sm90::WgmmaBf16(s_, query + offset, keys + offset, step > 0);
      }
    }
    sm90::WgmmaCommit();
  }

  // o, and in the columns behind it l.
  __device__ void IssueOutput() {
    constexpr int kStep = kDotTerms / kKvAtomTokens * Config::kValueAtomsBytes / 16;
    const uint64_t values = Descriptor(at_.Values(cursor_.Before().slot), Config::kValueAtomsBytes);
    const uint32_t accumulate = is_fresh_ ? 0 : 1;
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      const uint32_t add = step > 0 ? 1 : accumulate;
      if constexpr (Config::kHeadDim <= 128) {
        sm90::WgmmaRegisterA(o_, probability_[step], values + step * kStep, add);
      } else {
        // 264 columns are more than one wgmma makes.
        auto& low = reinterpret_cast<float(&)[64]>(o_[0]);
        auto& high = reinterpret_cast<float(&)[kOutputs + 4 - 64]>(o_[64]);
        sm90::WgmmaRegisterA(low, probability_[step], values + step * kStep, add);
        sm90::WgmmaRegisterA(high, probability_[step],
                             values + step * kStep + 128 / kKvBoxDims * kKvAtomBytes / 16, add);
      }
    }
    sm90::WgmmaCommit();
    is_fresh_ = false;
  }

  __device__ void WaitForKeys() const {
    sm90::Wait(at_.keys_full + 8 * cursor_.slot, cursor_.parity);
  }
  __device__ void WaitForValues() const {
    const typename Config::Cursor values = cursor_.Before();
    sm90::Wait(at_.values_full + 8 * values.slot, values.parity);
  }
  __device__ void ReleaseKeys() const {
    if (lane_ == 0) sm90::Arrive(at_.keys_empty + 8 * cursor_.slot);
    if (!Config::kQueryInRegisters && keys_.IsLast(begin_)) sm90::Arrive(at_.query_empty);
  }
  __device__ void ReleaseValues() const {
    if (lane_ == 0) sm90::Arrive(at_.values_empty + 8 * cursor_.Before().slot);
  }

  __device__ void FirstScores() {
    WaitForKeys();
    sm90::WgmmaFence();
    IssueScores();
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(s_);
    ReleaseKeys();
    cursor_.Advance();
  }

  // Scores of a tile of keys and, with the probabilities in hand, the output of the tile before it.
  // The warpgroups issue in turn; the other one's products run while this one is in its softmax.
  __device__ void IssueTurn() {
    WaitForKeys();
    WaitForValues();
    sm90::SyncNamed(kTurnBarrier + warpgroup_, kTurnThreads);
    sm90::FenceAccumulators(o_);
    sm90::WgmmaFence();
    IssueScores();
    IssueOutput();
    const int next = warpgroup_ + 1 == Config::kWarpgroups ? 0 : warpgroup_ + 1;
    sm90::ArriveNamed(kTurnBarrier + next, kTurnThreads);
  }
  __device__ void WaitForScores() {
    sm90::WgmmaWait<1>();
    sm90::FenceAccumulators(s_);
    ReleaseKeys();
  }
  __device__ void WaitForOutput() {
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(s_);
    sm90::FenceAccumulators(o_);
    ReleaseValues();
    cursor_.Advance();
  }

  __device__ void LastOutput() {
    WaitForValues();
    sm90::FenceAccumulators(o_);
    sm90::WgmmaFence();
    IssueOutput();
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(o_);
    ReleaseValues();
  }

  // ---- Softmax

  // Hides what rows don't see. Whether the fast path is not right for one of this thread's rows:
  // the bucket of the first block of a split is 0 if its largest score is above minus the
  // threshold; where all scores are seen, one above it is enough. Scores above the threshold:
  // CheckSum.
  __device__ bool MaskScores(int work_slot) {
    if (keys_.IsHidden(begin_)) return HideKeys(shared_.work[work_slot].tile);
    return (begin_ % kSplitKeys == 0 || begin_ == keys_.all.first) &&
           (!(s_[0] > -p_.scale.threshold) || !(s_[2] > -p_.scale.threshold));
  }

  // Probabilities, from scores of which the first step is on the grid. What has to be done with the
  // output of the tile before is dealt out between the exponentials, which leave most of the issue
  // slots free. Its branches also keep the compiler from issuing all products first.
  __device__ void Exponentials(Ending ending) {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      if (step + 1 < kValueSteps) ToGrid(step + 1);
#pragma unroll
      for (int i = 8 * step; i < 8 * step + 8; ++i) s_[i] = sm90::FlushingExp2(s_[i]);
      if (ending != Ending::kNone) End(ending, step);
      // A step behind, as exponentials take long.
      if (step > 0) Round(step - 1);
    }
    Round(kValueSteps - 1);
  }

  // Makes scores of keys that their rows don't see -infinity. Where the first block of a split may
  // be, all others must be above minus the threshold.
  __device__ bool HideKeys(const AttentionTile& tile) {
    // Of this thread's keys, counted from its first.
    int first[2], last[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const KeyRange seen = tile.KeysOf(min(Row(half), tile.rows - 1), p_.group, p_.window);
      first[half] = seen.first - begin_ - lane_ % 4 * 2;
      last[half] = seen.last - begin_ - lane_ % 4 * 2;
    }
    float lowest = 0.0f;
    if (begin_ % kSplitKeys == 0 || begin_ <= keys_.all.first) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        const bool is_visible = KeyOf(i) >= first[i / 2 % 2] && KeyOf(i) <= last[i / 2 % 2];
        lowest = fminf(lowest, is_visible ? s_[i] : 0.0f);
      }
    }
    if (begin_ < keys_.all.first) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        if (KeyOf(i) < static_cast<int>(sm90::Opaque(first[i / 2 % 2]))) s_[i] = kHidden;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) last[half] = static_cast<int>(sm90::Opaque(last[half]));
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (KeyOf(i) > last[i / 2 % 2]) s_[i] = kHidden;
    }
    return !(lowest > -p_.scale.threshold);
  }
  static __device__ constexpr int KeyOf(int score) { return score / 4 * 8 + score % 2; }

  // Scores, with bucket 0, become the arguments of exponentials.
  __device__ void ToGrid(int step) {
#pragma unroll
    for (int i = 8 * step; i < 8 * step + 8; ++i) {
      s_[i] = ieee::Sub(ieee::Fma(s_[i], p_.scale.c, kGridOffset), kGridOffset);
    }
  }

  // Accumulators of scores become a fragment of wgmma's A.
  __device__ void Round(int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int score = 8 * step + 2 * i;
      probability_[step][i] = sm90::RoundToBf16Pair(s_[score], s_[score + 1]);
    }
  }

  // ---- Merge and results

  // Where a four of the merged output of this thread lies.
  __device__ float4& MergedAt(int four) const {
    if constexpr (Config::kMergedInGlobal) {
      constexpr int kOfCta = Config::kMergedFours * Config::kConsumers;
      const uint32_t first = sm90::Opaque(blockIdx.x * kOfCta + threadIdx.x);
      return reinterpret_cast<float4*>(p_.prefill_merged)[first + four * Config::kConsumers];
    } else {
      return shared_.merged[four][sm90::Opaque(threadIdx.x)];
    }
  }

  // Begins to add a split's output to that of those before.
  __device__ Ending BeginMerge() {
    CheckSum();
    is_fresh_ = true;
    const bool is_first = !is_merged_;
    is_merged_ = true;
    for (int half = 0; half < 2; ++half) {
      const float l = o_[kOutputs + 2 * half];
      merged_l_[half] = is_first ? l : ieee::Add(merged_l_[half], l);
    }
    return is_first ? Ending::kFirstSplit : Ending::kSplit;
  }

  // A probability is at least `high` where a score is not below the threshold, and a sum is never
  // below one of its terms. So the fast path was right for the scores of a split if l < high; a
  // larger or NaN l leaves it to the split kernel to find out.
  __device__ void CheckSum() {
    const float high =
        BitsFloat(sm90::RoundToBf16Pair(
                      0.0f, sm90::FlushingExp2(GridPoint(p_.scale.threshold, p_.scale.c, 0.0f))) &
                  0xffff0000u);
    wild_ = wild_ || !(o_[kOutputs] < high) || !(o_[kOutputs + 2] < high);
  }

  // Where the rows of a work go that is about to end.
  __device__ void LocateOutput() {
    const PrefillWork& work = shared_.work[work_.slot];
    const AttentionTile& tile = work.tile;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      out_[half] = Row(half) >= tile.rows
                       ? nullptr
                       : p_.out + p_.QueryOffset(tile, tile.packed + Row(half), work.kv_head) +
                             lane_ % 4 * 8;
    }
  }

  // Begins to end a work, whose output is complete.
  __device__ Ending BeginFinish() {
    const PrefillWork& work = shared_.work[work_.slot];
    if (work.part == PrefillPart::kFirst) return Ending::kNone;
    CheckSum();
    if (IsWild()) {
      const int rows = min(work.tile.rows - first_row_, 16);  // of this warp
      if (lane_ == 0 && rows > 0) HandOver(work, rows);
      return Ending::kNone;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float l = o_[kOutputs + 2 * half];
      if (is_merged_) l = ieee::Add(merged_l_[half], l);
      inverse_[half] = ieee::Div(1.0f, l);
    }
    return is_merged_ ? Ending::kLastSplit : Ending::kOnlySplit;
  }

  // Goes from a work that has ended to the next one, whose first scores are made.
  __device__ void GoOn() {
    HandOn();
    __syncwarp();
    if (Config::Arrives(lane_)) sm90::Arrive(at_.work_empty + 8 * work_.slot);
    work_.Advance();
    wild_ = false;
    is_merged_ = false;
    is_fresh_ = true;
    TakeUp();
  }

  // Whether the fast path is not right for one of this warp's rows.
  __device__ bool IsWild() const {
    return __any_sync(0xffffffffu, wild_) || shared_.unsafe[work_.slot] != 0;
  }

  // At the end of a first part.
  __device__ void HandOn() const {
    const PrefillWork& work = shared_.work[work_.slot];
    if (work.part != PrefillPart::kFirst) return;
    const bool is_wild = IsWild();
    const PrefillHanded<Config> handed(p_, work.cut_index);
#pragma unroll
    for (int i = 0; i < Config::kSumFours; ++i) {
      handed.Sums(i) = {o_[4 * i], o_[4 * i + 1], o_[4 * i + 2], o_[4 * i + 3]};
    }
    handed.Rest() = {merged_l_[0], merged_l_[1], is_wild ? 1.0f : 0.0f, 0.0f};
    if (is_merged_) {
#pragma unroll 4
      for (int i = 0; i < Config::kMergedFours; ++i) handed.Merged(i) = MergedAt(i);
    }
    handed.Publish();
  }

  // At the beginning of a second part, before its first output.
  __device__ void TakeUp() {
    const PrefillWork& work = shared_.work[work_.slot];
    if (work.part != PrefillPart::kSecond) return;
    const PrefillHanded<Config> handed(p_, work.cut_index);
    handed.Await();
#pragma unroll
    for (int i = 0; i < Config::kSumFours; ++i) {
      const float4 sums = sm90::LoadRelaxed(&handed.Sums(i));
      o_[4 * i] = sums.x;
      o_[4 * i + 1] = sums.y;
      o_[4 * i + 2] = sums.z;
      o_[4 * i + 3] = sums.w;
    }
    is_fresh_ = false;
    const float4 rest = sm90::LoadRelaxed(&handed.Rest());
    merged_l_[0] = rest.x;
    merged_l_[1] = rest.y;
    wild_ = wild_ || rest.z != 0;
    // Not handed on: the compiler would no longer know that all lanes agree on the way the loop
    // takes, and each turn would be 10% slower.
    const KeyRange keys = work.tile.KeysOfAny(p_.group, p_.window);
    is_merged_ = keys.first / kSplitKeys < work.cut / kSplitKeys;
    if (is_merged_) {
#pragma unroll 2
      for (int i = 0; i < Config::kMergedFours; ++i) {
        MergedAt(i) = sm90::LoadRelaxed(&handed.Merged(i));
      }
    }
  }

  // A part of the output, one of kValueSteps: what `ending` asks for.
  __device__ void End(Ending ending, int step) {
    constexpr int kQuarters = Config::kMergedFours / 4;
    // All is read before anything is written, so that one wait is enough.
    if (ending == Ending::kSplit || ending == Ending::kLastSplit) {
#pragma unroll
      for (int i = kQuarters * step / kValueSteps; i < kQuarters * (step + 1) / kValueSteps; ++i) {
        AddMerged(i);
      }
    }
#pragma unroll
    for (int i = kQuarters * step / kValueSteps; i < kQuarters * (step + 1) / kValueSteps; ++i) {
      if (ending == Ending::kFirstSplit || ending == Ending::kSplit) {
#pragma unroll
        for (int four = 4 * i; four < 4 * i + 4; ++four) {
          MergedAt(four) = {o_[4 * four], o_[4 * four + 1], o_[4 * four + 2], o_[4 * four + 3]};
        }
      } else {
        Store(i);
      }
    }
  }
  __device__ void AddMerged(int sixteen) {
#pragma unroll
    for (int four = 4 * sixteen; four < 4 * sixteen + 4; ++four) {
      const float4 before = MergedAt(four);
      o_[4 * four] = ieee::Add(before.x, o_[4 * four]);
      o_[4 * four + 1] = ieee::Add(before.y, o_[4 * four + 1]);
      o_[4 * four + 2] = ieee::Add(before.z, o_[4 * four + 2]);
      o_[4 * four + 3] = ieee::Add(before.w, o_[4 * four + 3]);
    }
  }
  // Stores 32 columns. The four lanes of a quad have the columns of two rows by twos; they exchange
  // them, so that each stores eight columns at once.
  __device__ void Store(int sixteen) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t pair[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* o = &o_[16 * sixteen + 4 * i + 2 * half];
        pair[i] =
            sm90::RoundToBf16Pair(ieee::Mul(o[0], inverse_[half]), ieee::Mul(o[1], inverse_[half]));
      }
      TransposeQuad(pair);
      if (out_[half] == nullptr) continue;
      *reinterpret_cast<uint4*>(out_[half] + 32 * sixteen) = {pair[0], pair[1], pair[2], pair[3]};
    }
  }
  // word i of lane q becomes word q of lane i.
  __device__ void TransposeQuad(uint32_t (&word)[4]) const {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      const bool is_upper = (lane_ & bit) != 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & bit) != 0) continue;
        // An upper lane gives its lower word for the other's upper one.
        const uint32_t given = is_upper ? word[i] : word[i | bit];
        const uint32_t taken = __shfl_xor_sync(0xffffffffu, given, bit);
        (is_upper ? word[i] : word[i | bit]) = taken;
      }
    }
  }

  // Leaves this warp's rows to the split kernel.
  __device__ void HandOver(const PrefillWork& work, int rows) const {
    RedoUnit unit = {work.tile, work.kv_head};
    unit.tile.packed += first_row_;
    unit.tile.rows = rows;
    p_.redo[atomicAdd(&p_.counters->redo_units, 1u)] = unit;
  }

  const AttentionParams& p_;
  PrefillShared<Config>& shared_;
  const PrefillAddresses<Config>& at_;
  const int warpgroup_;
  const int first_row_;  // of this warp, in the tile
  const int lane_;

  // What is computed lags behind what is scored: at the first tile of keys of a work, `work_` is
  // still the one before it.
  PrefillKeys<Config> keys_;
  int begin_ = 0;  // of the tile of keys whose scores are made
  SlotCursor<PrefillShared<Config>::kWorkSlots> work_;
  bool wild_ = false;       // the fast path is not right for one of this thread's rows of work_
  bool is_fresh_ = true;    // o and l hold nothing of the split yet
  bool is_merged_ = false;  // there are earlier splits
  typename Config::Cursor cursor_;  // of these keys; values are one tile behind

  uint32_t query_[Config::kQueryInRegisters ? kQuerySteps : 1][4];
  float s_[kScores];
  uint32_t probability_[kValueSteps][4];
  float o_[kOutputs + 4] = {};  // o, then l: of row 0 in the first two, of row 1 in the others
  float merged_l_[2] = {};
  float inverse_[2];  // of l, and where the output of a row goes, while a work is being ended
  Bf16* out_[2];
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CONSUMER_CUH_
