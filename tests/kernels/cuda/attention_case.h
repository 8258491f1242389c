#ifndef ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_CASE_H_
#define ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_CASE_H_

// Inputs of attention: sequences with their keys and values, in pages strewn over a cache whose
// every other slot is NaN.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {

// What keys and values look like.
enum class Scores {
  kNormal,
  kPeaky,      // a few keys matter
  kRising,     // the maximum rises in every block
  kFalling,    // and falls
  kHuge,       // beyond the threshold, to both sides
  kNegative,   // whole blocks below minus the threshold, others not
  kShelves,    // now just above the threshold, now just below, 256 keys each
  kAnything,   // any finite bf16
  kNotFinite,  // NaN and infinities among keys and values
};
inline constexpr Scores kAllScores[] = {Scores::kNormal,  Scores::kPeaky,    Scores::kRising,
                                        Scores::kFalling, Scores::kHuge,     Scores::kNegative,
                                        Scores::kShelves, Scores::kAnything, Scores::kNotFinite};
std::string ToString(Scores scores);

struct AttentionShape {
  int heads = 0, kv_heads = 0, head_dim = 0, page_tokens = 16, window = 0;
  double softmax_scale = 0;  // 0: 1 / sqrt(head_dim)
  float soft_cap = 0;
};

// A sequence of a batch: its rows are at positions [first, first + rows).
struct SequenceRows {
  int first;
  int rows;
};

// The arrays of one batch, on the host.
struct AttentionInputs {
  AttentionShape shape;
  std::vector<SequenceRows> sequences;
  int64_t rows = 0;          // of the batch
  int64_t history_rows = 0;  // positions of all sequences together
  int64_t max_context = 0;
  int64_t pages_each = 0;
  int64_t pages = 0;
  std::vector<int32_t> position, sequence, first_row, page_table;
  std::vector<int64_t> history;    // [rows]: the first row of the row's sequence in keys and values
  std::vector<Bf16> q;             // [rows][heads][head_dim]
  std::vector<Bf16> keys, values;  // [history_rows][kv_heads][head_dim]
};

AttentionInputs MakeInputs(const AttentionShape& shape, const std::vector<SequenceRows>& sequences,
                           Scores scores, uint64_t seed);

// A backend with the inputs in it.
class AttentionOnBackend {
 public:
  AttentionOnBackend(Backend& backend, const AttentionInputs& inputs);

  // Runs the operation into a poisoned output and returns it.
  std::vector<Bf16> Run();
  // The steps of Run(): queues the operation only; waits for it.
  void Poison();
  void Queue();
  std::vector<Bf16> Output();

 private:
  std::unique_ptr<Buffer> Load(const void* data, size_t bytes);
  void WriteHistory();

  Backend& backend_;
  const AttentionInputs& in_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Buffer> position_, sequence_, first_row_, page_table_, q_, out_;
  RowBatch batch_;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_CASE_H_
