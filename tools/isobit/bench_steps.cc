#include "tools/isobit/bench_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/isobit/engine_timer.h"

namespace isobit {
namespace {

constexpr int64_t kSequences[] = {1, 8, 64};
constexpr int64_t kDecodeContext = 1024;
constexpr int64_t kPrefillTokens = 4096;
constexpr int64_t kRequestPrompt = 512, kRequestTokens = 256, kRequestsAtOnce = 256;

// Multiplications and additions of a token in the layers' GEMMs.
double LayerFlops(const Model& model) {
  const ModelConfig& c = model.config();
  const double weights = static_cast<double>(StepWeightBytes(model)) / sizeof(Bf16);
  return 2 * (weights - static_cast<double>(c.vocab * c.width));
}

double ReadSeconds(double bytes, const Ceilings& ceilings) {
  return bytes / ceilings.read_bytes_per_second;
}

// Starts an engine for so many sequences, runs the load that load_for gives for its options
// `repeat` times, and gives the model back.
template <typename LoadFor>
absl::StatusOr<std::vector<LoadTimes>> RunLoad(std::unique_ptr<Model>& model, EngineOptions options,
                                               int64_t sequences, int repeat,
                                               const LoadFor& load_for) {
  options.max_num_seqs = sequences;
  auto timer = EngineTimer::Create(std::move(model), options);
  if (!timer.ok()) return timer.status();
  const RequestLoad load = load_for((*timer)->core().options());
  std::vector<LoadTimes> runs;
  for (int i = 0; i < repeat; ++i) {
    auto times = (*timer)->Run(load);
    if (!times.ok()) return times.status();
    runs.push_back(*times);
  }
  model = EngineTimer::TakeModel(*std::move(timer));
  return runs;
}

// Sequences that all decode for so many steps.
RequestLoad DecodeLoad(int64_t sequences, int64_t steps, const EngineOptions& options) {
  // While the last prompts are prefilled, the first sequences decode already.
  const int64_t budget = std::max<int64_t>(options.max_num_batched_tokens - sequences, 1);
  const int64_t tokens = steps + 2 + sequences * kDecodeContext / budget;
  return {sequences, std::clamp<int64_t>(options.max_model_len - tokens, 1, kDecodeContext),
          tokens};
}

}  // namespace

int64_t StepWeightBytes(const Model& model) {
  const ModelConfig& c = model.config();
  const int64_t unread = c.tied_embedding ? 0 : (c.vocab - 1) * c.width * int64_t{sizeof(Bf16)};
  return model.weight_bytes() - unread;
}

absl::StatusOr<StepTimes> TimeSteps(std::unique_ptr<Model>& model, const EngineOptions& options,
                                    const Ceilings& ceilings, int64_t decode_tokens, int repeat) {
  const ModelConfig config = model->config();
  StepTimes result;
  for (const int64_t sequences : kSequences) {
    StepTimes::Decode decode = {.sequences = sequences};
    const auto runs = RunLoad(model, options, sequences, 1, [&](const EngineOptions& used) {
      const RequestLoad load = DecodeLoad(sequences, decode_tokens, used);
      decode.context = load.prompt_tokens + load.max_tokens / 2;
      return load;
    });
    if (!runs.ok()) return runs.status();
    const int64_t kv_bytes = sequences * decode.context * config.KvBytesPerToken();
    decode.floor = ReadSeconds(static_cast<double>(StepWeightBytes(*model) + kv_bytes), ceilings);
    decode.seconds = runs->front().decode_step;
    result.decode.push_back(decode);
  }

  EngineOptions whole = options;
  if (whole.max_num_batched_tokens == 0) whole.max_num_batched_tokens = kPrefillTokens;
  const auto runs = RunLoad(model, whole, 1, repeat + 1, [&](const EngineOptions& used) {
    result.prefill_tokens = std::min(kPrefillTokens, used.max_model_len - 1);
    return RequestLoad{1, result.prefill_tokens, 1};
  });
  if (!runs.ok()) return runs.status();
  std::vector<double> seconds;
  for (size_t i = 1; i < runs->size(); ++i) {  // the first warms up
    seconds.push_back((*runs)[i].first_token);
  }
  result.prefill_seconds = Median(std::move(seconds));
  result.prefill_floor =
      static_cast<double>(result.prefill_tokens) * LayerFlops(*model) / ceilings.flops_per_second;
  return result;
}

std::string StepTimes::Text() const {
  std::string out = "\nwhole steps                     ms     tok/s  floor ms   ratio\n";
  for (const Decode& d : decode) {
    absl::StrAppendFormat(&out, "decode %3d x %-6d      ", d.sequences, d.context);
    if (d.seconds > 0) {
      absl::StrAppendFormat(&out, "%10.3f %9.1f %9.3f %6.2fx\n", 1e3 * d.seconds,
                            static_cast<double>(d.sequences) / d.seconds, 1e3 * d.floor,
                            d.seconds / d.floor);
    } else {
      out += "  the KV pool does not hold them all\n";
    }
  }
  absl::StrAppendFormat(&out, "prefill of %-6d       %10.3f %9.1f %9.3f %6.2fx\n", prefill_tokens,
                        1e3 * prefill_seconds,
                        static_cast<double>(prefill_tokens) / prefill_seconds, 1e3 * prefill_floor,
                        prefill_seconds / prefill_floor);
  return out;
}

void StepTimes::WriteJson(JsonWriter& out) const {
  out.Key("steps").BeginObject().Key("decode").BeginArray();
  for (const Decode& d : decode) {
    out.BeginObject().Field("sequences", d.sequences).Field("context", d.context);
    out.Field("seconds", d.seconds).Field("floor_seconds", d.floor).EndObject();
  }
  out.EndArray().Field("prefill_tokens", prefill_tokens);
  out.Field("prefill_seconds", prefill_seconds);
  out.Field("prefill_floor_seconds", prefill_floor).EndObject();
}

absl::StatusOr<RequestTimes> TimeRequests(std::unique_ptr<Model>& model,
                                          const EngineOptions& options, const Ceilings& ceilings,
                                          int64_t requests) {
  RequestTimes result = {.requests = requests, .at_once = std::min(requests, kRequestsAtOnce)};
  const auto runs = RunLoad(model, options, result.at_once, 1, [&](const EngineOptions& used) {
    result.prompt_tokens = std::min(kRequestPrompt, used.max_model_len / 2);
    result.max_tokens = std::min(kRequestTokens, used.max_model_len / 4);
    return RequestLoad{requests, result.prompt_tokens, result.max_tokens};
  });
  if (!runs.ok()) return runs.status();
  result.seconds = runs->front().seconds;

  const double prompts = static_cast<double>(requests * result.prompt_tokens);
  const double outputs = static_cast<double>(requests * result.max_tokens);
  const int64_t kv_bytes =
      (result.prompt_tokens + result.max_tokens / 2) * model->config().KvBytesPerToken();
  const double output_bytes =
      static_cast<double>(StepWeightBytes(*model)) / static_cast<double>(result.at_once) +
      static_cast<double>(kv_bytes);
  result.floor = prompts * LayerFlops(*model) / ceilings.flops_per_second +
                 ReadSeconds(outputs * output_bytes, ceilings);
  return result;
}

std::string RequestTimes::Text() const {
  return absl::StrFormat(
      "\n%d requests, %d tokens in and %d out, up to %d at once: %.2f s, %.0f tok/s out, %.0f in "
      "and out; floor %.2f s, %.0f%%\n",
      requests, prompt_tokens, max_tokens, at_once, seconds,
      static_cast<double>(requests * max_tokens) / seconds,
      static_cast<double>(requests * (prompt_tokens + max_tokens)) / seconds, floor,
      100 * floor / seconds);
}

void RequestTimes::WriteJson(JsonWriter& out) const {
  out.Key("requests").BeginObject().Field("requests", requests);
  out.Field("prompt_tokens", prompt_tokens).Field("max_tokens", max_tokens);
  out.Field("at_once", at_once).Field("seconds", seconds).Field("floor_seconds", floor).EndObject();
}

}  // namespace isobit
