#ifndef ISOBIT_INVARIANCE_ORDER_PAGED_SEQUENCE_H_
#define ISOBIT_INVARIANCE_ORDER_PAGED_SEQUENCE_H_

// One sequence in a paged KV cache, whose last rows are attended to: what order revealing shows to
// attention.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "invariance/order/operation_sums.h"
#include "kernels/ops.h"

namespace isobit {

class PagedSequence {
 public:
  // Pages in descending order. An error is the backend's: no memory. The backend must outlive it.
  static absl::StatusOr<std::unique_ptr<PagedSequence>> Create(Backend& backend,
                                                               const AttentionSumShape& shape);

  // Numbers a position: query, keys, values as RopeKvWrite reads them.
  int64_t qkv_width() const { return qkv_width_; }
  // Where keys and values begin in them.
  int64_t first_key_column() const { return int64_t{shape_.heads} * shape_.head_dim; }
  int64_t first_value_column() const {
    return first_key_column() + int64_t{shape_.kv_heads} * shape_.head_dim;
  }
  int64_t rows() const { return rows_; }  // that are attended to

  // Writes keys and values; qkv is [positions][qkv_width]. REQUIRES: positions ascending, in at
  // most 6 * heads runs that follow each other.
  void Write(std::span<const int32_t> positions, const std::vector<Bf16>& qkv);

  // Attention of the last rows() rows; q and out are [rows][heads][head_dim].
  absl::Status Attend(double softmax_scale, const std::vector<Bf16>& q, std::vector<Bf16>* out);

 private:
  PagedSequence(Backend& backend, const AttentionSumShape& shape);
  absl::Status Allocate();

  // A batch in device memory. Runs of positions that follow each other are one sequence each; all
  // have the same pages.
  struct DeviceBatch {
    std::unique_ptr<Buffer> position, sequence, first_row, page_table;
  };
  absl::Status Allocate(int64_t most_rows, int64_t most_runs, DeviceBatch* memory);
  RowBatch Upload(std::span<const int32_t> positions, const DeviceBatch& memory);

  Backend& backend_;
  const AttentionSumShape shape_;
  const int64_t qkv_width_, rows_, pages_;
  std::unique_ptr<KvCache> cache_;
  DeviceBatch written_, attended_;
  RowBatch last_;  // the rows that are attended to, in attended_
  std::unique_ptr<Buffer> qkv_, unused_q_, q_, out_;
};

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ORDER_PAGED_SEQUENCE_H_
