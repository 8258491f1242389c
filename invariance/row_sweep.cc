#include "invariance/row_sweep.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

// Of memory that nobody has written: NaN in every type.
constexpr std::byte kPoison = std::byte{0xff};

void MakeWild(SplitMix& random, const std::vector<int64_t>& partner, Bf16* row) {
  const auto width = static_cast<int64_t>(partner.size());
  const int64_t kind = random.Below(12);
  for (int64_t i = 0; i < width; ++i) {
    const float value = ToFloat(row[i]);
    const int64_t other = partner[static_cast<size_t>(i)];
    if (kind == 0) row[i] = Bf16{0};
    if (kind == 1) row[i] = RoundToBf16(std::ldexp(value, static_cast<int>(random.Below(80)) - 40));
    if (kind == 2) row[i] = RoundToBf16(std::ldexp(value, 30 * static_cast<int>(random.Below(2))));
    if (kind >= 8 && other < i) row[i] = RoundToBf16(-ToFloat(row[other]));
  }
  if (kind == 3) {
    const uint16_t specials[] = {0x7fff, 0x7f80, 0xff80};
    row[random.Below(width)] = Bf16{specials[random.Below(3)]};
  }
}

template <typename T>
std::span<const T> As(const std::byte* bytes, int64_t count) {
  return {reinterpret_cast<const T*>(bytes), static_cast<size_t>(count)};
}

}  // namespace

std::vector<int64_t> ColumnPartners(int64_t k) {
  SplitMix random(static_cast<uint64_t>(k));
  std::vector<int64_t> order(static_cast<size_t>(k)), partner(order.size());
  std::iota(order.begin(), order.end(), 0);
  Shuffle(random, order);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t other = std::min(i ^ 1, order.size() - 1);  // the last of an odd number has none
    partner[static_cast<size_t>(order[i])] = order[other];
  }
  return partner;
}

std::vector<Bf16> RandomRows(SplitMix& random, int64_t rows, int64_t width) {
  std::vector<Bf16> values;
  for (int64_t i = 0; i < rows * width; ++i) values.push_back(RoundToBf16(random.Normal()));
  return values;
}

std::vector<Bf16> WildRows(SplitMix& random, int64_t rows, int64_t width) {
  std::vector<Bf16> values = RandomRows(random, rows, width);
  const std::vector<int64_t> partner = ColumnPartners(width);
  for (int64_t r = 0; r < rows; ++r) MakeWild(random, partner, values.data() + r * width);
  return values;
}

absl::StatusOr<std::unique_ptr<Weight>> RandomWeight(Backend& backend, uint64_t seed, int64_t n,
                                                     int64_t k, WeightLayout layout) {
  const float deviation = 1.0f / std::sqrt(static_cast<float>(k));
  const std::vector<int64_t> partner = ColumnPartners(k);
  const int parts = layout == WeightLayout::kGateUp ? 2 : 1;
  std::vector<MatrixSource> sources;
  for (int part = 0; part < parts; ++part) {
    // Blocks are read in any order: each row has a generator of its own.
    const uint64_t base = SplitMix(seed + static_cast<uint64_t>(part)).Next();
    auto read = [=](int64_t begin, int64_t end, Bf16* out) {
      for (int64_t row = begin; row < end; ++row, out += k) {
        SplitMix random(base + static_cast<uint64_t>(row));
        for (int64_t i = 0; i < k; ++i) {
          const int64_t other = partner[static_cast<size_t>(i)];
          out[i] = other < i ? out[other] : RoundToBf16(deviation * random.Normal());
        }
      }
    };
    sources.push_back({.rows = n / parts, .cols = k, .read = read});
  }
  return backend.LoadWeight(sources, layout);
}

absl::StatusOr<CheckRow> RowSweep::Run(const std::string& name, const Issue& issue) {
  const auto start = std::chrono::steady_clock::now();
  if (absl::Status s = Allocate(); !s.ok()) return s;
  std::vector<Results> alone;
  for (int64_t r = 0; r < pool_rows(); ++r) {
    auto results = RunBatch({r}, issue);
    if (!results.ok()) return results.status();
    alone.push_back(*std::move(results));
  }
  SplitMix random(options_.seed);
  std::vector<int64_t> order(static_cast<size_t>(pool_rows()));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t rows = 1; rows <= options_.max_rows; rows += options_.step) {
    for (int64_t place = 0; place < (options_.every_place ? rows : 1); ++place) {
      Shuffle(random, order);
      if (options_.every_place) std::iter_swap(order.begin() + place, std::ranges::find(order, 0));
      const std::vector<int64_t> batch(order.begin(), order.begin() + rows);
      auto results = RunBatch(batch, issue);
      if (!results.ok()) return results.status();
      CompareBatch(batch, alone, *results);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return CheckRow{.name = name,
                  .compared = comparison_.compared(),
                  .first_difference = comparison_.Describe(),
                  .seconds = seconds.count()};
}

absl::Status RowSweep::Allocate() {
  const auto rows = static_cast<size_t>(options_.max_rows) + 1;
  auto allocate = [&](size_t row_bytes, std::unique_ptr<Buffer>* buffer) {
    auto memory = backend_.Allocate(std::max<size_t>(rows * row_bytes, 64));
    if (memory.ok()) *buffer = *std::move(memory);
    return memory.status();
  };
  for (Input& input : inputs_) {
    if (absl::Status s = allocate(input.row_bytes, &input.buffer); !s.ok()) return s;
  }
  for (Output& output : outputs_) {
    if (absl::Status s = allocate(output.row_bytes(), &output.buffer); !s.ok()) return s;
  }
  return absl::OkStatus();
}

std::vector<std::byte> RowSweep::Gather(const Input& input,
                                        const std::vector<int64_t>& rows) const {
  const size_t bytes = input.row_bytes;
  std::vector<std::byte> batch((rows.size() + 1) * bytes, kPoison);
  for (size_t place = 0; place < rows.size(); ++place) {
    std::byte* row = batch.data() + place * bytes;
    std::memcpy(row, input.pool.data() + static_cast<size_t>(rows[place]) * bytes, bytes);
    if (input.place) input.place(static_cast<int64_t>(place), row);
  }
  return batch;
}

absl::StatusOr<RowSweep::Results> RowSweep::RunBatch(const std::vector<int64_t>& rows,
                                                     const Issue& issue) {
  std::vector<Buffer*> in, out;
  std::vector<std::vector<std::byte>> gathered;
  for (const Input& input : inputs_) {
    gathered.push_back(Gather(input, rows));
    backend_.Upload(gathered.back().data(), gathered.back().size(), input.buffer->data());
    in.push_back(input.buffer.get());
  }
  Results results;
  for (const Output& output : outputs_) {
    results.emplace_back((rows.size() + 1) * output.row_bytes(), kPoison);
    if (output.preset >= 0) results.back() = gathered[static_cast<size_t>(output.preset)];
    backend_.Upload(results.back().data(), results.back().size(), output.buffer->data());
    out.push_back(output.buffer.get());
  }
  issue(static_cast<int64_t>(rows.size()), in, out);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    backend_.Download(out[i]->data(), results[i].size(), results[i].data());
  }
  if (absl::Status s = backend_.Synchronize(); !s.ok()) return s;
  return results;
}

void RowSweep::CompareBatch(const std::vector<int64_t>& rows, const std::vector<Results>& alone,
                            const Results& got) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    const size_t bytes = output.row_bytes();
    for (size_t place = 0; place < rows.size(); ++place) {
      const std::string where = absl::StrCat("batch of ", rows.size(), ", row ", place,
                                             " (alone: ", rows[place], "), ", output.name, " ");
      CompareRow(output, alone[static_cast<size_t>(rows[place])][i].data(),
                 got[i].data() + place * bytes, where);
    }
    const std::vector<std::byte> untouched(bytes, kPoison);
    CompareRow(output, untouched.data(), got[i].data() + rows.size() * bytes,
               absl::StrCat("batch of ", rows.size(), ", written behind its last row, ",
                            output.name, " "));
  }
}

void RowSweep::CompareRow(const Output& output, const std::byte* expected, const std::byte* got,
                          const std::string& place) {
  const auto at = [&](size_t column) { return absl::StrCat(place, column); };
  const int64_t n = output.columns;
  switch (output.type) {
    case Type::kBf16:
      return comparison_.Bf16s(As<Bf16>(expected, n), As<Bf16>(got, n), at);
    case Type::kFp32:
      return comparison_.Floats(As<float>(expected, n), As<float>(got, n), at);
    case Type::kInt32:
      return comparison_.Integers(As<int32_t>(expected, n), As<int32_t>(got, n), at);
  }
}

}  // namespace isobit
