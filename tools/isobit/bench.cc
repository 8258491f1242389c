// isobit bench: how fast a model runs, beside the machine's ceilings.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/json_writer.h"
#include "tools/isobit/bench_operations.h"
#include "tools/isobit/bench_steps.h"
#include "tools/isobit/ceilings.h"
#include "tools/isobit/command.h"
#include "tools/isobit/engine_timer.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/output_file.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

constexpr const char* kSpeed = "speed";
constexpr const char* kSteps = "steps";
constexpr const char* kRequests = "requests";
constexpr const char* kGemm = "gemm";
constexpr const char* kAttention = "attention";

struct BenchOptions {
  ModelOptions model;
  std::vector<std::string> parts;  // none: by device
  bool json = false;
  int repeat = 3;
  int64_t prefill_tokens = 512;
  int64_t decode_tokens = 64;
  int64_t together = 32;
  int64_t requests = 1000;

  bool Has(const std::string& part) const {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
};

constexpr int64_t kDecodePrompt = 8;

struct Spread {
  double median = 0, lowest = 0, highest = 0;
};

Spread SpreadOf(const std::vector<double>& values) {
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  return {Median(values), *lowest, *highest};
}

struct SpeedResult {
  Spread decode, prefill, together;  // tokens a second
  int64_t at_once = 0;               // requests together
  int64_t decode_bytes = 0;          // read for one token at batch 1
  BackendCounters counters;
};

struct BenchResult {
  std::string model;
  DeviceInfo device;
  Ceilings ceilings;
  std::optional<SpeedResult> speed;
  std::optional<StepTimes> steps;
  std::optional<RequestTimes> requests;
  std::optional<GemmTimes> gemm;
  std::optional<AttentionTimes> attention;
};

// Runs the load `repeat` times after once to warm up; rate() of each.
template <typename Rate>
absl::StatusOr<Spread> MeasureRate(EngineTimer& timer, const RequestLoad& load, int repeat,
                                   const Rate& rate) {
  std::vector<double> rates;
  for (int i = 0; i <= repeat; ++i) {
    const absl::StatusOr<LoadTimes> times = timer.Run(load);
    if (!times.ok()) return times.status();
    if (i > 0) rates.push_back(rate(*times));
  }
  return SpreadOf(rates);
}

absl::StatusOr<SpeedResult> MeasureSpeed(std::unique_ptr<Model>& model,
                                         const BenchOptions& options) {
  SpeedResult result;
  result.decode_bytes = StepWeightBytes(*model) + (kDecodePrompt + options.decode_tokens / 2) *
                                                      model->config().KvBytesPerToken();
  auto timer = EngineTimer::Create(std::move(model), options.model.engine);
  if (!timer.ok()) return timer.status();
  result.at_once = std::min(options.together, (*timer)->core().options().max_num_seqs);
  const auto decode_rate = [](const LoadTimes& times) { return times.decode_rate; };
  const auto prefill_rate = [&](const LoadTimes& times) {
    return static_cast<double>(options.prefill_tokens) / times.first_token;
  };
  const auto decode =
      MeasureRate(**timer, {1, kDecodePrompt, options.decode_tokens}, options.repeat, decode_rate);
  if (!decode.ok()) return decode.status();
  const auto prefill =
      MeasureRate(**timer, {1, options.prefill_tokens, 1}, options.repeat, prefill_rate);
  if (!prefill.ok()) return prefill.status();
  const auto together = MeasureRate(**timer, {result.at_once, kDecodePrompt, options.decode_tokens},
                                    options.repeat, decode_rate);
  if (!together.ok()) return together.status();
  result.decode = *decode;
  result.prefill = *prefill;
  result.together = *together;
  model = EngineTimer::TakeModel(*std::move(timer));
  result.counters = model->backend().Counters();
  return result;
}

// Moves what a part gave into the result, or gives back why there is nothing.
template <typename T>
absl::Status Keep(absl::StatusOr<T> part, std::optional<T>& to) {
  if (!part.ok()) return part.status();
  to = *std::move(part);
  return absl::OkStatus();
}

absl::StatusOr<BenchResult> Measure(std::unique_ptr<Model> model, const BenchOptions& options) {
  const ModelConfig config = model->config();
  const EngineOptions& engine = options.model.engine;
  BenchResult result;
  result.model = config.name;
  result.device = model->backend().Info();
  // Before an engine plans with all of the memory.
  const auto ceilings = MeasureCeilings(model->backend());
  if (!ceilings.ok()) return ceilings.status();
  result.ceilings = *ceilings;

  absl::Status status;
  if (options.Has(kSpeed)) status = Keep(MeasureSpeed(model, options), result.speed);
  if (status.ok() && options.Has(kSteps)) {
    status = Keep(TimeSteps(model, engine, *ceilings, options.decode_tokens, options.repeat),
                  result.steps);
  }
  if (status.ok() && options.Has(kRequests)) {
    status = Keep(TimeRequests(model, engine, *ceilings, options.requests), result.requests);
  }
  model.reset();
  const CudaOptions& cuda = options.model.cuda;
  if (status.ok() && options.Has(kGemm)) {
    status = Keep(TimeGemms(cuda, config), result.gemm);
  }
  if (status.ok() && options.Has(kAttention)) {
    status = Keep(TimeAttention(cuda, config, engine.block_size), result.attention);
  }
  if (!status.ok()) return status;
  return result;
}

double ShareOfBandwidth(const SpeedResult& speed, const Ceilings& ceilings) {
  return speed.decode.median * static_cast<double>(speed.decode_bytes) /
         ceilings.read_bytes_per_second;
}

void WriteSpread(const Spread& spread, JsonWriter& out) {
  out.BeginObject().Field("median", spread.median).Field("lowest", spread.lowest);
  out.Field("highest", spread.highest).EndObject();
}

void WriteSpeed(const BenchOptions& options, const SpeedResult& speed, const Ceilings& ceilings,
                JsonWriter& out) {
  WriteSpread(speed.decode, out.Key("decode_tokens_per_second"));
  out.Field("prefill_tokens", options.prefill_tokens);
  WriteSpread(speed.prefill, out.Key("prefill_tokens_per_second"));
  out.Field("together", speed.at_once);
  WriteSpread(speed.together, out.Key("together_tokens_per_second"));
  out.Field("decode_bytes_per_token", speed.decode_bytes);
  out.Field("decode_share_of_bandwidth", ShareOfBandwidth(speed, ceilings));
  out.Field("gemm_tiles", speed.counters.gemm_tiles);
  out.Field("gemm_tiles_exact", speed.counters.gemm_tiles_exact);
  out.Field("attention_tiles", speed.counters.attention_tiles);
  out.Field("attention_tiles_exact", speed.counters.attention_tiles_exact);
}

std::string AsJson(const BenchOptions& options, const BenchResult& result) {
  const DeviceInfo& device = result.device;
  JsonWriter out;
  out.BeginObject();
  out.Field("build", kBuildName).Field("model", result.model);
  out.Field("device", device.kind).Field("instructions", device.instructions);
  out.Field("threads", device.threads).Field("repeat", options.repeat);
  out.Field("read_bytes_per_second", result.ceilings.read_bytes_per_second);
  out.Field("flops_per_second", result.ceilings.flops_per_second);
  if (result.speed) WriteSpeed(options, *result.speed, result.ceilings, out);
  if (result.steps) result.steps->WriteJson(out);
  if (result.requests) result.requests->WriteJson(out);
  if (result.gemm) result.gemm->WriteJson(out);
  if (result.attention) result.attention->WriteJson(out);
  return out.EndObject().Take() + "\n";
}

std::string Row(const std::string& name, const Spread& spread, const std::string& note) {
  return absl::StrFormat("%-24s %9.1f tok/s   (%.1f to %.1f)   %s\n", name, spread.median,
                         spread.lowest, spread.highest, note);
}

std::string SpeedText(const BenchOptions& options, const SpeedResult& speed,
                      const Ceilings& ceilings) {
  const auto bytes = static_cast<double>(speed.decode_bytes);
  const BackendCounters& c = speed.counters;
  return absl::StrCat(
      Row("decode", speed.decode,
          absl::StrFormat("%.1f MB a token: %.1f GB/s, %.0f%% of the %.1f that memory gives",
                          bytes * 1e-6, speed.decode.median * bytes * 1e-9,
                          100 * ShareOfBandwidth(speed, ceilings),
                          ceilings.read_bytes_per_second * 1e-9)),
      Row(absl::StrCat("prefill of ", options.prefill_tokens), speed.prefill, ""),
      Row(absl::StrCat("decode, ", speed.at_once, " at once"), speed.together,
          absl::StrFormat("%.2fx one", speed.together.median / speed.decode.median)),
      absl::StrFormat("exact path: %d of %d GEMM tiles, %d of %d attention tiles\n",
                      c.gemm_tiles_exact, c.gemm_tiles, c.attention_tiles_exact,
                      c.attention_tiles));
}

std::string AsText(const BenchOptions& options, const BenchResult& result) {
  std::string out = absl::StrFormat(
      "%s on %s: reads %.1f GB/s, fastest GEMM %.1f GFLOP/s\n", result.model, result.device.name,
      result.ceilings.read_bytes_per_second * 1e-9, result.ceilings.flops_per_second * 1e-9);
  if (result.speed) out += SpeedText(options, *result.speed, result.ceilings);
  if (result.steps) out += result.steps->Text();
  if (result.requests) out += result.requests->Text();
  if (result.gemm) out += result.gemm->Text(result.ceilings);
  if (result.attention) out += result.attention->Text(result.ceilings);
  return out;
}

// What to measure on this device, if it can be.
absl::Status ChooseParts(const std::string& device, BenchOptions& options) {
  const bool gpu = device == "cuda";
  if (options.parts.empty()) {
    options.parts = {kSpeed};
    if (gpu) options.parts = {kSpeed, kSteps, kRequests, kGemm, kAttention};
  }
  for (const char* const part : {kGemm, kAttention}) {
    if (!gpu && options.Has(part)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--parts ", part, " is for a GPU, not for device ", device));
    }
  }
  return absl::OkStatus();
}

ExitCode RunBench(BenchOptions options) {
  absl::Status status = CheckModelOrShape(options.model.model, options.model.shape);
  if (!status.ok()) {
    LogError(status);
    return kExitWrongUse;
  }
  ExitCode exit_code;
  std::unique_ptr<Model> model = LoadModel(options.model, exit_code);
  if (model == nullptr) return exit_code;
  status = ChooseParts(model->backend().Info().kind, options);
  if (status.ok()) {
    const absl::StatusOr<BenchResult> result = Measure(std::move(model), options);
    status = result.status();
    if (status.ok()) {
      status = WriteOutput("-", options.json ? AsJson(options, *result) : AsText(options, *result));
    }
  }
  if (status.ok()) return kExitOk;
  LogError(status);
  return ExitCodeOf(status);
}

}  // namespace

Command AddBench(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "bench",
      "Speed of decoding one request, of prefill, and of many requests at once, beside what this "
      "machine's memory and arithmetic are measured to give; on a GPU also of whole steps, and of "
      "the model's GEMMs and attention one by one, GEMMs beside cuBLASLt's if it is found. Medians "
      "of several runs.");
  const auto options = std::make_shared<BenchOptions>();
  command->add_flag("--json", options->json, "As one JSON object");
  command->add_option("--repeat", options->repeat, "Runs of each measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--prefill-tokens", options->prefill_tokens, "Length of the prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--decode-tokens", options->decode_tokens, "Tokens that are generated")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  command->add_option("--together", options->together, "Requests at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--requests", options->requests, "Requests of the part of that name")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option(
          "--parts", options->parts,
          "What to measure: speed, steps, requests, and on a GPU gemm, attention (default: "
          "speed on a CPU, all on a GPU)")
      ->delimiter(',')
      ->check(CLI::IsMember({kSpeed, kSteps, kRequests, kGemm, kAttention}));
  AddModelOrShapeOptions(*command, options->model);
  return {command, [options] { return RunBench(*options); }};
}

}  // namespace isobit
