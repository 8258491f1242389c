// isobit bench: prefill and decode speed, beside the machine's ceiling.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/json_writer.h"
#include "tools/isobit/ceilings.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/output_file.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  ModelOptions model;
  bool json = false;
  int repeat = 3;
  int64_t prefill_tokens = 512;
  int64_t decode_tokens = 64;
  int64_t together = 32;
};

constexpr int64_t kDecodePrompt = 8;

struct Spread {
  double median = 0, lowest = 0, highest = 0;
};

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

struct BenchResult {
  Spread decode, prefill, together;  // tokens a second
  double read_bandwidth = 0;         // bytes a second; 0: not measured
  int64_t decode_bytes = 0;          // read for one token at batch 1
  BackendCounters counters;
};

// When tokens came, of several requests that run together.
class TokenTimes {
 public:
  explicit TokenTimes(size_t requests) : times_(requests) {}

  std::function<void(const TokenEvent&)> Listener(size_t request) {
    return [this, request](const TokenEvent&) {
      const std::lock_guard lock(mutex_);
      times_[request].push_back(Clock::now());
    };
  }

  // Tokens a second from the moment when every request had its first token. After the end only.
  double DecodeRate() const {
    Clock::time_point begin = Clock::time_point::min(), end = begin;
    for (const auto& times : times_) {
      begin = std::max(begin, times.front());
      end = std::max(end, times.back());
    }
    double tokens = 0;
    for (const auto& times : times_) {
      tokens += static_cast<double>(
          std::count_if(times.begin(), times.end(), [begin](auto time) { return time > begin; }));
    }
    return tokens / std::chrono::duration<double>(end - begin).count();
  }

  // Prompt tokens a second up to the first token. After the end only.
  double PrefillRate(Clock::time_point begin, int64_t tokens) const {
    return static_cast<double>(tokens) /
           std::chrono::duration<double>(times_.front().front() - begin).count();
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<Clock::time_point>> times_;
};

Request BenchRequest(const Model& model, int64_t prompt_tokens, int64_t max_tokens, int64_t salt) {
  Request request;
  request.id = "bench";
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < prompt_tokens; ++i) {
    ids.push_back(static_cast<int32_t>((i * 7919 + salt * 104729 + 17) % model.config().vocab));
  }
  request.prompt = std::move(ids);
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  return request;
}

// Runs `count` requests together and gives back when their tokens came.
absl::Status RunTogether(Engine& engine, int64_t count, int64_t prompt_tokens, int64_t max_tokens,
                         TokenTimes& times) {
  std::mutex mutex;
  absl::Status status;
  for (int64_t i = 0; i < count; ++i) {
    RequestCallbacks callbacks;
    callbacks.on_token = times.Listener(static_cast<size_t>(i));
    callbacks.on_done = [&mutex, &status](const absl::StatusOr<Completion>& result) {
      const std::lock_guard lock(mutex);
      status.Update(result.status());
    };
    const absl::StatusOr<RequestHandle> handle =
        engine.Submit(BenchRequest(engine.model(), prompt_tokens, max_tokens, i), callbacks);
    if (!handle.ok()) {
      engine.Drain();
      return handle.status();
    }
  }
  engine.Drain();
  return status;
}

absl::Status MeasureDecode(Engine& engine, int64_t count, const BenchOptions& options,
                           Spread& out) {
  std::vector<double> rates;
  for (int i = 0; i <= options.repeat; ++i) {
    TokenTimes times(static_cast<size_t>(count));
    const absl::Status status =
        RunTogether(engine, count, kDecodePrompt, options.decode_tokens, times);
    if (!status.ok()) return status;
    if (i > 0) rates.push_back(times.DecodeRate());  // the first warms up
  }
  out = SpreadOf(std::move(rates));
  return absl::OkStatus();
}

absl::Status MeasurePrefill(Engine& engine, const BenchOptions& options, Spread& out) {
  std::vector<double> rates;
  for (int i = 0; i <= options.repeat; ++i) {
    TokenTimes times(1);
    const Clock::time_point begin = Clock::now();
    const absl::Status status = RunTogether(engine, 1, options.prefill_tokens, 1, times);
    if (!status.ok()) return status;
    if (i > 0) rates.push_back(times.PrefillRate(begin, options.prefill_tokens));
  }
  out = SpreadOf(std::move(rates));
  return absl::OkStatus();
}

// Weights and keys and values that one decoded token reads, at the mean context of the run.
int64_t DecodeBytes(const Model& model, const BenchOptions& options) {
  const ModelConfig& c = model.config();
  // Of an embedding that is not the output matrix too, one row is read.
  const int64_t unread = c.tied_embedding ? 0 : (c.vocab - 1) * c.width * int64_t{sizeof(Bf16)};
  return model.weight_bytes() - unread +
         (kDecodePrompt + options.decode_tokens / 2) * c.KvBytesPerToken();
}

absl::StatusOr<BenchResult> Measure(Engine& engine, const BenchOptions& options) {
  const DeviceInfo device = engine.model().backend().Info();
  BenchResult result;
  absl::Status status = MeasureDecode(engine, 1, options, result.decode);
  if (status.ok()) status = MeasurePrefill(engine, options, result.prefill);
  if (status.ok()) status = MeasureDecode(engine, options.together, options, result.together);
  if (!status.ok()) return status;
  result.counters = engine.model().backend().Counters();
  result.decode_bytes = DecodeBytes(engine.model(), options);
  const absl::StatusOr<double> bandwidth = MeasureReadBandwidth(device);
  if (!bandwidth.ok()) return bandwidth.status();
  result.read_bandwidth = *bandwidth;
  return result;
}

double ShareOfBandwidth(const BenchResult& result) {
  return result.decode.median * static_cast<double>(result.decode_bytes) / result.read_bandwidth;
}

void WriteSpread(const Spread& spread, JsonWriter& out) {
  out.BeginObject().Field("median", spread.median).Field("lowest", spread.lowest);
  out.Field("highest", spread.highest).EndObject();
}

std::string AsJson(const Engine& engine, const BenchOptions& options, const BenchResult& result) {
  const DeviceInfo device = engine.model().backend().Info();
  JsonWriter out;
  out.BeginObject();
  out.Field("build", kBuildName).Field("model", engine.model().config().name);
  out.Field("device", device.kind).Field("instructions", device.instructions);
  out.Field("threads", device.threads).Field("repeat", options.repeat);
  WriteSpread(result.decode, out.Key("decode_tokens_per_second"));
  out.Field("prefill_tokens", options.prefill_tokens);
  WriteSpread(result.prefill, out.Key("prefill_tokens_per_second"));
  out.Field("together", options.together);
  WriteSpread(result.together, out.Key("together_tokens_per_second"));
  out.Field("decode_bytes_per_token", result.decode_bytes);
  if (result.read_bandwidth > 0) {
    out.Field("read_bytes_per_second", result.read_bandwidth);
    out.Field("decode_share_of_bandwidth", ShareOfBandwidth(result));
  }
  out.Field("gemm_tiles", result.counters.gemm_tiles);
  out.Field("gemm_tiles_exact", result.counters.gemm_tiles_exact);
  out.Field("attention_tiles", result.counters.attention_tiles);
  out.Field("attention_tiles_exact", result.counters.attention_tiles_exact);
  return out.EndObject().Take() + "\n";
}

std::string Row(const std::string& name, const Spread& spread, const std::string& note) {
  return absl::StrFormat("%-24s %9.1f tok/s   (%.1f to %.1f)   %s\n", name, spread.median,
                         spread.lowest, spread.highest, note);
}

std::string AsText(const BenchOptions& options, const BenchResult& result) {
  std::string decode_note =
      absl::StrFormat("%.1f MB a token", static_cast<double>(result.decode_bytes) * 1e-6);
  if (result.read_bandwidth > 0) {
    absl::StrAppendFormat(&decode_note, ": %.1f GB/s, %.0f%% of the %.1f that memory gives",
                          result.decode.median * static_cast<double>(result.decode_bytes) * 1e-9,
                          100 * ShareOfBandwidth(result), result.read_bandwidth * 1e-9);
  }
  const BackendCounters& c = result.counters;
  return absl::StrCat(
      Row("decode", result.decode, decode_note),
      Row(absl::StrCat("prefill of ", options.prefill_tokens), result.prefill, ""),
      Row(absl::StrCat("decode, ", options.together, " at once"), result.together,
          absl::StrFormat("%.2fx one", result.together.median / result.decode.median)),
      absl::StrFormat("exact path: %d of %d GEMM tiles, %d of %d attention tiles\n",
                      c.gemm_tiles_exact, c.gemm_tiles, c.attention_tiles_exact,
                      c.attention_tiles));
}

ExitCode RunBench(BenchOptions options) {
  options.model.no_prefix_cache = true;  // every prefill is one
  options.model.engine.audit_share = 0;
  ExitCode exit_code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, exit_code);
  if (engine == nullptr) return exit_code;
  options.together = std::min(options.together, engine->options().max_num_seqs);
  const absl::StatusOr<BenchResult> result = Measure(*engine, options);
  absl::StatusOr<OutputFile> output = OutputFile::Open("-");
  absl::Status status = result.status();
  if (status.ok()) status = output.status();
  if (status.ok()) {
    status =
        output->Append(options.json ? AsJson(*engine, options, *result) : AsText(options, *result));
  }
  if (status.ok()) return kExitOk;
  LogError(status);
  return kExitUnusable;
}

}  // namespace

Command AddBench(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "bench",
      "Speed of decoding one request, of prefill, and of many requests at once, beside the read "
      "bandwidth of memory. Medians of several runs.");
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
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunBench(*options); }};
}

}  // namespace isobit
