#include "runtime/api/c/parameters.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/api/c/marshal.h"
#include "runtime/api/c/status.h"

namespace isobit::c {
namespace {

absl::Status ReadLogProbs(int64_t value, const char* name, std::optional<int64_t>& out) {
  if (value < -1) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be >= -1 (off), got ", value));
  }
  if (value >= 0) out = value;
  return absl::OkStatus();
}

absl::Status ReadSamplingLists(const isobit_sampling_params& from, SamplingParams& out) {
  absl::Status status = CheckLength(from.logit_bias, from.logit_bias_count, "logit_bias");
  if (status.ok()) status = CheckLength(from.stop, from.stop_count, "stop");
  if (status.ok()) {
    status = ReadIds(from.stop_token_ids, from.stop_token_id_count, "stop_token_ids",
                     out.stop_token_ids);
  }
  if (!status.ok()) return status;
  for (size_t i = 0; i < from.logit_bias_count; ++i) {
    out.logit_bias.emplace_back(from.logit_bias[i].token_id, from.logit_bias[i].bias);
  }
  for (size_t i = 0; i < from.stop_count; ++i) {
    status = NotNull(from.stop[i], "a text of stop");
    if (!status.ok()) return status;
    out.stop.emplace_back(from.stop[i]);
  }
  return absl::OkStatus();
}

absl::Status ReadSampling(const isobit_sampling_params* params, SamplingParams& out) {
  isobit_sampling_params from = DefaultSamplingParams();
  if (absl::Status s = ReadStruct(params, "sampling", from); !s.ok()) return s;
  out.max_tokens = from.max_tokens;
  out.min_tokens = from.min_tokens;
  out.temperature = from.temperature;
  out.top_k = from.top_k;
  out.top_p = from.top_p;
  out.min_p = from.min_p;
  out.n = from.n;
  out.presence_penalty = from.presence_penalty;
  out.frequency_penalty = from.frequency_penalty;
  out.repetition_penalty = from.repetition_penalty;
  if (from.has_seed != 0) out.seed = from.seed;
  out.ignore_eos = from.ignore_eos != 0;
  switch (from.logprobs_mode) {
    case ISOBIT_LOGPROBS_RAW:
      out.logprobs_mode = LogProbsMode::kRaw;
      break;
    case ISOBIT_LOGPROBS_PROCESSED:
      out.logprobs_mode = LogProbsMode::kProcessed;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("logprobs_mode must be ISOBIT_LOGPROBS_RAW or ISOBIT_LOGPROBS_PROCESSED, "
                       "got ",
                       from.logprobs_mode));
  }
  if (absl::Status s = ReadLogProbs(from.logprobs, "logprobs", out.logprobs); !s.ok()) return s;
  absl::Status status = ReadLogProbs(from.prompt_logprobs, "prompt_logprobs", out.prompt_logprobs);
  if (!status.ok()) return status;
  return ReadSamplingLists(from, out);
}

absl::Status ReadPrompt(const isobit_request_params& from, Request& out) {
  const int given = (from.text != nullptr) + (from.token_ids != nullptr) +
                    (from.messages != nullptr) + (from.messages_json != nullptr);
  if (given != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a request has one of text, token_ids, messages and messages_json, got ", given));
  }
  if (from.messages != nullptr || from.messages_json != nullptr) return ReadConversation(from, out);
  for (const auto& [name, value] :
       {std::pair{"tools", from.tools}, {"chat_template_kwargs", from.chat_template_kwargs}}) {
    if (value != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(name, " must come with messages, got it with ",
                                                     from.text != nullptr ? "text" : "token_ids"));
    }
  }
  if (from.token_ids != nullptr) {
    return ReadIds(from.token_ids, from.token_id_count, "token_ids",
                   out.prompt.emplace<std::vector<int32_t>>());
  }
  return ReadText(from.text, from.text_length, "text", out.prompt.emplace<std::string>());
}

}  // namespace

isobit_engine_params DefaultEngineParams() {
  const EngineOptions engine;
  isobit_engine_params params = {};
  params.struct_size = sizeof(params);
  params.device = "auto";
  params.block_size = engine.block_size;
  params.prefix_cache = engine.prefix_cache ? 1 : 0;
  return params;
}

isobit_sampling_params DefaultSamplingParams() {
  const SamplingParams sampling;
  isobit_sampling_params params = {};
  params.struct_size = sizeof(params);
  params.max_tokens = sampling.max_tokens;
  params.temperature = sampling.temperature;
  params.top_p = sampling.top_p;
  params.n = sampling.n;
  params.repetition_penalty = sampling.repetition_penalty;
  params.logprobs = -1;
  params.prompt_logprobs = -1;
  return params;
}

absl::Status ReadEngineParams(const isobit_engine_params* params, DeviceOptions& device,
                              EngineOptions& options) {
  isobit_engine_params from = DefaultEngineParams();
  if (absl::Status s = ReadStruct(params, "params", from); !s.ok()) return s;
  if (from.device != nullptr) device.device = from.device;
  if (from.threads < 0 || from.threads > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads must be in [0, 1024], got ", from.threads));
  }
  device.cpu.threads = static_cast<int>(from.threads);
  options.max_model_len = from.max_model_len;
  options.max_num_seqs = from.max_num_seqs;
  options.max_num_batched_tokens = from.max_num_batched_tokens;
  options.block_size = from.block_size;
  options.kv_cache_tokens = from.kv_cache_tokens;
  options.prefix_cache = from.prefix_cache != 0;
  if (from.has_seed != 0) options.seed = from.seed;
  return absl::OkStatus();
}

absl::Status ReadIds(const int32_t* ids, size_t count, const char* name,
                     std::vector<int32_t>& out) {
  if (absl::Status s = CheckLength(ids, count, name); !s.ok()) return s;
  out.assign(ids, ids + count);
  return absl::OkStatus();
}

absl::StatusOr<Request> ReadRequest(const isobit_request_params& params) {
  Request request;
  if (params.id != nullptr) request.id = params.id;
  if (absl::Status s = ReadPrompt(params, request); !s.ok()) return s;
  if (absl::Status s = ReadSampling(params.sampling, request.sampling); !s.ok()) return s;
  return request;
}

}  // namespace isobit::c
