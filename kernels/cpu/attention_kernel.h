#ifndef ISOBIT_KERNELS_CPU_ATTENTION_KERNEL_H_
#define ISOBIT_KERNELS_CPU_ATTENTION_KERNEL_H_

// The inner loops of attention over one block of 64 keys: scores, probabilities, sums of values.
// Rows are queries that share a key head: of any positions of one sequence, and of all its heads.

#include <cstdint>

#include "kernels/cpu/activation_step.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/tile_check.h"
#include "kernels/numerics/attention.h"

namespace isobit {

// Rows of a tile at most.
inline constexpr int kAttentionRows = 32;
// Steps of dot16 over the keys of a block.
inline constexpr int kBlockSteps = kBlockKeys / kDotTerms;
static_assert(kTileLanes == kBlockKeys);

// Sums of values are kept for head_dim rounded up to a multiple of 64, the even dimensions of each
// 32 before the odd ones.
constexpr int PaddedHeadDim(int head_dim) {
  return (head_dim + kTileLanes - 1) / kTileLanes * kTileLanes;
}
constexpr int DimensionPlace(int d) { return d / 32 * 32 + d % 2 * 16 + d % 32 / 2; }

// AttentionState of kernels/numerics/attention.h, for many rows.
struct AttentionRows {
  int rows = 0;
  int padded_head_dim = 0;
  float* o = nullptr;       // [rows][padded_head_dim]
  float* l = nullptr;       // [rows]
  float* bucket = nullptr;  // [rows]
  bool* empty = nullptr;    // [rows]: no block was seen yet; the rest is not defined
};

// Keys of the block that a row sees: [first, last], none if last < first.
struct VisibleKeys {
  int first;
  int last;
};

struct ScoreBlock {
  int rows;
  int head_dim;
  const ActivationStep* q;        // [rows][head_dim / 16], kTile
  const StepKind* kinds;          // [rows][head_dim / 16]
  const Bf16* keys[kBlockSteps];  // each as CpuKvCache::KeyGroup
  const Bf16* next[kBlockSteps];  // keys that will be wanted next: fetched meanwhile, not read
  float* scores;                  // [rows][64]
};

struct ProbabilityBlock {
  const float* scores;         // [rows][64]
  const VisibleKeys* visible;  // [rows]
  AttentionScale scale;
  AttentionRows state;       // buckets are raised, and with them sums are scaled
  ActivationStep* p;         // [rows][4], kTile
  StepKind* kinds;           // [rows][4]; all kZero if a p is not finite
  ExponentRange* exponents;  // [rows], of p
};

struct ValueBlock {
  const ActivationStep* p;          // [rows][4]
  const StepKind* kinds;            // [rows][4]
  const Bf16* values[kBlockSteps];  // each [16][stride], padded_head_dim of them read
  const Bf16* next[kBlockSteps];    // values that will be wanted next, as above: [16][head_dim]
  int64_t stride;
  AttentionRows state;  // sums are added to
};

struct ValueCheck {
  TileCheck o;
  int min_l_exponent = kNonFiniteExponent;  // that a chain of l aligned to
};

struct AttentionKernels {
  // In ScopedRoundTowardZero.
  TileCheck (*scores)(const ScoreBlock& block);
  ValueCheck (*values)(const ValueBlock& block);
  // In the usual rounding mode.
  void (*probabilities)(const ProbabilityBlock& block);
  // out[head_dim] = bf16(o * (1 / l)).
  void (*finish)(const float* o, float l, int head_dim, Bf16* out);
  // CapScore of n finished dot products, in place. REQUIRES: a soft cap, n a multiple of 16.
  void (*cap_scores)(const AttentionScale& scale, int64_t n, float* scores);
};

AttentionKernels SelectAttentionKernels(const CpuContext& context);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ATTENTION_KERNEL_H_
