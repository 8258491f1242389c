// Results of the contract on seeded inputs, for compare.py to hold against fp64 and PyTorch.
//
//   accuracy_results DIR
//
// Writes one file of bf16 numbers a case: gemm_K.bin, norm_W.bin, attention_L.bin. compare.py makes
// the same inputs from the same seeds.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "invariance/row_sweep.h"
#include "kernels/backends.h"

namespace isobit {
namespace {

// As in compare.py.
constexpr int64_t kGemmRows = 32, kGemmColumns = 64, kNormRows = 64;
constexpr int kQueries = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 64, kPage = 32;
constexpr float kNormEps = 1e-5f;

std::vector<Bf16> Normals(uint64_t seed, int64_t count, float scale, float shift = 0) {
  SplitMix random(seed);
  std::vector<Bf16> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(RoundToBf16(scale * random.Normal() + shift));
  return values;
}

// Fails the program: there is nothing to be done about an error here.
template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "accuracy_results: %s\n", std::string(value.status().message()).c_str());
  std::exit(3);
}

class Results {
 public:
  Results(Backend& backend, std::filesystem::path folder)
      : backend_(backend), folder_(std::move(folder)) {}

  void Linear(int64_t k) {
    const auto x = Must(UploadNew(backend_, Normals(1, kGemmRows * k, 1)));
    const std::vector<Bf16> w = Normals(2, kGemmColumns * k, 1 / std::sqrt(static_cast<float>(k)));
    const MatrixSource source = {
        .rows = kGemmColumns, .cols = k, .read = [&](int64_t begin, int64_t end, Bf16* out) {
          std::copy(w.begin() + begin * k, w.begin() + end * k, out);
        }};
    const auto weight = Must(backend_.LoadWeight({&source, 1}, WeightLayout::kConcatenated));
    const auto out = Allocate(kGemmRows * kGemmColumns);
    backend_.Run(isobit::Gemm{.rows = kGemmRows,
                              .weight = weight.get(),
                              .x = x->As<Bf16>(),
                              .out_bf16 = out->As<Bf16>()});
    Write(absl::StrCat("gemm_", k), *out, kGemmRows * kGemmColumns);
  }

  void Norm(int64_t width) {
    const auto x = Must(UploadNew(backend_, Normals(3, kNormRows * width, 3)));
    const auto weight = Must(UploadNew(backend_, Normals(4, width, 0.1f, 1)));
    const auto out = Allocate(kNormRows * width);
    backend_.Run(RmsNorm{.rows = kNormRows,
                         .width = width,
                         .eps = kNormEps,
                         .x = x->As<Bf16>(),
                         .weight = weight->As<Bf16>(),
                         .out = out->As<Bf16>()});
    Write(absl::StrCat("norm_", width), *out, kNormRows * width);
  }

  // Many queries at the last position of one sequence of `keys`, all heads. Queries of deviation 2:
  // some keys weigh much more than others, as in a model.
  void Attend(int64_t keys) {
    constexpr int64_t kQuery = kHeads * kHeadDim, kKeyValue = kKvHeads * kHeadDim;
    constexpr int64_t kRow = kQuery + 2 * kKeyValue;
    const std::vector<Bf16> k = Normals(6, keys * kKeyValue, 1),
                            v = Normals(7, keys * kKeyValue, 1);
    std::vector<Bf16> qkv(static_cast<size_t>(keys * kRow));
    std::vector<int32_t> position, sequence(static_cast<size_t>(keys), 0), pages;
    for (int64_t p = 0; p < keys; ++p) {
      position.push_back(static_cast<int32_t>(p));
      Bf16* const row = qkv.data() + p * kRow + kQuery;
      std::copy_n(k.begin() + p * kKeyValue, kKeyValue, row);
      std::copy_n(v.begin() + p * kKeyValue, kKeyValue, row + kKeyValue);
      if (p % kPage == 0) pages.push_back(static_cast<int32_t>(p / kPage));
    }
    const auto page_count = static_cast<int64_t>(pages.size());
    const auto cache = Must(backend_.CreateKvCache({.layers = 1,
                                                    .kv_heads = kKvHeads,
                                                    .head_dim = kHeadDim,
                                                    .page_tokens = kPage,
                                                    .pages = page_count}));
    const Memory writing = Upload(position, sequence, {0, static_cast<int32_t>(keys)}, pages);
    RowBatch batch = writing.Batch(keys, 1, page_count, keys);
    const auto input = Must(UploadNew(backend_, qkv));
    const auto unused = Allocate(keys * kQuery);
    backend_.Run(RopeKvWrite{.batch = &batch,
                             .heads = kHeads,
                             .kv_heads = kKvHeads,
                             .head_dim = kHeadDim,
                             .qkv = input->As<Bf16>(),
                             .q = unused->As<Bf16>(),
                             .cache = cache.get()});
    // A sequence a query, all on the same pages.
    std::vector<int32_t> last(kQueries, static_cast<int32_t>(keys) - 1), own, first, tables;
    for (int32_t i = 0; i < kQueries; ++i) {
      own.push_back(i);
      first.push_back(i);
      tables.insert(tables.end(), pages.begin(), pages.end());
    }
    first.push_back(kQueries);
    const Memory reading = Upload(last, own, first, tables);
    batch = reading.Batch(kQueries, kQueries, page_count, keys);
    const auto q = Must(UploadNew(backend_, Normals(5, kQueries * kQuery, 2)));
    const auto out = Allocate(kQueries * kQuery);
    backend_.Run(Attention{.batch = &batch,
                           .heads = kHeads,
                           .kv_heads = kKvHeads,
                           .head_dim = kHeadDim,
                           .softmax_scale = 1.0 / std::sqrt(static_cast<double>(kHeadDim)),
                           .q = q->As<Bf16>(),
                           .cache = cache.get(),
                           .out = out->As<Bf16>()});
    Write(absl::StrCat("attention_", keys), *out, kQueries * kQuery);
  }

 private:
  // What a RowBatch points to.
  struct Memory {
    std::unique_ptr<Buffer> position, sequence, first_row, page_table;
    RowBatch Batch(int64_t rows, int64_t sequences, int64_t pages, int64_t keys) const {
      return {.rows = rows,
              .sequences = sequences,
              .position = position->As<int32_t>(),
              .sequence = sequence->As<int32_t>(),
              .first_row = first_row->As<int32_t>(),
              .page_table = page_table->As<int32_t>(),
              .page_table_stride = pages,
              .max_context = keys};
    }
  };

  Memory Upload(const std::vector<int32_t>& position, const std::vector<int32_t>& sequence,
                const std::vector<int32_t>& first_row, const std::vector<int32_t>& page_table) {
    return {Must(UploadNew(backend_, position)), Must(UploadNew(backend_, sequence)),
            Must(UploadNew(backend_, first_row)), Must(UploadNew(backend_, page_table))};
  }

  std::unique_ptr<Buffer> Allocate(int64_t count) {
    return Must(backend_.Allocate(static_cast<size_t>(count) * sizeof(Bf16)));
  }

  void Write(const std::string& name, const Buffer& out, int64_t count) {
    std::vector<Bf16> values(static_cast<size_t>(count));
    backend_.Download(out.data(), values.size() * sizeof(Bf16), values.data());
    const absl::Status status = backend_.Synchronize();
    const std::string path = folder_ / (name + ".bin");
    FILE* const file = status.ok() ? std::fopen(path.c_str(), "wb") : nullptr;
    const bool written = file != nullptr && std::fwrite(values.data(), sizeof(Bf16), values.size(),
                                                        file) == values.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
      std::fprintf(stderr, "accuracy_results: cannot make %s\n", path.c_str());
      std::exit(3);
    }
  }

  Backend& backend_;
  const std::filesystem::path folder_;
};

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: accuracy_results DIR\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  const auto backend = Must(CreateCpuBackend({}));
  Results results(*backend, argv[1]);
  for (int64_t k : {576, 1536, 4096, 8192, 16384}) results.Linear(k);
  for (int64_t width : {576, 2048, 4096, 8192}) results.Norm(width);
  for (int64_t keys : {128, 1024, 4096, 16384, 32768}) results.Attend(keys);
  return 0;
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) { return isobit::Main(argc, argv); }
