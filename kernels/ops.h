#ifndef ISOBIT_KERNELS_OPS_H_
#define ISOBIT_KERNELS_OPS_H_

// The specification of a backend.
//
// A backend is memory, weights, a KV cache and the operations below, and nothing else: it knows no
// model, no request and no file. Each operation is one plain struct: shapes and the order of
// arithmetic stand in its comment, and kernels/numerics/contract.md (cited as "contract N") says
// what its bits are. Every backend gives the same bits for the same operation, whatever the number
// of rows, their order, their neighbours, the page table or the threads.
//
// Conventions
//  1. Shapes are written outermost first: [rows][n] is row-major with n contiguous. Nothing is
//     padded unless said so.
//  2. Every pointer in an operation points into a Buffer of the same backend and stays valid until
//     Synchronize(). A pointer commented "nullable" may be null.
//  3. Outputs never overlap inputs, unless the comment says so. Every output element is written.
//  4. Operations run in the order they were issued, as if one after the other. Run() may return
//     before its work is done; Synchronize() waits. A device error is kept and returned by the next
//     Synchronize() and by all later ones.
//  5. Shapes are the caller's duty: a backend checks them with assertions only. What a backend
//     can't do at all (a head size, a width) it says in CheckModel(), before anything runs.
//  6. One thread at a time uses a backend. Different backends are independent.
//  7. A row that is not finite affects only itself.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit {

// Memory that the operations of one backend can reach. Freed on destruction, which must come before
// the backend's.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <typename T>
  T* As() const {
    return static_cast<T*>(data_);
  }

 protected:
  Buffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

 private:
  void* data_;
  size_t bytes_;
};

// ---- Weights

// Weight rows are read in blocks of this many rows, so that a source can hash what is really used,
// block by block.
inline constexpr int64_t kWeightBlockRows = 32;

// A matrix of bf16 weights as its source gives it, [rows][cols] (rows = outputs).
struct MatrixSource {
  int64_t rows = 0;
  int64_t cols = 0;
  // Writes rows [begin, end) to out[end - begin][cols]. The backend calls it exactly once for every
  // block [32 b, min(32 b + 32, rows)), in any order, from several threads at once.
  std::function<void(int64_t begin, int64_t end, Bf16* out)> read;
};

// How the parts of a matrix are laid below each other.
enum class WeightLayout {
  kConcatenated,  // all rows of part 0, then of part 1, ...: fused q, k, v
  kGateUp,  // two parts of equal shape, for Gemm's gates only; the backend interleaves them as
            // it likes
};

// Weights in the layout that the backend computes from. Immutable.
class Weight {
 public:
  virtual ~Weight() = default;
  int64_t rows() const { return rows_; }  // n: sum over the parts
  int64_t cols() const { return cols_; }  // k
  WeightLayout layout() const { return layout_; }

 protected:
  Weight(int64_t rows, int64_t cols, WeightLayout layout)
      : rows_(rows), cols_(cols), layout_(layout) {}

 private:
  int64_t rows_, cols_;
  WeightLayout layout_;
};

// How the outputs of a fused projection make heads: queries, then keys, then values.
struct QkvHeads {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;  // as in RopeKvWrite
};

// ---- KV cache

struct KvCacheShape {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;  // a multiple of 16
  int64_t pages = 0;

  // What one page of all layers holds, keys and values in bf16.
  int64_t BytesPerPage() const { return int64_t{4} * layers * kv_heads * head_dim * page_tokens; }
};

// Keys and values of all layers in pages of page_tokens tokens. The layout inside is the backend's
// own. Memory of a page that was never written may hold anything, NaN included, and must not
// matter.
class KvCache {
 public:
  virtual ~KvCache() = default;
  const KvCacheShape& shape() const { return shape_; }

 protected:
  explicit KvCache(const KvCacheShape& shape) : shape_(shape) {}

 private:
  KvCacheShape shape_;
};

// ---- A step

// The rows of one step, ragged: each row is one token of one sequence, and carries its position
// and, through its sequence, its pages. Rows of a sequence are consecutive and at consecutive
// ascending positions. Position p of sequence s lies in page page_table[s][p / page_tokens], at p %
// page_tokens.
struct RowBatch {
  int64_t rows = 0;
  int64_t sequences = 0;
  const int32_t* position = nullptr;    // [rows]
  const int32_t* sequence = nullptr;    // [rows], ascending
  const int32_t* first_row = nullptr;   // [sequences + 1]
  const int32_t* page_table = nullptr;  // [sequences][page_table_stride]
  int64_t page_table_stride = 0;
  int64_t max_context = 0;  // largest position + 1: for planning only, never for bits
};

// What was drawn. logprob is of the logits as they left the model; processed_logprob of what the
// draw saw.
struct SampledToken {
  int32_t token = -1;  // -1 if none can be drawn: all logits are -inf, one is NaN or +inf
  float logprob = 0;
  float processed_logprob = 0;  // 0 unless the row asked for it
};

// In place of a token id: the one drawn as `sampled[index]`, which the host does not know yet.
ISOBIT_HOST_DEVICE constexpr int32_t DrawnTokenId(int32_t index) { return -1 - index; }

// The token that an id stands for. One that could not be drawn reads as 0: its row is dropped.
ISOBIT_HOST_DEVICE inline int32_t ResolveTokenId(int32_t id, const SampledToken* sampled) {
  if (id >= 0) return id;
  const int32_t drawn = sampled[-1 - id].token;
  return drawn < 0 ? 0 : drawn;
}

// out[r] = row token_ids[r] of the table, times `scale` in fp32 and rounded to bf16 if that is
// not 1.
struct Embed {
  int64_t rows = 0;
  const Weight* table = nullptr;          // [vocab][width], kConcatenated
  const int32_t* token_ids = nullptr;     // [rows], each in [0, vocab), or a DrawnTokenId
  const SampledToken* sampled = nullptr;  // of an earlier SampleTokens; null if no row needs it
  float scale = 1.0f;
  Bf16* out = nullptr;  // [rows][width]
};

// out[r] = RMSNorm of x[row_index ? row_index[r] : r] (contract 3). `out` may be `x`.
struct RmsNorm {
  int64_t rows = 0;
  int64_t width = 0;
  float eps = 0;
  const Bf16* x = nullptr;
  const int32_t* row_index = nullptr;  // [rows], nullable: picks the rows that need logits
  const Bf16* weight = nullptr;        // [width]
  Bf16* out = nullptr;                 // [rows][width]
  // In place of `weight`: the norm that rounds once.
  const float* wide_weight = nullptr;  // [width], nullable
  // [rows][width], nullable, only with wide_weight and one group: added before the rounding. May be
  // the same memory as out.
  const Bf16* residual = nullptr;
  // A row holds `groups` runs of `width` elements, each normalised by itself with the same weights:
  // heads of a fused projection.
  int64_t groups = 1;
  int64_t stride = 0;  // elements from a row of x and out to the next; 0: groups * width
};

// Linear layer y = x W^T with an epilogue on the finished fp32 accumulator (contract 2).
struct Gemm {
  enum class Epilogue {
    kBf16,      // out_bf16[rows][n] = bf16((acc + bias) * scale + residual), absent terms left out
    kSiluGate,  // out_bf16[rows][n / 2] = SiluGate(bf16(gate acc), bf16(up acc)) (contract 5);
                // weight of layout kGateUp
    kFp32,      // out_fp32[rows][n] = SoftCap((acc + bias) * scale, soft_cap)
    kGeluGate,  // as kSiluGate with GeluGate
  };
  int64_t rows = 0;
  const Weight* weight = nullptr;  // [n][k]
  const Bf16* x = nullptr;         // [rows][k]
  Epilogue epilogue = Epilogue::kBf16;
  const float* bias = nullptr;  // [n], nullable; not with a gate
  float scale = 1.0f;           // not with a gate
  float soft_cap = 0.0f;        // 0: none; only with kFp32
  // [rows][n], nullable, only with kBf16; may be the same memory as out_bf16.
  const Bf16* residual = nullptr;
  Bf16* out_bf16 = nullptr;
  float* out_fp32 = nullptr;
};

// Whether two rows of the weight, of layout kGateUp, give one output.
ISOBIT_HOST_DEVICE constexpr bool IsGate(Gemm::Epilogue epilogue) {
  return epilogue == Gemm::Epilogue::kSiluGate || epilogue == Gemm::Epilogue::kGeluGate;
}

// Splits the fused projection, normalises query and key heads if asked, rotates them (contract 5)
// and writes keys and values to the rows' pages.
struct RopeKvWrite {
  const RowBatch* batch = nullptr;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  const Bf16* qkv = nullptr;  // [rows][(heads + 2 kv_heads) * head_dim]: queries, keys, values
  // Per-head RMSNorm of queries and keys before rotation (contract 3 with width head_dim).
  const Bf16* q_norm = nullptr;  // [head_dim], nullable
  const Bf16* k_norm = nullptr;  // [head_dim], nullable
  float norm_eps = 0;
  // Rotation of dimensions i and i + rotary_dim / 2 for i < rotary_dim / 2; the rest is copied.
  // 0: no rotation.
  int rotary_dim = 0;
  const float* cos = nullptr;  // [positions][rotary_dim / 2], contract 5
  const float* sin = nullptr;
  Bf16* q = nullptr;  // [rows][heads][head_dim]
  KvCache* cache = nullptr;
  int layer = 0;
};

// The fused projection and what becomes of it: the bits of `projection`, whose out_bf16 is
// rope.qkv, and then `rope`. A backend may keep the product to itself: rope.qkv is scratch memory.
struct QkvProjection {
  Gemm projection;   // kBf16 without a residual; weight of LoadQkvWeight
  RopeKvWrite rope;  // no norms; rotary_dim as the weight was loaded for, or 0
};

// Causal attention of each row over its sequence's keys at positions 0 .. position, which are all
// in the cache (contract 4). Query head h uses key head h / (heads / kv_heads).
struct Attention {
  const RowBatch* batch = nullptr;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  double softmax_scale = 0;  // usually 1 / sqrt(head_dim)
  float soft_cap = 0.0f;     // of scaled scores; 0: none
  int window = 0;           // 0: all; else only the last `window` positions, the row's own included
  const Bf16* q = nullptr;  // [rows][heads][head_dim]
  const KvCache* cache = nullptr;
  int layer = 0;
  Bf16* out = nullptr;  // [rows][heads][head_dim]
};

// ---- Sampling (contract 6)

// The largest number of alternatives that a row may ask for.
inline constexpr int kMaxTopLogProbs = 128;

struct TokenLogProb {
  int32_t token = -1;
  float logprob = 0;
};

// log-probabilities of given tokens, and the most likely ones, from logits as they are.
struct ScoreTokens {
  int64_t rows = 0;
  int64_t vocab = 0;
  const float* logits = nullptr;   // [rows][vocab]
  const int32_t* token = nullptr;  // [rows], each in [0, vocab)
  int top_count = 0;               // alternatives for every row
  float* logprob = nullptr;        // [rows]
  TokenLogProb* top = nullptr;     // [rows][top_count], higher logit first, then lower id; token -1
                                   // past the vocabulary
};

// What a row's logits go through before the draw: contract 6 gives formulas and order.
struct LogitEdit {
  int32_t token = 0;
  float bias = 0;            // -inf forbids the token
  int32_t output_count = 0;  // how often the token stands in the output so far
  int32_t seen = 0;          // 1 if it stands in the prompt or the output
};

struct SamplingRow {
  float temperature = 0;                   // 0: greedy
  int32_t top_k = 0;                       // 0: off
  uint64_t top_p_q32 = uint64_t{1} << 32;  // floor(top_p * 2^32); 2^32: off
  uint64_t min_p_q32 = 0;                  // floor(min_p * 2^32); 0: off
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  uint64_t position = 0;   // of the token that is drawn, in its sequence
  int32_t edit_begin = 0;  // range of SampleTokens::edits; each token at most once
  int32_t edit_end = 0;
  int32_t top_count = 0;  // alternatives wanted
  // 1: processed_logprob is wanted and `top` is of what is left after temperature and filters;
  // 0: `top` is of the logits as they are.
  int32_t processed = 0;
};

// Draws one token a row. Logits are not changed.
struct SampleTokens {
  int64_t rows = 0;
  int64_t vocab = 0;
  const float* logits = nullptr;        // [rows][vocab]
  const SamplingRow* params = nullptr;  // [rows]
  const LogitEdit* edits = nullptr;     // nullable if all ranges are empty
  int top_stride = 0;                   // at least every row's top_count
  SampledToken* sampled = nullptr;      // [rows]
  // [rows][top_stride], most likely first, then lower id; token -1 past the end.
  TokenLogProb* top = nullptr;
};

// ---- The backend

// What a model asks of a backend, to be refused before anything is loaded.
struct ModelShape {
  int64_t width = 0;
  int64_t ffn_width = 0;
  int64_t vocab = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;
};

struct DeviceInfo {
  std::string kind;           // "cpu", "reference", "cuda"
  std::string name;           // for people: processor or card
  std::string instructions;   // instruction set or compute capability in use
  bool asynchronous = false;  // Run() returns before the work is done
  int threads = 1;
  int64_t memory_bytes = 0;     // total
  int64_t available_bytes = 0;  // free for weights, KV pool and workspace when asked
};

// Operations that were recorded, to be issued again all at once (Backend::Record).
class Recording {
 public:
  virtual ~Recording() = default;
};

// A moment in the order of operations: when all that was issued before it was done.
class Moment {
 public:
  virtual ~Moment() = default;
};

// A place in the order of operations that can be waited for.
struct Fence {
  uint64_t number = 0;
};

// Work done by exact slow paths since the backend was made. For people and tests; decides nothing.
struct BackendCounters {
  uint64_t gemm_tiles = 0;
  uint64_t gemm_tiles_exact = 0;
  uint64_t attention_tiles = 0;
  uint64_t attention_tiles_exact = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceInfo Info() const = 0;
  virtual BackendCounters Counters() const = 0;
  // OK, or which number of the shape is not supported and what is.
  virtual absl::Status CheckModel(const ModelShape& shape) const = 0;

  // Memory, uninitialised. ResourceExhausted names the bytes asked for and free.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                             WeightLayout layout) = 0;
  // Three parts, kConcatenated, for QkvProjection only.
  virtual absl::StatusOr<std::unique_ptr<Weight>> LoadQkvWeight(std::span<const MatrixSource> parts,
                                                                const QkvHeads& /*heads*/) {
    return LoadWeight(parts, WeightLayout::kConcatenated);
  }
  virtual absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) = 0;
  // Fills whole pages, all layers, keys and values. Tests poison pages with NaN by it.
  virtual void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) = 0;

  // Copies, in order with the operations. Upload has read `from` when it returns; Download's `to`
  // holds the data after the next Synchronize(), or Wait() for a fence that was placed behind it.
  virtual void Upload(const void* from, size_t bytes, void* to) = 0;
  virtual void Download(const void* from, size_t bytes, void* to) = 0;

  virtual void Run(const Embed& op) = 0;
  virtual void Run(const RmsNorm& op) = 0;
  virtual void Run(const Gemm& op) = 0;
  virtual void Run(const RopeKvWrite& op) = 0;
  virtual void Run(const QkvProjection& op) {
    Run(op.projection);
    Run(op.rope);
  }
  virtual void Run(const Attention& op) = 0;
  virtual void Run(const ScoreTokens& op) = 0;
  virtual void Run(const SampleTokens& op) = 0;

  // Records the operations that `issue` hands to Run(), instead of running them; it calls nothing
  // else. Replay() issues them: the same numbers and pointers, with what that memory holds then.
  // All memory that they name must outlive the recording. Null where nothing would be gained by it,
  // as here, and where the backend still lacks memory for operations of these shapes, which it gets
  // when they are run once.
  virtual std::unique_ptr<Recording> Record(const std::function<void()>& /*issue*/) {
    return nullptr;
  }
  // False, and nothing is issued, if the recording is out of date: the backend's own memory moved.
  virtual bool Replay(const Recording& /*recording*/) { return false; }

  // For profilers. A moment that is marked while a recording is made is that of its last replay.
  // SecondsBetween REQUIRES: Synchronize() since both. As they stand here, for backends whose
  // operations are done when Run() returns.
  virtual std::unique_ptr<Moment> Mark();
  virtual double SecondsBetween(const Moment& begin, const Moment& end) const;

  // Names what is issued between the two, for profilers of the device (NVTX). May be nested.
  virtual void BeginRange(const char* /*name*/) {}
  virtual void EndRange() {}

  // Waits for all that was issued.
  virtual absl::Status Synchronize() = 0;
  // A fence stands behind all that was issued before it. Wait() waits for that alone: what was
  // issued later goes on. Fences are waited for in the order in which they were placed; two may be
  // ahead at a time. As they stand here, for backends whose operations are done when Run() returns.
  virtual Fence PlaceFence() { return {}; }
  virtual absl::Status Wait(Fence /*fence*/) { return Synchronize(); }
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_OPS_H_
