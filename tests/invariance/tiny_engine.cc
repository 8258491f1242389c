#include "tests/invariance/tiny_engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "kernels/backends.h"
#include "kernels/cpu/instructions.h"
#include "tests/late_backend.h"

namespace isobit {

std::unique_ptr<Backend> MakeBackend(const std::string& name) {
  if (name == "reference") return CreateReferenceBackend();
  if (name == "late") return std::make_unique<LateBackend>();
  if (name == "late gpu") return std::make_unique<LateBackend>("cuda");
  if (name == "cuda") {
    auto cuda = CreateCudaBackend({});
    EXPECT_TRUE(cuda.ok()) << cuda.status();
    return *std::move(cuda);
  }
  const std::string instructions = name == "cpu" ? "auto" : name.substr(4);
  auto backend = CreateCpuBackend({.threads = 2, .instructions = instructions});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

bool HasCuda() {
  static const bool has_cuda = CreateCudaBackend({}).ok();
  return has_cuda;
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names = {"reference"};
  if (HasCuda()) names.push_back("cuda");
  for (const InstructionSet& set : AvailableInstructionSets()) {
    names.push_back(absl::StrCat("cpu ", set.name));
  }
  return names;
}

std::string BackendTestName(const testing::TestParamInfo<std::string>& backend) {
  std::string name = backend.param;
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::unique_ptr<Model> LoadTiny(const TinyModelOptions& tiny, const std::string& backend) {
  auto model = Model::Load(WriteTinyModel(tiny), MakeBackend(backend));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<EngineCore> MakeCore(const EngineOptions& options, const TinyModelOptions& tiny,
                                     const std::string& backend) {
  auto engine = EngineCore::Create(LoadTiny(tiny, backend), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options, const TinyModelOptions& tiny,
                                   const std::string& backend) {
  auto engine = Engine::Create(LoadTiny(tiny, backend), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

PreparedRequest MakeRequest(const std::string& id, std::vector<int32_t> prompt) {
  PreparedRequest r;
  r.id = id;
  r.prompt = std::move(prompt);
  r.sampling.max_tokens = 8;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  r.sampling.logprobs = 1;
  return r;
}

std::vector<int32_t> Tokens(uint64_t seed, int64_t count) {
  SplitMix random(seed);
  return RandomTokens(random, count, kTinyVocab);
}

Request AsRequest(const PreparedRequest& request) {
  Request r = {.id = request.id, .prompt = request.prompt, .sampling = request.sampling};
  r.sampling.seed = request.seed;
  return r;
}

std::vector<Outcome> RunScheduled(EngineCore& engine, std::vector<ScheduledRequest> requests,
                                  const ScheduleOptions& options) {
  auto outcomes = RunSchedule(engine, std::move(requests), options);
  EXPECT_TRUE(outcomes.ok()) << outcomes.status();
  return *std::move(outcomes);
}

std::vector<Outcome> RunTogether(EngineCore& engine, const std::vector<PreparedRequest>& requests,
                                 const ScheduleOptions& options) {
  std::vector<ScheduledRequest> scheduled;
  for (const PreparedRequest& r : requests) scheduled.push_back({.request = r});
  return RunScheduled(engine, std::move(scheduled), options);
}

std::vector<Outcome> RunAlone(const std::vector<PreparedRequest>& requests,
                              const TinyModelOptions& tiny, const std::string& backend) {
  const auto engine = MakeCore({.max_num_seqs = 1, .prefix_cache = false}, tiny, backend);
  std::vector<Outcome> outcomes;
  for (const PreparedRequest& r : requests) {
    outcomes.push_back(std::move(RunScheduled(*engine, {{.request = r}})[0]));
  }
  return outcomes;
}

std::string Difference(const Outcome& expected, const Outcome& got, CompareScope scope) {
  return Difference(std::vector<Outcome>{expected}, std::vector<Outcome>{got}, scope);
}

std::string Difference(const std::vector<Outcome>& expected, const std::vector<Outcome>& got,
                       CompareScope scope) {
  if (expected.size() != got.size()) return absl::StrCat(got.size(), " outcomes");
  Comparison comparison;
  for (size_t i = 0; i < expected.size(); ++i) {
    CompareOutcomes(expected[i], got[i], scope, &comparison);
  }
  return comparison.compared() > 0 ? comparison.Describe() : "nothing was compared";
}

}  // namespace isobit
