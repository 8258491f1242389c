#include "tests/kernels/cuda/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace isobit {
namespace {

constexpr Bf16 kNan = {0x7fc0};

void Wait(Backend& backend) {
  const absl::Status status = backend.Synchronize();
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

// Puts every page of every sequence somewhere, and leaves a few pages free.
void PlacePages(AttentionInputs& in, RandomValues& random) {
  const int page_tokens = in.shape.page_tokens;
  in.pages_each = (in.max_context + page_tokens - 1) / page_tokens;
  in.pages = 3;
  for (const SequenceRows& s : in.sequences) {
    in.pages += (s.first + s.rows + page_tokens - 1) / page_tokens;
  }
  std::vector<int32_t> free(static_cast<size_t>(in.pages));
  std::iota(free.begin(), free.end(), 0);
  for (size_t i = free.size(); i > 1; --i) {
    std::swap(free[i - 1], free[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  }
  for (const SequenceRows& s : in.sequences) {
    const int64_t own = (s.first + s.rows + page_tokens - 1) / page_tokens;
    for (int64_t i = 0; i < in.pages_each; ++i) {
      in.page_table.push_back(i < own ? free.back() : 0);
      if (i < own) free.pop_back();
    }
  }
}

// How much larger the key at this position is than a normal one.
double KeyScale(Scores scores, int64_t position, RandomValues& random) {
  switch (scores) {
    case Scores::kPeaky:
      return random.Below(40) == 0 ? 6.0 : 1.0;
    case Scores::kRising:
      return 0.02 * static_cast<double>(position + 1);
    case Scores::kFalling:
      return 40.0 / (1.0 + 0.02 * static_cast<double>(position));
    case Scores::kHuge:
      return random.Below(3) == 0 ? 300.0 : 1.0;
    case Scores::kNegative:
      return position / 64 % 3 == 1 ? 1.0 : 400.0;
    default:
      return 1.0;
  }
}

// An element of a key whose product with the absolute values of normal numbers, whose mean is 0.8,
// is a power of two around 2^68 or 2^60 in the softmax.
Bf16 ShelfKey(int64_t position, int head_dim) {
  const double exponent = position % 512 < 256 ? 68.0 : 60.0;
  return RoundToBf16(
      static_cast<float>(exponent / (0.8 * std::log2(std::exp(1.0)) * std::sqrt(head_dim))));
}

void MakeHistory(AttentionInputs& in, Scores scores, RandomValues& random) {
  const int64_t width = int64_t{in.shape.kv_heads} * in.shape.head_dim;
  for (const SequenceRows& s : in.sequences) {
    for (int64_t position = 0; position < s.first + s.rows; ++position) {
      const double scale = KeyScale(scores, position, random);
      for (int64_t i = 0; i < width; ++i) {
        Bf16 key = random.NormalBf16(scale);
        Bf16 value = random.NormalBf16();
        if (scores == Scores::kAnything) {
          key = random.Below(4) == 0 ? random.FiniteBf16() : key;
          value = random.FiniteBf16();
        }
        // All products with a query of positive elements are negative.
        if (scores == Scores::kNegative) key.bits |= 0x8000;
        if (scores == Scores::kShelves) key = ShelfKey(position, in.shape.head_dim);
        in.keys.push_back(key);
        in.values.push_back(value);
      }
      if (scores == Scores::kNotFinite && random.Below(50) == 0) {
        constexpr Bf16 kWrong[] = {{0x7fc0}, {0x7f80}, {0xff80}};
        auto& array = random.Below(2) == 0 ? in.keys : in.values;
        array[array.size() - 1 - static_cast<size_t>(random.Below(width))] =
            kWrong[random.Below(3)];
      }
    }
  }
}

}  // namespace

std::string ToString(Scores scores) {
  constexpr const char* kNames[] = {"normal",   "peaky",   "rising",   "falling",   "huge",
                                    "negative", "shelves", "anything", "not finite"};
  return kNames[static_cast<int>(scores)];
}

AttentionInputs MakeInputs(const AttentionShape& shape, const std::vector<SequenceRows>& sequences,
                           Scores scores, uint64_t seed) {
  RandomValues random(seed);
  AttentionInputs in;
  in.shape = shape;
  if (in.shape.softmax_scale == 0) in.shape.softmax_scale = 1 / std::sqrt(shape.head_dim * 1.0);
  in.sequences = sequences;
  in.first_row = {0};
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int i = 0; i < sequences[s].rows; ++i) {
      in.position.push_back(sequences[s].first + i);
      in.sequence.push_back(static_cast<int32_t>(s));
      in.history.push_back(in.history_rows);
    }
    in.first_row.push_back(static_cast<int32_t>(in.position.size()));
    in.max_context = std::max<int64_t>(in.max_context, sequences[s].first + sequences[s].rows);
    in.history_rows += sequences[s].first + sequences[s].rows;
  }
  in.rows = static_cast<int64_t>(in.position.size());
  PlacePages(in, random);
  MakeHistory(in, scores, random);
  for (int64_t i = 0; i < in.rows * shape.heads * shape.head_dim; ++i) {
    Bf16 q = scores == Scores::kAnything && random.Below(8) == 0 ? random.SpreadBf16(60)
                                                                 : random.NormalBf16();
    if (scores == Scores::kNegative || scores == Scores::kShelves) q.bits &= 0x7fff;
    in.q.push_back(q);
  }
  return in;
}

AttentionOnBackend::AttentionOnBackend(Backend& backend, const AttentionInputs& inputs)
    : backend_(backend), in_(inputs) {
  const AttentionShape& shape = in_.shape;
  cache_ = backend_
               .CreateKvCache(
                   {/*layers=*/2, shape.kv_heads, shape.head_dim, shape.page_tokens, in_.pages})
               .value();
  std::vector<int32_t> all_pages(static_cast<size_t>(in_.pages));
  std::iota(all_pages.begin(), all_pages.end(), 0);
  backend_.FillPages(*cache_, all_pages, kNan);
  page_table_ = Load(in_.page_table.data(), in_.page_table.size() * sizeof(int32_t));
  WriteHistory();
  position_ = Load(in_.position.data(), in_.position.size() * sizeof(int32_t));
  sequence_ = Load(in_.sequence.data(), in_.sequence.size() * sizeof(int32_t));
  first_row_ = Load(in_.first_row.data(), in_.first_row.size() * sizeof(int32_t));
  q_ = Load(in_.q.data(), in_.q.size() * sizeof(Bf16));
  out_ = backend_.Allocate(in_.q.size() * sizeof(Bf16) + 16).value();
  batch_ = {.rows = in_.rows,
            .sequences = static_cast<int64_t>(in_.sequences.size()),
            .position = position_->As<int32_t>(),
            .sequence = sequence_->As<int32_t>(),
            .first_row = first_row_->As<int32_t>(),
            .page_table = page_table_->As<int32_t>(),
            .page_table_stride = in_.pages_each,
            .max_context = in_.max_context};
}

std::unique_ptr<Buffer> AttentionOnBackend::Load(const void* data, size_t bytes) {
  auto buffer = backend_.Allocate(bytes + 16).value();
  backend_.Upload(data, bytes, buffer->data());
  return buffer;
}

// All keys and values through RopeKvWrite without a rotation.
void AttentionOnBackend::WriteHistory() {
  const AttentionShape& shape = in_.shape;
  const int64_t width = int64_t{shape.kv_heads} * shape.head_dim;
  std::vector<int32_t> position, sequence, first_row = {0};
  std::vector<Bf16> qkv;
  for (size_t s = 0; s < in_.sequences.size(); ++s) {
    for (int p = 0; p < in_.sequences[s].first + in_.sequences[s].rows; ++p) {
      const auto row = static_cast<int64_t>(position.size());
      position.push_back(p);
      sequence.push_back(static_cast<int32_t>(s));
      qkv.insert(qkv.end(), static_cast<size_t>(width),
                 Bf16{0});  // as many query heads as key heads
      qkv.insert(qkv.end(), in_.keys.begin() + row * width, in_.keys.begin() + (row + 1) * width);
      qkv.insert(qkv.end(), in_.values.begin() + row * width,
                 in_.values.begin() + (row + 1) * width);
    }
    first_row.push_back(static_cast<int32_t>(position.size()));
  }
  const auto positions = Load(position.data(), position.size() * sizeof(int32_t));
  const auto sequences = Load(sequence.data(), sequence.size() * sizeof(int32_t));
  const auto first_rows = Load(first_row.data(), first_row.size() * sizeof(int32_t));
  const auto fused = Load(qkv.data(), qkv.size() * sizeof(Bf16));
  const auto queries =
      backend_.Allocate(position.size() * static_cast<size_t>(width) * sizeof(Bf16)).value();
  const RowBatch batch = {.rows = in_.history_rows,
                          .sequences = static_cast<int64_t>(in_.sequences.size()),
                          .position = positions->As<int32_t>(),
                          .sequence = sequences->As<int32_t>(),
                          .first_row = first_rows->As<int32_t>(),
                          .page_table = page_table_->As<int32_t>(),
                          .page_table_stride = in_.pages_each,
                          .max_context = in_.max_context};
  backend_.Run(RopeKvWrite{.batch = &batch,
                           .heads = shape.kv_heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .qkv = fused->As<Bf16>(),
                           .q = queries->As<Bf16>(),
                           .cache = cache_.get(),
                           .layer = 1});
  Wait(backend_);
}

void AttentionOnBackend::Queue() {
  backend_.Run(Attention{.batch = &batch_,
                         .heads = in_.shape.heads,
                         .kv_heads = in_.shape.kv_heads,
                         .head_dim = in_.shape.head_dim,
                         .softmax_scale = in_.shape.softmax_scale,
                         .soft_cap = in_.shape.soft_cap,
                         .window = in_.shape.window,
                         .q = q_->As<Bf16>(),
                         .cache = cache_.get(),
                         .layer = 1,
                         .out = out_->As<Bf16>()});
}

void AttentionOnBackend::Poison() {
  const std::vector<Bf16> out(in_.q.size(), Bf16{0xe7e7});
  backend_.Upload(out.data(), out.size() * sizeof(Bf16), out_->data());
}

std::vector<Bf16> AttentionOnBackend::Run() {
  Poison();
  Queue();
  return Output();
}

std::vector<Bf16> AttentionOnBackend::Output() {
  std::vector<Bf16> out(in_.q.size());
  backend_.Download(out_->data(), out.size() * sizeof(Bf16), out.data());
  Wait(backend_);
  return out;
}

}  // namespace isobit
