#include "tools/isobit/model_options.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/guarantee.h"
#include "invariance/random_checkpoint.h"
#include "runtime/model/model.h"
#include "tools/isobit/log.h"

namespace isobit {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// The status of a failed CreateCudaBackend, for the one who asked for it by name.
absl::Status NoCuda(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--device cuda: ", status.message()));
}

void AddEngineOptions(CLI::App& command, ModelOptions& options) {
  const std::string group = "Engine";
  EngineOptions& engine = options.engine;
  command
      .add_option("--max-model-len", engine.max_model_len,
                  "Most tokens of prompt and output together (0: what the model was made for)")
      ->check(CLI::Range(int64_t{0}, kAny))
      ->group(group);
  command
      .add_option("--max-num-seqs", engine.max_num_seqs,
                  "Most sequences in one step (0: by memory)")
      ->check(CLI::Range(int64_t{0}, kAny))
      ->group(group);
  command
      .add_option("--max-num-batched-tokens", engine.max_num_batched_tokens,
                  "Token budget of a step: sets prefill chunks (0: by device)")
      ->check(CLI::Range(int64_t{0}, kAny))
      ->group(group);
  command.add_option("--block-size", engine.block_size, "Tokens a KV page, a multiple of 16")
      ->check(CLI::Range(int64_t{16}, kAny))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--kv-cache-tokens", engine.kv_cache_tokens,
                  "Tokens that the KV pool holds (0: by memory)")
      ->check(CLI::Range(int64_t{0}, kAny))
      ->group(group);
  command
      .add_flag("--no-prefix-cache", options.no_prefix_cache,
                "Compute every prompt anew; no bit depends on it")
      ->group(group);
  command
      .add_flag("--enforce-eager", engine.enforce_eager,
                "Run CUDA kernels one by one, not as a graph (nothing to do on a CPU)")
      ->group(group);
  command
      .add_flag("--async-scheduling,!--no-async-scheduling", engine.async_scheduling,
                "Issue a step before the tokens of the one before it are known (default: on a GPU)")
      ->group(group);
  command
      .add_option("--audit", engine.audit_share,
                  "Share of the work that may go into computing random finished requests again, to "
                  "compare every bit with what was delivered (0: none)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--seed", engine.seed,
                  "Seed of requests that name none (default: each gets one from the system)")
      ->group(group);
}

}  // namespace

void AddModelOptions(CLI::App& command, ModelOptions& options) {
  command.add_option("-m,--model", options.model, "The model: a GGUF file")
      ->required()
      ->group("Model and device");
  command
      .add_option("--device", options.device,
                  "auto (a GPU if there is one that serves), cpu, cuda, or reference (slow: the "
                  "plain oracle); no bit depends on it")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "reference"}))
      ->capture_default_str()
      ->group("Model and device");
  command
      .add_option("-t,--threads", options.cpu.threads,
                  "Threads of the CPU backend (0: one a core); no bit depends on it")
      ->check(CLI::Range(0, 1024))
      ->group("Model and device");
  command
      .add_option("--cpu-instructions", options.cpu.instructions,
                  "For experts: force auto, avx512, avx2, sse4, neon or scalar code")
      ->check(CLI::IsMember({"auto", "avx512", "avx2", "sse4", "neon", "scalar"}))
      ->capture_default_str()
      ->group("Model and device");
  command
      .add_option("--gemm-plans", options.cuda.gemm_plans,
                  "GEMM kernels as `isobit tune` measured them, on a GPU; no bit depends on it")
      ->check(CLI::ExistingFile)
      ->group("Model and device");
  AddEngineOptions(command, options);
  command.add_option("--log-level", options.log_level, "error, warn, info or debug")
      ->check(CLI::IsMember({"error", "warn", "info", "debug"}))
      ->capture_default_str()
      ->group("Messages");
  command.add_option("--log-file", options.log_file, "Messages go to this file, not to stderr")
      ->group("Messages");
}

void AddShapeOption(CLI::App& command, std::string& shape, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [name, config] : KnownShapes()) names.push_back(name);
  command.add_option("--shape", shape, help)->check(CLI::IsMember(names));
}

void AddModelOrShapeOptions(CLI::App& command, ModelOptions& options) {
  AddShapeOption(command, options.shape,
                 "Instead of a model: random weights in the shape of this one");
  command.add_option("--layers", options.shape_layers, "Of the shape, so many layers (0: all)")
      ->check(CLI::Range(0, 1000))
      ->needs("--shape");
  AddModelOptions(command, options);
  command.get_option("--model")->required(false);
}

absl::Status CheckModelOrShape(const std::string& model, const std::string& shape) {
  if (shape.empty() != model.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("either --model or --shape is required");
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const ModelOptions& options) {
  const bool needs_gpu = !options.cuda.gemm_plans.empty();
  if (needs_gpu && options.device != "cuda" && options.device != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--gemm-plans is for a GPU, not for --device ", options.device));
  }
  if (options.device == "reference") return CreateReferenceBackend();
  if (options.device == "cpu") return CreateCpuBackend(options.cpu);
  absl::StatusOr<std::unique_ptr<Backend>> cuda = CreateCudaBackend(options.cuda);
  if (cuda.ok()) return cuda;
  if (options.device == "cuda" || needs_gpu) return NoCuda(cuda.status());
  // A build without CUDA is made for the CPU; in one with CUDA, somebody may wonder.
  if (!absl::IsUnimplemented(cuda.status())) {
    static std::once_flag said;
    std::call_once(said, [&cuda] {
      const absl::string_view why = cuda.status().message();
      LogWarning(absl::StrCat("runs on the CPU: ", why));
    });
  }
  return CreateCpuBackend(options.cpu);
}

absl::StatusOr<std::unique_ptr<Backend>> CreateProvenBackend(const ModelOptions& options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateBackend(options);
  if (!backend.ok()) return backend;
  if (absl::Status proven = CheckGuarantee((*backend)->Info()); !proven.ok()) return proven;
  return backend;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? kExitWrongUse : kExitUnusable;
}

ExitCode SetUpLog(const ModelOptions& options) {
  static const auto* const kLevels =
      new std::map<std::string, LogLevel>{{"error", LogLevel::kError},
                                          {"warn", LogLevel::kWarn},
                                          {"info", LogLevel::kInfo},
                                          {"debug", LogLevel::kDebug}};
  const absl::Status status = SetUpLog(kLevels->at(options.log_level), options.log_file);
  if (status.ok()) return kExitOk;
  LogError(status);
  return kExitUnusable;
}

namespace {

std::nullptr_t Fail(const absl::Status& status, ExitCode code, ExitCode& exit_code) {
  LogError(status);
  exit_code = code;
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> OpenModel(const ModelOptions& options,
                                                 std::unique_ptr<Backend> backend) {
  const int64_t max_model_len = options.engine.max_model_len;
  if (options.shape.empty()) return Model::Load(options.model, std::move(backend), max_model_len);
  ModelConfig config = KnownShapes().at(options.shape);
  if (options.shape_layers > 0) config.layers = std::min(config.layers, options.shape_layers);
  const RandomCheckpoint checkpoint(config, 1);
  return Model::Load(checkpoint, options.shape, std::move(backend), max_model_len);
}

std::unique_ptr<Model> LoadModel(const ModelOptions& options, ExitCode& exit_code) {
  exit_code = SetUpLog(options);
  if (exit_code != kExitOk) return nullptr;
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateProvenBackend(options);
  if (!backend.ok()) return Fail(backend.status(), ExitCodeOf(backend.status()), exit_code);
  absl::StatusOr<std::unique_ptr<Model>> model = OpenModel(options, *std::move(backend));
  if (!model.ok()) {
    // --max-model-len beyond the model's; an InvalidArgument is the file's here.
    const bool wrong_use = absl::IsOutOfRange(model.status());
    return Fail(model.status(), wrong_use ? kExitWrongUse : kExitUnusable, exit_code);
  }
  LogInfo(absl::StrCat(options.model, ": ", (*model)->load_note(), "; digest ",
                       (*model)->digest().ToHex()));
  return *std::move(model);
}

std::unique_ptr<Engine> StartEngine(const ModelOptions& options, ExitCode& exit_code) {
  std::unique_ptr<Model> model = LoadModel(options, exit_code);
  if (model == nullptr) return nullptr;
  EngineOptions engine_options = options.engine;
  engine_options.prefix_cache = !options.no_prefix_cache;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(std::move(model), engine_options);
  if (!engine.ok()) return Fail(engine.status(), ExitCodeOf(engine.status()), exit_code);
  const EngineOptions& used = (*engine)->options();
  LogInfo(absl::StrCat("at most ", used.max_num_seqs, " sequences and ",
                       used.max_num_batched_tokens, " tokens a step, ", used.kv_cache_tokens,
                       " tokens in the KV pool, ", used.max_model_len, " a sequence"));
  return *std::move(engine);
}

ExitCode ReportAudits(const Engine& engine) {
  const EngineStats stats = engine.Stats();
  if (stats.audits > 0) {
    LogInfo(absl::StrCat("audited: ", stats.audits, " completions of ", stats.audited_tokens,
                         " tokens computed again, ", stats.audit_differences, " differ"));
  }
  if (stats.audit_differences == 0) return kExitOk;
  LogError(absl::StrCat("an audit found that this machine does not repeat its own results: ",
                        stats.first_audit_difference));
  return kExitFailed;
}

}  // namespace isobit
