#include "invariance/order/paged_sequence.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace isobit {
namespace {

template <typename T>
void UploadAll(Backend& backend, const std::vector<T>& values, const Buffer& to) {
  backend.Upload(values.data(), values.size() * sizeof(T), to.data());
}

}  // namespace

PagedSequence::PagedSequence(Backend& backend, const AttentionSumShape& shape)
    : backend_(backend),
      shape_(shape),
      qkv_width_((int64_t{shape.heads} + 2 * shape.kv_heads) * shape.head_dim),
      rows_(std::min(shape.rows, shape.keys)),
      pages_((shape.keys + shape.page_tokens - 1) / shape.page_tokens) {}

absl::StatusOr<std::unique_ptr<PagedSequence>> PagedSequence::Create(
    Backend& backend, const AttentionSumShape& shape) {
  std::unique_ptr<PagedSequence> sequence(new PagedSequence(backend, shape));
  if (absl::Status s = sequence->Allocate(); !s.ok()) return s;
  return sequence;
}

absl::Status PagedSequence::Allocate() {
  auto cache = backend_.CreateKvCache({.layers = 1,
                                       .kv_heads = shape_.kv_heads,
                                       .head_dim = shape_.head_dim,
                                       .page_tokens = shape_.page_tokens,
                                       .pages = pages_});
  if (!cache.ok()) return cache.status();
  cache_ = *std::move(cache);
  if (absl::Status s =
          Allocate(shape_.keys, std::min<int64_t>(shape_.keys, 6 * shape_.heads), &written_);
      !s.ok())
    return s;
  if (absl::Status s = Allocate(rows_, 1, &attended_); !s.ok()) return s;
  const int64_t q_width = first_key_column();
  for (auto& [buffer, numbers] : {std::pair(&qkv_, shape_.keys * qkv_width_),
                                  {&unused_q_, shape_.keys * q_width},
                                  {&q_, rows_ * q_width},
                                  {&out_, rows_ * q_width}}) {
    auto made = backend_.Allocate(static_cast<size_t>(numbers) * sizeof(Bf16));
    if (!made.ok()) return made.status();
    *buffer = *std::move(made);
  }
  std::vector<int32_t> last(static_cast<size_t>(rows_));
  std::iota(last.begin(), last.end(), static_cast<int32_t>(shape_.keys - rows_));
  last_ = Upload(last, attended_);
  return absl::OkStatus();
}

absl::Status PagedSequence::Allocate(int64_t most_rows, int64_t most_runs, DeviceBatch* memory) {
  for (auto& [buffer, numbers] : {std::pair(&memory->position, most_rows),
                                  {&memory->sequence, most_rows},
                                  {&memory->first_row, most_runs + 1},
                                  {&memory->page_table, most_runs * pages_}}) {
    auto made = backend_.Allocate(static_cast<size_t>(numbers) * sizeof(int32_t));
    if (!made.ok()) return made.status();
    *buffer = *std::move(made);
  }
  return absl::OkStatus();
}

RowBatch PagedSequence::Upload(std::span<const int32_t> positions, const DeviceBatch& memory) {
  std::vector<int32_t> position(positions.begin(), positions.end()), sequence, first_row, table;
  for (size_t i = 0; i < position.size(); ++i) {
    if (i == 0 || position[i] != position[i - 1] + 1) {
      first_row.push_back(static_cast<int32_t>(i));
      for (int64_t page = pages_; page-- > 0;) table.push_back(static_cast<int32_t>(page));
    }
    sequence.push_back(static_cast<int32_t>(first_row.size()) - 1);
  }
  const auto sequences = static_cast<int64_t>(first_row.size());
  first_row.push_back(static_cast<int32_t>(position.size()));
  UploadAll(backend_, position, *memory.position);
  UploadAll(backend_, sequence, *memory.sequence);
  UploadAll(backend_, first_row, *memory.first_row);
  UploadAll(backend_, table, *memory.page_table);
  return {.rows = static_cast<int64_t>(position.size()),
          .sequences = sequences,
          .position = memory.position->As<int32_t>(),
          .sequence = memory.sequence->As<int32_t>(),
          .first_row = memory.first_row->As<int32_t>(),
          .page_table = memory.page_table->As<int32_t>(),
          .page_table_stride = pages_,
          .max_context = position.back() + 1};
}

void PagedSequence::Write(std::span<const int32_t> positions, const std::vector<Bf16>& qkv) {
  const RowBatch batch = Upload(positions, written_);
  UploadAll(backend_, qkv, *qkv_);
  backend_.Run(RopeKvWrite{.batch = &batch,
                           .heads = shape_.heads,
                           .kv_heads = shape_.kv_heads,
                           .head_dim = shape_.head_dim,
                           .qkv = qkv_->As<Bf16>(),
                           .q = unused_q_->As<Bf16>(),
                           .cache = cache_.get()});
}

absl::Status PagedSequence::Attend(double softmax_scale, const std::vector<Bf16>& q,
                                   std::vector<Bf16>* out) {
  UploadAll(backend_, q, *q_);
  backend_.Run(Attention{.batch = &last_,
                         .heads = shape_.heads,
                         .kv_heads = shape_.kv_heads,
                         .head_dim = shape_.head_dim,
                         .softmax_scale = softmax_scale,
                         .window = shape_.window,
                         .q = q_->As<Bf16>(),
                         .cache = cache_.get(),
                         .out = out_->As<Bf16>()});
  out->resize(q.size());
  backend_.Download(out_->data(), out->size() * sizeof(Bf16), out->data());
  return backend_.Synchronize();
}

}  // namespace isobit
