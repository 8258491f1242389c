// Measures what the pictures of invariance/explained show.
//
//   figure_data MODEL.gguf OUT.json
//
// Unique completions: some prompts, greedy, each in batches of growing size among others, on the
// CPU backend and on one that splits K by the batch. Errors: sums of products of bf16 in three
// orders against fp64.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "invariance/schedule.h"
#include "invariance/workload.h"
#include "kernels/backends.h"
#include "kernels/numerics/dot16.h"
#include "runtime/api/json_writer.h"
#include "runtime/engine/engine_core.h"
#include "runtime/receipt/atomic_file.h"
#include "tools/figures/split_k_control.h"

namespace isobit {
namespace {

constexpr int64_t kBatches[] = {1, 2, 3, 4, 8, 12};
constexpr int64_t kOutput = 24;
constexpr const char* kPrompts[] = {"Once upon a time there was a", "To bake bread, first",
                                    "In the year 1969, astronauts"};

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "figure_data: %s\n", std::string(value.status().message()).c_str());
  std::exit(3);
}

// How many different completions the prompts have had up to each batch size, in the mean.
std::vector<double> UniqueCompletions(const std::string& path, std::unique_ptr<Backend> backend) {
  std::unique_ptr<Model> model = Must(Model::Load(path, std::move(backend)));
  std::vector<std::set<std::vector<int32_t>>> seen(std::size(kPrompts));
  std::vector<double> unique;
  for (int64_t batch : kBatches) {
    for (size_t p = 0; p < seen.size(); ++p) {
      PreparedRequest request = MakeLongPrompt(*model, 1, kOutput);
      request.prompt = Must(model->tokenizer().Encode(kPrompts[p]));
      std::vector<ScheduledRequest> all = {{.request = request, .record_logits = false}};
      for (PreparedRequest& other : MakeNoise(*model, 31, batch - 1, 12)) {
        other.sampling.max_tokens = kOutput;  // the batch keeps its size
        all.push_back({.request = std::move(other), .record_logits = false});
      }
      auto engine = Must(EngineCore::Create(
          std::move(model),
          {.max_num_seqs = batch, .kv_cache_tokens = 64 * (batch + 1), .prefix_cache = false}));
      const auto outcomes = Must(RunSchedule(*engine, std::move(all)));
      model = EngineCore::TakeModel(std::move(engine));
      seen[p].insert(outcomes[0].completion.choices.at(0).token_ids);
    }
    size_t sum = 0;
    for (const auto& completions : seen) sum += completions.size();
    unique.push_back(static_cast<double>(sum) / static_cast<double>(seen.size()));
    std::fprintf(stderr, "batch %d: %.2f\n", static_cast<int>(batch), unique.back());
  }
  return unique;
}

float Pairwise(const float* x, int64_t n) {
  if (n == 1) return *x;
  return Pairwise(x, n / 2) + Pairwise(x + n / 2, n - n / 2);
}

struct OrderErrors {
  std::vector<int64_t> k;
  std::vector<double> chain, fma, pairwise;  // median errors, in units of the mean square result
};

OrderErrors MeasureErrors() {
  constexpr int64_t kRows = 512;
  OrderErrors errors;
  SplitMix random(77);
  for (int64_t k = 64; k <= 16384; k *= 2) {
    std::vector<double> chain, fma, pairwise;
    double square = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      std::vector<Bf16> a, b;
      std::vector<float> products;
      double truth = 0;
      float sequential = 0;
      for (int64_t i = 0; i < k; ++i) {
        a.push_back(RoundToBf16(random.Normal()));
        b.push_back(RoundToBf16(random.Normal()));
        products.push_back(ToFloat(a.back()) * ToFloat(b.back()));  // exact
        truth += double{products.back()};
        sequential = std::fma(ToFloat(a.back()), ToFloat(b.back()), sequential);
      }
      square += truth * truth;
      chain.push_back(std::fabs(double{DotChain(a.data(), b.data(), k)} - truth));
      fma.push_back(std::fabs(double{sequential} - truth));
      pairwise.push_back(std::fabs(double{Pairwise(products.data(), k)} - truth));
    }
    const auto median = [&](std::vector<double>& values) {
      std::ranges::nth_element(values, values.begin() + kRows / 2);
      return values[kRows / 2] / std::sqrt(square / kRows);
    };
    errors.k.push_back(k);
    errors.chain.push_back(median(chain));
    errors.fma.push_back(median(fma));
    errors.pairwise.push_back(median(pairwise));
  }
  return errors;
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: figure_data MODEL.gguf OUT.json\n");
    return 2;
  }
  const OrderErrors errors = MeasureErrors();
  const std::vector<double> isobit = UniqueCompletions(argv[1], Must(CreateCpuBackend({})));
  const std::vector<double> split_k =
      UniqueCompletions(argv[1], MakeSplitKControl(Must(CreateCpuBackend({}))));
  JsonWriter out;
  out.BeginObject();
  out.Key("unique_completions").BeginObject();
  out.Field("prompts", static_cast<int64_t>(std::size(kPrompts))).Field("tokens", kOutput);
  out.Field("batch", std::vector<int64_t>(std::begin(kBatches), std::end(kBatches)));
  out.Field("isobit", isobit).Field("split_k", split_k).EndObject();
  out.Key("errors").BeginObject();
  out.Field("k", errors.k).Field("contract_chain", errors.chain);
  out.Field("fp32_fma_chain", errors.fma).Field("fp32_pairwise", errors.pairwise).EndObject();
  const absl::Status written = WriteFileAtomically(argv[2], out.EndObject().Take() + "\n");
  if (written.ok()) return 0;
  std::fprintf(stderr, "figure_data: %s\n", std::string(written.message()).c_str());
  return 3;
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) { return isobit::Main(argc, argv); }
