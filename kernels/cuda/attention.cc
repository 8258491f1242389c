#include "kernels/cuda/attention.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "kernels/cuda/attention_prefill_work.h"
#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {
namespace {

constexpr size_t kPlans = 4;
// Sequences with this many packed rows in a batch are prefilled; shorter ones gain from having
// their splits spread over the chip.
constexpr int kPrefillPackedRows = 64;
// Results of splits wait in at most this much memory; beyond it a tile's splits stay on one CTA.
constexpr int64_t kMaxPartialBytes = int64_t{256} << 20;
// The tallest tile of keys.
constexpr int kMaxCopyTokens = 128;

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest power of two that divides a page, up to kMaxCopyTokens.
int CopyTokens(int page_tokens) {
  int tokens = kKvGroupTokens;
  while (tokens < kMaxCopyTokens && page_tokens % (2 * tokens) == 0) tokens *= 2;
  return tokens;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionRunner>> AttentionRunner::Create(int multiprocessors) {
  std::unique_ptr<AttentionRunner> runner(new AttentionRunner(multiprocessors));
  absl::Status status = AllocateDeviceArray(runner->counters_, 1, "attention's counters");
  if (!status.ok()) return status;
  cudaError_t error = cudaMemset(runner->counters_.get(), 0, sizeof(AttentionCounters));
  if (error != cudaSuccess) return FromCuda(error, "clearing attention's counters");
  const auto mails =
      static_cast<size_t>(multiprocessors * SplitMails(*std::ranges::max_element(kHeadDims)));
  status = AllocateDeviceArray(runner->mail_, mails, "attention's mail");
  if (!status.ok()) return status;
  static_assert(kNoMailBits == 0xffffffffu);
  error = cudaMemset(runner->mail_.get(), 0xff, mails * sizeof(SplitMail));
  if (error != cudaSuccess) return FromCuda(error, "clearing attention's mail");
  return runner;
}

// Makes `array` hold `count` elements, with room to grow. Zeroes new memory.
template <typename T>
absl::Status AttentionRunner::Reserve(int64_t count, const char* what, cudaStream_t stream,
                                      DeviceArray<T>* array, int64_t* capacity) {
  if (count <= *capacity) return absl::OkStatus();
  if (!may_grow_) return absl::FailedPreconditionError("attention needs more memory");
  if (cudaError_t error = cudaStreamSynchronize(stream); error != cudaSuccess) {
    return FromCuda(error, "waiting for attention");
  }
  ++memory_generation_;
  array->reset();
  *capacity = 0;
  const int64_t wanted = count + count / 4;
  absl::Status status = AllocateDeviceArray(*array, static_cast<size_t>(wanted), what);
  if (!status.ok()) return status;
  *capacity = wanted;
  return FromCuda(cudaMemsetAsync(array->get(), 0, static_cast<size_t>(wanted) * sizeof(T), stream),
                  "clearing attention's scratch memory");
}

PlanRequest AttentionRunner::MakeRequest(const Attention& op) const {
  PlanRequest request;
  request.batch = *op.batch;
  request.group = Divisor(op.heads / op.kv_heads);
  request.window = op.window;
  // In a decode step every sequence has one row, and a tile holds its heads.
  const bool is_decode = op.batch->rows == op.batch->sequences;
  request.split_tile_rows =
      is_decode ? std::min(request.group.value(), kSplitTileRows) : kSplitTileRows;
  // With a soft cap, prefill too is the split kernel's.
  if (HasPrefillKernel(op.head_dim) && !is_decode && !(op.soft_cap > 0)) {
    request.prefill_packed_rows = kPrefillPackedRows;
    request.prefill_tile_rows = PrefillTileRows(op.head_dim);
  }
  request.kv_heads = op.kv_heads;
  const Limits limits = LimitsOf(request, op.kv_heads);
  request.prefill_ctas =
      static_cast<int>(std::min<int64_t>(limits.prefill_tiles * op.kv_heads, multiprocessors_));
  request.whole_tiles =
      PartialFloats(request, limits, op.kv_heads, op.head_dim) * int64_t{sizeof(float)} >
      kMaxPartialBytes;
  // When a tile begins, the others are on average half done; so two thirds of a round behind it
  // keep all multiprocessors busy until it is done.
  if (Works(limits, op.kv_heads) > multiprocessors_) {
    request.whole_tiles_behind = static_cast<int>(DivideUp(2 * multiprocessors_, 3 * op.kv_heads));
  }
  return request;
}

AttentionRunner::Limits AttentionRunner::LimitsOf(const PlanRequest& request, int kv_heads) {
  const RowBatch& batch = request.batch;
  const int64_t packed_rows = batch.rows * request.group.value();
  Limits limits = {};
  // A sequence's last tile need not be full; nor need a row's, if tiles are as high as a row's
  // heads.
  limits.split_tiles =
      std::min(packed_rows / request.split_tile_rows + batch.sequences,
               batch.rows * DivideUp(request.group.value(), request.split_tile_rows));
  if (request.prefill_packed_rows > 0) {
    const int64_t most_of_sequence =
        DivideUp(request.prefill_packed_rows - 1, request.split_tile_rows);
    limits.split_tiles = std::min(limits.split_tiles, batch.sequences * most_of_sequence);
    limits.prefill_tiles =
        packed_rows / request.prefill_tile_rows + std::min(batch.sequences, packed_rows);
    limits.redo_units =
        limits.prefill_tiles * (request.prefill_tile_rows / kSplitTileRows) * kv_heads;
  }
  const int64_t splits =
      request.whole_tiles ? 1 : std::max<int64_t>(DivideUp(batch.max_context, kSplitKeys), 1);
  limits.split_units = limits.split_tiles * splits;
  return limits;
}

int64_t AttentionRunner::PartialFloats(const PlanRequest& request, const Limits& limits,
                                       int kv_heads, int head_dim) {
  if (request.whole_tiles || request.batch.max_context <= kSplitKeys) return 0;
  return limits.split_units * kv_heads * SplitPartialFloats(request.split_tile_rows, head_dim);
}

absl::StatusOr<AttentionRunner::Plan*> AttentionRunner::FindPlan(const PlanRequest& request,
                                                                 const Limits& limits,
                                                                 cudaStream_t stream) {
  for (size_t i = 0; i < plans_used_; ++i) {
    if (plans_[i].request == request) return &plans_[i];
  }
  absl::StatusOr<Plan*> next = NextPlan();
  if (!next.ok()) return next.status();
  Plan& plan = **next;
  absl::Status status = Reserve(std::max<int64_t>(limits.split_units, multiprocessors_),
                                "a plan of attention", stream, &plan.units, &plan.unit_capacity);
  if (status.ok()) {
    status = Reserve(std::max<int64_t>(limits.prefill_tiles, 1), "a plan of attention", stream,
                     &plan.prefill_tiles, &plan.prefill_capacity);
  }
  if (!status.ok()) return status;
  plan.request = request;
  const cudaError_t error = LaunchAttentionPlan(request, plan.counts.get(), plan.units.get(),
                                                plan.prefill_tiles.get(), stream);
  if (error != cudaSuccess) return FromCuda(error, "planning attention");
  plan.is_new = true;
  ++plans_used_;
  return &plan;
}

// The first plan that is not in use, or the last one, which is given up.
absl::StatusOr<AttentionRunner::Plan*> AttentionRunner::NextPlan() {
  if (plans_used_ == kPlans) --plans_used_;
  if (plans_used_ == plans_.size()) {
    if (!may_grow_) return absl::FailedPreconditionError("attention needs another plan");
    auto counts = AllocateDeviceArray<PlanCounts>(1, "a plan of attention");
    if (!counts.ok()) return counts.status();
    plans_.emplace_back().counts = *std::move(counts);
  }
  return &plans_[plans_used_];
}

absl::Status AttentionRunner::ReserveScratch(const Attention& op, const PlanRequest& request,
                                             const Limits& limits, cudaStream_t stream) {
  constexpr char kWhat[] = "attention's scratch memory";
  absl::Status status = Reserve(PartialFloats(request, limits, op.kv_heads, op.head_dim), kWhat,
                                stream, &partial_, &partial_capacity_);
  if (status.ok()) {
    status = Reserve(limits.split_tiles * op.kv_heads, kWhat, stream, &splits_done_,
                     &splits_done_capacity_);
  }
  if (status.ok()) status = Reserve(limits.redo_units, kWhat, stream, &redo_, &redo_capacity_);
  if (status.ok() && request.prefill_packed_rows > 0) {
    status = Reserve(int64_t{multiprocessors_} * PrefillMergedFloats(op.head_dim), kWhat, stream,
                     &prefill_merged_, &prefill_merged_capacity_);
  }
  // Where every CTA has one work at most, none is cut.
  if (status.ok() && limits.prefill_tiles * op.kv_heads > request.prefill_ctas) {
    const int64_t cut = PrefillCutTiles(request.prefill_ctas, op.kv_heads) * op.kv_heads;
    status = Reserve(cut * PrefillHandedFloats(op.head_dim), kWhat, stream, &prefill_handed_,
                     &prefill_handed_capacity_);
    if (status.ok()) {
      status = Reserve(cut * PrefillHandedFlags(op.head_dim), kWhat, stream, &prefill_handed_flags_,
                       &prefill_handed_flags_capacity_);
    }
  }
  return status;
}

absl::Status AttentionRunner::Run(const Attention& op, const CudaKvCache& cache,
                                  cudaStream_t stream) {
  if (op.batch->rows == 0) return absl::OkStatus();
  assert(op.heads % op.kv_heads == 0 && op.head_dim == cache.shape().head_dim &&
         op.kv_heads == cache.shape().kv_heads);
  const PlanRequest request = MakeRequest(op);
  const Limits limits = LimitsOf(request, op.kv_heads);
  if (absl::Status s = ReserveScratch(op, request, limits, stream); !s.ok()) return s;
  const absl::StatusOr<Plan*> plan = FindPlan(request, limits, stream);
  if (!plan.ok()) return plan.status();
  const int64_t works = Works(limits, op.kv_heads);
  const absl::StatusOr<int> share = op.soft_cap > 0 ? 1 : Share(request, works, op.head_dim);
  if (!share.ok()) return share.status();

  const AttentionParams params = {
      .q = op.q,
      .out = op.out,
      .cache_layer = cache.Layer(op.layer),
      .layout = cache.layout(),
      .page_table = op.batch->page_table,
      .page_table_stride = op.batch->page_table_stride,
      .heads = op.heads,
      .group = request.group,
      .page_tokens = Divisor(cache.shape().page_tokens),
      .window = op.window,
      .scale = MakeAttentionScale(op.softmax_scale, op.soft_cap),
      .read_once =
          request.prefill_packed_rows == 0 && request.group.value() <= request.split_tile_rows,
      .copy_tokens = CopyTokens(cache.shape().page_tokens),
      .share = *share,
      .single_round = request.prefill_packed_rows == 0 && works <= multiprocessors_,
      .counts = (*plan)->counts.get(),
      .split_units = (*plan)->units.get(),
      .prefill_tiles = (*plan)->prefill_tiles.get(),
      .counters = counters_.get(),
      .redo = redo_.get(),
      .partial = partial_.get(),
      .partial_rows = request.split_tile_rows,
      .splits_done = splits_done_.get(),
      .mail = mail_.get(),
      .prefill_merged = prefill_merged_.get(),
      .prefill_handed = prefill_handed_.get(),
      .prefill_handed_flags = prefill_handed_flags_.get(),
  };
  // Kernels read the plan before those in front of them have ended. So the first one after the plan
  // begins when all is done so far, and those behind it can't begin before that.
  bool early_start = !(*plan)->is_new;
  (*plan)->is_new = false;
  if (request.prefill_packed_rows > 0) {
    const cudaError_t error =
        LaunchAttentionPrefill(params, request.prefill_ctas, early_start, stream);
    if (error != cudaSuccess) return FromCuda(error, "launching attention for prefill");
    early_start = true;
  }
  const auto ctas = static_cast<int>(std::min<int64_t>(works, multiprocessors_));
  const auto launch = op.soft_cap > 0 ? LaunchAttentionCapped
                      : *share > 1    ? LaunchAttentionShared
                                      : LaunchAttentionSplit;
  return FromCuda(launch(params, ctas, early_start, stream), "launching attention");
}

// The largest cluster for which all units still run at once, on half of the multiprocessors: so the
// CTAs of the launch behind find room and fill their rings early.
absl::StatusOr<int> AttentionRunner::Share(const PlanRequest& request, int64_t works,
                                           int head_dim) {
  if (request.whole_tiles || request.prefill_packed_rows > 0) return 1;
  if (!HasSharedKernel(head_dim)) return 1;
  for (int share = kMaxShare; share > 1; share /= 2) {
    if (works * share > multiprocessors_ / 2) continue;
    // The device is asked once.
    const auto [known, is_new] = shared_clusters_.try_emplace({head_dim, share}, 0);
    if (is_new) {
      const cudaError_t error = CountSharedClusters(head_dim, share, &known->second);
      if (error != cudaSuccess) {
        shared_clusters_.erase(known);
        return FromCuda(error, "counting attention's clusters");
      }
    }
    if (works <= known->second) return share;
  }
  return 1;
}

BackendCounters AttentionRunner::Counters(cudaStream_t stream) const {
  AttentionCounters counted = {};
  BackendCounters counters;
  if (cudaMemcpyAsync(&counted, counters_.get(), sizeof(counted), cudaMemcpyDeviceToHost, stream) !=
          cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess) {
    return counters;
  }
  counters.attention_tiles = counted.tiles;
  counters.attention_tiles_exact = counted.tiles_exact;
  return counters;
}

}  // namespace isobit::cuda
