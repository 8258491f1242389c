// The sweep of projection, rotation, KV write and attention. Its rows are not free: each belongs to
// a sequence and sees what that sequence has written before it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/row_sweep.h"
#include "invariance/sweep.h"

namespace isobit {
namespace {

constexpr int kLayers = 2, kLayer = 1;
constexpr int32_t kNoPage = -1;

// Rows [begin, end) of a sequence.
struct Chunk {
  int64_t sequence = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Where the keys of every sequence live: a cache, and its pages in random order.
struct Pages {
  std::unique_ptr<KvCache> cache;
  std::vector<std::vector<int32_t>> of_sequence;
};

class AttentionSweeper {
 public:
  AttentionSweeper(Backend& backend, const AttentionSweep& shape, const SweepOptions& options)
      : backend_(backend),
        shape_(shape),
        options_(options),
        random_(options.seed + 6),
        scale_(1.0 / std::sqrt(static_cast<double>(shape.head_dim))),
        qkv_width_((int64_t{shape.heads} + 2 * shape.kv_heads) * shape.head_dim),
        q_width_(int64_t{shape.heads} * shape.head_dim) {}

  absl::StatusOr<CheckRow> Run() {
    const auto start = std::chrono::steady_clock::now();
    if (absl::Status s = Prepare(); !s.ok()) return s;
    if (absl::Status s = RunAlone(); !s.ok()) return s;
    if (absl::Status s = WriteInChunks(); !s.ok()) return s;
    for (int64_t rows = 1; rows <= options_.max_rows; rows += options_.step) {
      if (absl::Status s = CompareBatch(rows); !s.ok()) return s;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return CheckRow{.name = absl::StrCat("GEMM, rotation, KV write, attention ", shape_.heads, "/",
                                         shape_.kv_heads, " heads of ", shape_.head_dim),
                    .compared = comparison_.compared(),
                    .first_difference = comparison_.Describe(),
                    .seconds = seconds.count()};
  }

 private:
  // A batch in the backend's memory.
  struct Batch {
    RowBatch rows;
    std::vector<std::unique_ptr<Buffer>> memory;
  };

  absl::Status Prepare() {
    for (int64_t s = 0; s < shape_.sequences; ++s) {
      // Every length near the end of a page and of a block of keys comes up sooner or later; the
      // first is the longest.
      length_.push_back(s == 0 ? shape_.max_context : 1 + random_.Below(shape_.max_context));
      // Once a key is not finite, all that follows in its sequence is NaN: only a few have such.
      qkv_.push_back(s % 8 == 7 ? WildRows(random_, length_.back(), qkv_width_)
                                : RandomRows(random_, length_.back(), qkv_width_));
      if (s % 2 == 0) MakeCancelling(length_.back(), qkv_.back());
      if (shape_.rising_keys) MakeRising(length_.back(), qkv_.back());
    }
    std::vector<float> cos, sin;
    for (int64_t i = 0; i < shape_.max_context * RotaryDim() / 2; ++i) {
      // Any numbers will do: the tables are an input like another.
      cos.push_back(random_.Normal());
      sin.push_back(random_.Normal());
    }
    auto uploaded_cos = UploadNew(backend_, cos);
    if (!uploaded_cos.ok()) return uploaded_cos.status();
    cos_ = *std::move(uploaded_cos);
    auto uploaded_sin = UploadNew(backend_, sin);
    if (!uploaded_sin.ok()) return uploaded_sin.status();
    sin_ = *std::move(uploaded_sin);
    if (absl::Status s = LoadIdentity(); !s.ok()) return s;
    if (absl::Status s = MakePages(shape_.page_tokens, &first_); !s.ok()) return s;
    return MakePages(shape_.page_tokens == 16 ? 48 : 16, &second_);
  }

  // Projections that change nothing, for the two ways to write rows.
  absl::Status LoadIdentity() {
    std::vector<MatrixSource> parts;
    int64_t first = 0;
    for (const int heads : {shape_.heads, shape_.kv_heads, shape_.kv_heads}) {
      const int64_t rows = int64_t{heads} * shape_.head_dim;
      parts.push_back(
          {rows, qkv_width_, [first, width = qkv_width_](int64_t begin, int64_t end, Bf16* out) {
             std::fill_n(out, (end - begin) * width, Bf16{0});
             for (int64_t i = begin; i < end; ++i) {
               out[(i - begin) * width + first + i] = RoundToBf16(1.0f);
             }
           }});
      first += rows;
    }
    auto plain = backend_.LoadWeight(parts, WeightLayout::kConcatenated);
    if (!plain.ok()) return plain.status();
    plain_identity_ = *std::move(plain);
    auto fused = backend_.LoadQkvWeight(
        parts, {shape_.heads, shape_.kv_heads, shape_.head_dim, RotaryDim()});
    if (!fused.ok()) return fused.status();
    fused_identity_ = *std::move(fused);
    return absl::OkStatus();
  }

  // Half of the dimensions are rotated, so that keys can be made equal at two positions.
  int RotaryDim() const { return shape_.head_dim / 2; }

  // Keys of the sequence's first half are equal in random pairs, with large and opposite values:
  // for the rows of its second half they cancel, but for what the additions rounded away.
  void MakeCancelling(int64_t length, std::vector<Bf16>& qkv) const {
    const std::vector<int64_t> partner = ColumnPartners(length / 2);
    const int64_t kv_width = int64_t{shape_.kv_heads} * shape_.head_dim;
    for (int64_t p = 0; p < length / 2; ++p) {
      Bf16* const keys = qkv.data() + p * qkv_width_ + q_width_;
      const int64_t other = partner[static_cast<size_t>(p)];
      const Bf16* const other_keys = qkv.data() + other * qkv_width_ + q_width_;
      for (int64_t i = 0; i < kv_width; ++i) {
        Bf16& key = keys[i];
        Bf16& value = keys[kv_width + i];
        if (other < p) {
          key = other_keys[i];
          value = RoundToBf16(-ToFloat(other_keys[kv_width + i]));
        } else {
          if (i % shape_.head_dim < RotaryDim()) key = Bf16{0};
          value = RoundToBf16(256 * ToFloat(value));
        }
      }
    }
  }

  void MakeRising(int64_t length, std::vector<Bf16>& qkv) const {
    const int64_t kv_width = int64_t{shape_.kv_heads} * shape_.head_dim;
    for (int64_t p = 0; p < length; ++p) {
      Bf16* const keys = qkv.data() + p * qkv_width_ + q_width_;
      for (int64_t i = 0; i < kv_width; ++i) {
        if (i % shape_.head_dim >= RotaryDim()) keys[i] = RoundToBf16(8.0f * static_cast<float>(p));
      }
    }
  }

  absl::Status MakePages(int page_tokens, Pages* pages) {
    int64_t count = 3;  // some that nobody uses
    for (int64_t length : length_) count += (length + page_tokens - 1) / page_tokens;
    auto cache = backend_.CreateKvCache({.layers = kLayers,
                                         .kv_heads = shape_.kv_heads,
                                         .head_dim = shape_.head_dim,
                                         .page_tokens = page_tokens,
                                         .pages = count});
    if (!cache.ok()) return cache.status();
    pages->cache = *std::move(cache);
    std::vector<int32_t> free(static_cast<size_t>(count));
    std::iota(free.begin(), free.end(), 0);
    backend_.FillPages(*pages->cache, free, kCanonicalNanBf16);
    Shuffle(random_, free);
    for (int64_t length : length_) {
      const auto needed = static_cast<ptrdiff_t>((length + page_tokens - 1) / page_tokens);
      pages->of_sequence.emplace_back(free.end() - needed, free.end());
      free.erase(free.end() - needed, free.end());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Batch> MakeBatch(std::span<const Chunk> chunks, const Pages& pages) {
    std::vector<int32_t> position, sequence, first_row = {0}, table;
    size_t stride = 0;
    int64_t context = 0;
    for (const Chunk& c : chunks) {
      stride = std::max(stride, pages.of_sequence[static_cast<size_t>(c.sequence)].size());
    }
    for (const Chunk& c : chunks) {
      for (int64_t p = c.begin; p < c.end; ++p) {
        position.push_back(static_cast<int32_t>(p));
        sequence.push_back(static_cast<int32_t>(first_row.size() - 1));
      }
      first_row.push_back(static_cast<int32_t>(position.size()));
      std::vector<int32_t> row = pages.of_sequence[static_cast<size_t>(c.sequence)];
      // Nobody may follow an entry behind the last page of a sequence.
      row.resize(stride, kNoPage);
      table.insert(table.end(), row.begin(), row.end());
      context = std::max(context, c.end);
    }
    Batch batch;
    for (const std::vector<int32_t>* values : {&position, &sequence, &first_row, &table}) {
      auto buffer = UploadNew(backend_, *values);
      if (!buffer.ok()) return buffer.status();
      batch.memory.push_back(*std::move(buffer));
    }
    batch.rows = {.rows = static_cast<int64_t>(position.size()),
                  .sequences = static_cast<int64_t>(chunks.size()),
                  .position = batch.memory[0]->As<int32_t>(),
                  .sequence = batch.memory[1]->As<int32_t>(),
                  .first_row = batch.memory[2]->As<int32_t>(),
                  .page_table = batch.memory[3]->As<int32_t>(),
                  .page_table_stride = static_cast<int64_t>(stride),
                  .max_context = context};
    return batch;
  }

  enum class Projection { kAlone, kFused };

  // Projects, rotates and writes these rows; returns their queries.
  absl::StatusOr<std::vector<Bf16>> Write(std::span<const Chunk> chunks, Projection projection,
                                          Pages& pages) {
    std::vector<Bf16> qkv;
    for (const Chunk& c : chunks) {
      const auto& all = qkv_[static_cast<size_t>(c.sequence)];
      qkv.insert(qkv.end(), all.begin() + c.begin * qkv_width_, all.begin() + c.end * qkv_width_);
    }
    auto batch = MakeBatch(chunks, pages);
    if (!batch.ok()) return batch.status();
    auto in = UploadNew(backend_, qkv);
    if (!in.ok()) return in.status();
    auto projected = UploadNew(backend_, std::vector<Bf16>(qkv.size(), kCanonicalNanBf16));
    if (!projected.ok()) return projected.status();
    std::vector<Bf16> q(static_cast<size_t>(batch->rows.rows * q_width_));
    auto out = UploadNew(backend_, q);
    if (!out.ok()) return out.status();
    const bool is_fused = projection == Projection::kFused;
    const Gemm gemm = {.rows = batch->rows.rows,
                       .weight = (is_fused ? fused_identity_ : plain_identity_).get(),
                       .x = (*in)->As<Bf16>(),
                       .out_bf16 = (*projected)->As<Bf16>()};
    const RopeKvWrite rope = {.batch = &batch->rows,
                              .heads = shape_.heads,
                              .kv_heads = shape_.kv_heads,
                              .head_dim = shape_.head_dim,
                              .qkv = (*projected)->As<Bf16>(),
                              .rotary_dim = RotaryDim(),
                              .cos = cos_->As<float>(),
                              .sin = sin_->As<float>(),
                              .q = (*out)->As<Bf16>(),
                              .cache = pages.cache.get(),
                              .layer = kLayer};
    if (is_fused) {
      backend_.Run(QkvProjection{gemm, rope});
    } else {
      backend_.Run(gemm);
      backend_.Run(rope);
    }
    backend_.Download((*out)->data(), q.size() * sizeof(Bf16), q.data());
    if (absl::Status s = backend_.Synchronize(); !s.ok()) return s;
    return q;
  }

  absl::StatusOr<std::vector<Bf16>> Attend(std::span<const Chunk> chunks, const Pages& pages) {
    std::vector<Bf16> q;
    for (const Chunk& c : chunks) {
      const auto& all = queries_[static_cast<size_t>(c.sequence)];
      q.insert(q.end(), all.begin() + c.begin * q_width_, all.begin() + c.end * q_width_);
    }
    auto batch = MakeBatch(chunks, pages);
    if (!batch.ok()) return batch.status();
    auto in = UploadNew(backend_, q);
    if (!in.ok()) return in.status();
    auto out = UploadNew(backend_, std::vector<Bf16>(q.size(), kCanonicalNanBf16));
    if (!out.ok()) return out.status();
    backend_.Run(Attention{.batch = &batch->rows,
                           .heads = shape_.heads,
                           .kv_heads = shape_.kv_heads,
                           .head_dim = shape_.head_dim,
                           .softmax_scale = scale_,
                           .window = shape_.window,
                           .q = (*in)->As<Bf16>(),
                           .cache = pages.cache.get(),
                           .layer = kLayer,
                           .out = (*out)->As<Bf16>()});
    std::vector<Bf16> attended(q.size());
    backend_.Download((*out)->data(), q.size() * sizeof(Bf16), attended.data());
    if (absl::Status s = backend_.Synchronize(); !s.ok()) return s;
    return attended;
  }

  // One sequence after the other is written as a whole; then every row attends alone.
  absl::Status RunAlone() {
    for (int64_t s = 0; s < shape_.sequences; ++s) {
      auto q = Write(std::vector<Chunk>{{s, 0, length_[static_cast<size_t>(s)]}},
                     Projection::kAlone, first_);
      if (!q.ok()) return q.status();
      queries_.push_back(*std::move(q));
    }
    for (int64_t s = 0; s < shape_.sequences; ++s) {
      std::vector<Bf16>& rows = alone_.emplace_back();
      for (int64_t p = 0; p < length_[static_cast<size_t>(s)]; ++p) {
        auto row = Attend(std::vector<Chunk>{{s, p, p + 1}}, first_);
        if (!row.ok()) return row.status();
        rows.insert(rows.end(), row->begin(), row->end());
      }
    }
    return absl::OkStatus();
  }

  // The same keys to other pages, in random chunks of several sequences at once.
  absl::Status WriteInChunks() {
    std::vector<int64_t> written(length_.size(), 0);
    while (true) {
      std::vector<Chunk> chunks;
      for (int64_t s = 0; s < shape_.sequences; ++s) {
        int64_t& begin = written[static_cast<size_t>(s)];
        const int64_t left = length_[static_cast<size_t>(s)] - begin;
        if (left == 0 || random_.Below(3) == 0) continue;
        const int64_t size = 1 + random_.Below(std::min<int64_t>(left, 40));
        chunks.push_back({s, begin, begin + size});
        begin += size;
      }
      if (written == length_) {
        if (chunks.empty()) return absl::OkStatus();
      } else if (chunks.empty()) {
        continue;
      }
      auto q = Write(chunks, Projection::kFused, second_);
      if (!q.ok()) return q.status();
      CompareRows(chunks, queries_, *q, "rotated queries");
    }
  }

  // Chunks of distinct sequences in random order, `rows` rows together: half of them decode.
  std::vector<Chunk> DrawChunks(int64_t rows) {
    std::vector<int64_t> order(length_.size());
    std::iota(order.begin(), order.end(), 0);
    Shuffle(random_, order);
    std::vector<Chunk> chunks;
    for (size_t i = 0; rows > 0 && i < order.size(); ++i) {
      const int64_t length = length_[static_cast<size_t>(order[i])];
      const bool decodes = random_.Below(2) == 0 && i + 1 < order.size() / 2;
      const int64_t size = decodes ? 1 : std::min(rows, 1 + random_.Below(length));
      const int64_t begin = random_.Below(length - size + 1);
      chunks.push_back({order[i], begin, begin + size});
      rows -= size;
    }
    return chunks;
  }

  absl::Status CompareBatch(int64_t rows) {
    const std::vector<Chunk> chunks = DrawChunks(rows);
    auto attended = Attend(chunks, rows % 2 == 0 ? first_ : second_);
    if (!attended.ok()) return attended.status();
    CompareRows(chunks, alone_, *attended, "attention");
    return absl::OkStatus();
  }

  void CompareRows(std::span<const Chunk> chunks, const std::vector<std::vector<Bf16>>& expected,
                   std::span<const Bf16> got, const std::string& what) {
    const auto width = static_cast<size_t>(q_width_);
    size_t row = 0;
    for (const Chunk& c : chunks) {
      const std::span<const Bf16> all = expected[static_cast<size_t>(c.sequence)];
      for (int64_t p = c.begin; p < c.end; ++p, ++row) {
        comparison_.Bf16s(all.subspan(static_cast<size_t>(p) * width, width),
                          got.subspan(row * width, width), [&](size_t column) {
                            return absl::StrCat(
                                what, ", batch of ", got.size() / width, " rows of ", chunks.size(),
                                " sequences, row ", row, " (position ", p, " in a chunk from ",
                                c.begin, " to ", c.end - 1, "), head ",
                                column / static_cast<size_t>(shape_.head_dim), ", dimension ",
                                column % static_cast<size_t>(shape_.head_dim));
                          });
      }
    }
  }

  Backend& backend_;
  const AttentionSweep shape_;
  const SweepOptions options_;
  SplitMix random_;
  const double scale_;
  const int64_t qkv_width_, q_width_;

  std::vector<int64_t> length_;             // of each sequence
  std::vector<std::vector<Bf16>> qkv_;      // of each sequence, before rotation
  std::vector<std::vector<Bf16>> queries_;  // after it
  std::vector<std::vector<Bf16>> alone_;    // attended to one row at a time
  std::unique_ptr<Weight> plain_identity_, fused_identity_;
  std::unique_ptr<Buffer> cos_, sin_;
  Pages first_, second_;
  Comparison comparison_;
};

}  // namespace

absl::StatusOr<CheckRow> SweepAttention(Backend& backend, const AttentionSweep& attention,
                                        const SweepOptions& options) {
  return AttentionSweeper(backend, attention, options).Run();
}

}  // namespace isobit
