// isobit roofline: where the time of a step goes, operation by operation, beside what memory and
// arithmetic of this device allow.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/profiling_backend.h"
#include "runtime/api/json_writer.h"
#include "runtime/engine/engine_core.h"
#include "tools/isobit/ceilings.h"
#include "tools/isobit/command.h"
#include "tools/isobit/engine_timer.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/output_file.h"
#include "tools/isobit/roofline_svg.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

using Clock = std::chrono::steady_clock;

struct RooflineOptions {
  ModelOptions model;
  int64_t sequences = 1;
  int64_t context = 512;
  bool prefill = false;
  int steps = 20;
  bool json = false;
  std::string svg;
};

// Steps at the beginning that are not counted: the first of a shape runs otherwise than later ones.
constexpr int64_t kWarmUp = 3;

struct StepProfile {
  std::vector<OperationProfile> operations;  // sums over `steps`
  int64_t steps = 0;
  double seconds = 0;  // of whole steps, by the host's clock
};

class StepProfiler {
 public:
  StepProfiler(EngineCore& core, ProfilingBackend& backend, const RooflineOptions& options)
      : core_(core), backend_(backend), options_(options) {}

  // Steps in which every sequence decodes one token.
  absl::StatusOr<StepProfile> Decode() {
    const int64_t tokens = kWarmUp + options_.steps + options_.sequences + 2;
    for (int64_t i = 0; i < options_.sequences; ++i) {
      core_.Add(MakeUpRequest(core_.model(), options_.context, tokens, i));
    }
    // All are past their prompts once a step gives a token to each.
    int64_t generated = 0, last = 0;
    while (generated < options_.sequences) {
      if (absl::Status s = Step(); !s.ok()) return s;
      generated = core_.Stats().generated_tokens - last;
      last += generated;
    }
    StepProfile profile;
    for (int64_t i = 0; i < kWarmUp + options_.steps; ++i) {
      if (i == kWarmUp) Forget(profile);
      backend_.set_first_position(options_.context + i);
      if (absl::Status s = Timed(profile); !s.ok()) return s;
    }
    return Finish(std::move(profile));
  }

  // Steps that are one whole prompt each.
  absl::StatusOr<StepProfile> Prefill() {
    StepProfile profile;
    backend_.set_first_position(0);
    for (int i = 0; i <= options_.steps; ++i) {
      if (i == 1) Forget(profile);
      for (int64_t s = 0; s < options_.sequences; ++s) {
        core_.Add(MakeUpRequest(core_.model(), options_.context, 1, s));
      }
      while (core_.HasWork()) {
        if (absl::Status s = Timed(profile); !s.ok()) return s;
      }
    }
    if (profile.steps != options_.steps) {
      return absl::InvalidArgumentError("the prompts did not fit into one step each");
    }
    return Finish(std::move(profile));
  }

 private:
  absl::Status Step() { return core_.Step(); }

  absl::Status Timed(StepProfile& profile) {
    const Clock::time_point begin = Clock::now();
    absl::Status status = Step();
    profile.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    ++profile.steps;
    return status;
  }

  void Forget(StepProfile& profile) {
    profile = {};
    backend_.Take();
  }

  StepProfile Finish(StepProfile profile) {
    profile.operations = backend_.Take();
    core_.FailAll(absl::CancelledError("measured"));
    return profile;
  }

  EngineCore& core_;
  ProfilingBackend& backend_;
  const RooflineOptions& options_;
};

struct Result {
  DeviceInfo device;
  std::string model;
  Ceilings ceilings;
  StepProfile profile;
};

absl::StatusOr<Result> Measure(const RooflineOptions& options) {
  Result result;
  auto inner = CreateBackend(options.model);
  if (!inner.ok()) return inner.status();
  result.device = (*inner)->Info();
  // Before the model and the KV pool take the memory.
  auto ceilings = MeasureCeilings(**inner);
  if (!ceilings.ok()) return ceilings.status();
  result.ceilings = *ceilings;

  auto profiling = std::make_unique<ProfilingBackend>(*std::move(inner));
  ProfilingBackend& backend = *profiling;
  auto model = OpenModel(options.model, std::move(profiling));
  if (!model.ok()) return model.status();
  result.model = (*model)->config().name;
  EngineOptions engine = options.model.engine;
  engine.prefix_cache = false;
  engine.max_num_seqs = options.sequences;
  if (options.prefill) engine.max_num_batched_tokens = options.sequences * options.context;
  auto core = EngineCore::Create(*std::move(model), engine);
  if (!core.ok()) return core.status();
  StepProfiler profiler(**core, backend, options);
  auto profile = options.prefill ? profiler.Prefill() : profiler.Decode();
  if (!profile.ok()) return profile.status();
  result.profile = *std::move(profile);
  return result;
}

std::string TitleOf(const RooflineOptions& options, const Result& result) {
  return absl::StrFormat("%s on %s: %s of %d x %d tokens, %.3f ms", result.model,
                         result.device.name, options.prefill ? "prefill" : "decode step",
                         options.sequences, options.context,
                         1e3 * result.profile.seconds / static_cast<double>(result.profile.steps));
}

std::string AsText(const RooflineOptions& options, const Result& result) {
  const auto steps = static_cast<double>(result.profile.steps);
  std::string out = absl::StrFormat(
      "%s\nread bandwidth %.1f GB/s, fastest GEMM %.1f GFLOP/s\n\n"
      "%-30s %6s %10s %10s %10s %10s %7s %7s\n",
      TitleOf(options, result), result.ceilings.read_bytes_per_second * 1e-9,
      result.ceilings.flops_per_second * 1e-9, "operation", "calls", "MB", "GFLOP", "ms",
      "floor ms", "share", "reached");
  double total = 0, floors = 0;
  for (const OperationProfile& o : result.profile.operations) total += o.seconds;
  for (const OperationProfile& o : result.profile.operations) {
    const double floor = FloorSeconds(o, result.ceilings);
    floors += floor;
    absl::StrAppendFormat(&out, "%-30s %6.0f %10.3f %10.3f %10.3f %10.3f %6.1f%% %6.0f%%\n", o.name,
                          static_cast<double>(o.calls) / steps, o.bytes / steps * 1e-6,
                          o.flops / steps * 1e-9, o.seconds / steps * 1e3, floor / steps * 1e3,
                          100 * o.seconds / total, 100 * floor / o.seconds);
  }
  absl::StrAppendFormat(&out, "%-30s %6s %10s %10s %10.3f %10.3f\n", "all operations", "", "", "",
                        total / steps * 1e3, floors / steps * 1e3);
  absl::StrAppendFormat(&out, "%-30s %6s %10s %10s %10.3f\n", "step, by the host's clock", "", "",
                        "", result.profile.seconds / steps * 1e3);
  return out;
}

std::string AsJson(const RooflineOptions& options, const Result& result) {
  const auto steps = static_cast<double>(result.profile.steps);
  JsonWriter out;
  out.BeginObject();
  out.Field("build", kBuildName).Field("model", result.model);
  out.Field("device", result.device.kind).Field("device_name", result.device.name);
  out.Field("phase", options.prefill ? "prefill" : "decode");
  out.Field("sequences", options.sequences).Field("context", options.context);
  out.Field("steps", result.profile.steps);
  out.Field("read_bytes_per_second", result.ceilings.read_bytes_per_second);
  out.Field("flops_per_second", result.ceilings.flops_per_second);
  out.Field("step_seconds", result.profile.seconds / steps);
  out.Key("operations").BeginArray();
  for (const OperationProfile& o : result.profile.operations) {
    out.BeginObject().Field("name", o.name);
    out.Field("calls", static_cast<double>(o.calls) / steps);
    out.Field("bytes", o.bytes / steps).Field("flops", o.flops / steps);
    out.Field("seconds", o.seconds / steps);
    out.Field("floor_seconds", FloorSeconds(o, result.ceilings) / steps).EndObject();
  }
  return out.EndArray().EndObject().Take() + "\n";
}

ExitCode RunRoofline(const RooflineOptions& options) {
  if (const ExitCode code = SetUpLog(options.model); code != kExitOk) return code;
  if (absl::Status s = CheckModelOrShape(options.model.model, options.model.shape); !s.ok()) {
    LogError(s);
    return kExitWrongUse;
  }
  const absl::StatusOr<Result> result = Measure(options);
  absl::Status status = result.status();
  if (status.ok() && !options.svg.empty()) {
    status = WriteOutput(options.svg, RooflineSvg(result->profile.operations, result->ceilings,
                                                  TitleOf(options, *result)));
  }
  if (status.ok()) {
    status = WriteOutput("-", options.json ? AsJson(options, *result) : AsText(options, *result));
  }
  if (status.ok()) return kExitOk;
  LogError(status);
  return kExitUnusable;
}

}  // namespace

Command AddRoofline(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "roofline",
      "Bytes, flops and time of each operation of a step, beside the least time that this device's "
      "measured read bandwidth and GEMM rate allow.");
  const auto options = std::make_shared<RooflineOptions>();
  command->add_option("--sequences", options->sequences, "Sequences in the step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--context", options->context, "Tokens before the step; of a prefill, in it")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_flag("--prefill", options->prefill, "A step that is whole prompts, not decoding");
  command->add_option("--steps", options->steps, "Steps that are averaged")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "As one JSON object");
  command->add_option("--svg", options->svg, "Draws a picture to this file");
  AddModelOrShapeOptions(*command, options->model);
  return {command, [options] { return RunRoofline(*options); }};
}

}  // namespace isobit
