#ifndef ISOBIT_INVARIANCE_ROW_SWEEP_H_
#define ISOBIT_INVARIANCE_ROW_SWEEP_H_

// The sweep of one operation whose rows do not know each other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/comparison.h"
#include "invariance/random.h"
#include "invariance/sweep.h"

namespace isobit {

// A host array in a backend's memory.
template <typename T>
absl::StatusOr<std::unique_ptr<Buffer>> UploadNew(Backend& backend, const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  auto buffer = backend.Allocate(std::max<size_t>(bytes, 64));
  if (buffer.ok()) backend.Upload(values.data(), bytes, (*buffer)->data());
  return buffer;
}

// The order of a sum rarely shows once its result is rounded to bf16. It does where the sum
// cancels: so the columns of every matrix here come in random pairs, equal in every row of the
// weights, and some activations have opposite values in them. All that is left of such a row is
// what its additions rounded away.
std::vector<int64_t> ColumnPartners(int64_t k);

// [rows][width] as real activations are.
std::vector<Bf16> RandomRows(SplitMix& random, int64_t rows, int64_t width);
// Among them rows that cancel, rows of wide exponents, of zeros, and with one element that is not
// finite.
std::vector<Bf16> WildRows(SplitMix& random, int64_t rows, int64_t width);

// A matrix [n][k] of deviation 1 / sqrt(k); of layout kGateUp, two of n / 2 rows.
absl::StatusOr<std::unique_ptr<Weight>> RandomWeight(Backend& backend, uint64_t seed, int64_t n,
                                                     int64_t k, WeightLayout layout);

class RowSweep {
 public:
  enum class Type { kBf16, kFp32, kInt32 };  // how an output is compared and shown
  // Changes what a row reads for its place in the batch.
  using Place = std::function<void(int64_t place, std::byte* row)>;
  // Issues the operation on a batch: one buffer an input and an output, in the order of their
  // adding.
  using Issue = std::function<void(int64_t rows, const std::vector<Buffer*>& inputs,
                                   const std::vector<Buffer*>& outputs)>;

  RowSweep(Backend& backend, const SweepOptions& options) : backend_(backend), options_(options) {}

  // Rows that batches are drawn from.
  int64_t pool_rows() const { return options_.max_rows + 13; }

  // What row r reads: `pool` is [pool_rows()][...].
  template <typename T>
  void AddInput(const std::vector<T>& pool, Place place = nullptr) {
    Input input;
    input.row_bytes = pool.size() / static_cast<size_t>(pool_rows()) * sizeof(T);
    input.pool.resize(pool.size() * sizeof(T));
    std::memcpy(input.pool.data(), pool.data(), input.pool.size());
    input.place = std::move(place);
    inputs_.push_back(std::move(input));
  }
  // `preset`: the output starts as this input, for an operation that works in place.
  void AddOutput(const std::string& name, Type type, int64_t columns, int preset = -1) {
    outputs_.push_back({name, type, columns, preset, nullptr});
  }

  // Compares every row of every batch with that row alone.
  absl::StatusOr<CheckRow> Run(const std::string& name, const Issue& issue);

 private:
  struct Input {
    std::vector<std::byte> pool;
    size_t row_bytes = 0;
    Place place;
    std::unique_ptr<Buffer> buffer;
  };
  struct Output {
    std::string name;
    Type type;
    int64_t columns;
    int preset;
    std::unique_ptr<Buffer> buffer;
    size_t row_bytes() const {
      return static_cast<size_t>(columns) * (type == Type::kBf16 ? 2 : 4);
    }
  };
  using Results = std::vector<std::vector<std::byte>>;  // one an output

  absl::Status Allocate();
  // Runs these rows of the pool as one batch. Results have one row more than the batch: the memory
  // behind it, which must stay as it was.
  absl::StatusOr<Results> RunBatch(const std::vector<int64_t>& rows, const Issue& issue);
  std::vector<std::byte> Gather(const Input& input, const std::vector<int64_t>& rows) const;
  void CompareBatch(const std::vector<int64_t>& rows, const std::vector<Results>& alone,
                    const Results& got);
  void CompareRow(const Output& output, const std::byte* expected, const std::byte* got,
                  const std::string& place);

  Backend& backend_;
  const SweepOptions options_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  Comparison comparison_;
};

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ROW_SWEEP_H_
