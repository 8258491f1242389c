#include "runtime/engine/request.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

template <typename T>
absl::Status MustBe(const char* name, const char* range, const T& got) {
  return absl::InvalidArgumentError(absl::StrCat(name, " must be ", range, ", got ", got));
}

// Comparisons are written so that NaN fails.
absl::Status ValidateNumbers(const SamplingParams& p) {
  if (p.max_tokens < 0) return MustBe("max_tokens", ">= 0", p.max_tokens);
  if (p.min_tokens < 0) return MustBe("min_tokens", ">= 0", p.min_tokens);
  if (p.min_tokens > p.max_tokens) {
    return MustBe("min_tokens", absl::StrCat("<= max_tokens (", p.max_tokens, ")").c_str(),
                  p.min_tokens);
  }
  if (!(p.temperature >= 0)) return MustBe("temperature", ">= 0", p.temperature);
  // Logits divided by less could leave the range of fp32.
  if (p.temperature > 0 && !(p.temperature >= 1e-3 && p.temperature <= 1e6)) {
    return MustBe("temperature", "0 or in [0.001, 1000000]", p.temperature);
  }
  if (p.top_k < 0) return MustBe("top_k", ">= 0 (0: off)", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) return MustBe("top_p", "in (0, 1]", p.top_p);
  if (!(p.min_p >= 0 && p.min_p <= 1)) return MustBe("min_p", "in [0, 1]", p.min_p);
  if (p.n < 1 || p.n > kMaxCompletions) {
    return MustBe("n", absl::StrCat("in [1, ", kMaxCompletions, "]").c_str(), p.n);
  }
  if (!(std::fabs(p.presence_penalty) <= 2))
    return MustBe("presence_penalty", "in [-2, 2]", p.presence_penalty);
  if (!(std::fabs(p.frequency_penalty) <= 2))
    return MustBe("frequency_penalty", "in [-2, 2]", p.frequency_penalty);
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= 100)) {
    return MustBe("repetition_penalty", "in (0, 100]", p.repetition_penalty);
  }
  return absl::OkStatus();
}

absl::Status ValidateLists(const SamplingParams& p, int64_t vocab_size) {
  std::set<int32_t> biased;
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return MustBe("a token of logit_bias", absl::StrCat("in [0, ", vocab_size, ")").c_str(),
                    token);
    }
    if (!(std::fabs(bias) <= 100)) return MustBe("a value of logit_bias", "in [-100, 100]", bias);
    if (!biased.insert(token).second) return MustBe("a token of logit_bias", "there once", token);
  }
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return absl::InvalidArgumentError("stop must not hold an empty text");
  }
  for (int32_t token : p.stop_token_ids) {
    if (token < 0 || token >= vocab_size) {
      return MustBe("an id of stop_token_ids", absl::StrCat("in [0, ", vocab_size, ")").c_str(),
                    token);
    }
  }
  for (const auto& [name, value] :
       {std::pair{"logprobs", p.logprobs}, {"prompt_logprobs", p.prompt_logprobs}}) {
    if (value && (*value < 0 || *value > kMaxTopLogProbs)) {
      return MustBe(name, absl::StrCat("in [0, ", kMaxTopLogProbs, "]").c_str(), *value);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab_size) {
  if (absl::Status s = ValidateNumbers(params); !s.ok()) return s;
  return ValidateLists(params, vocab_size);
}

absl::Status CheckTokenIds(std::span<const int32_t> ids, int64_t vocab_size,
                           std::string_view name) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return MustBe(absl::StrCat(std::string(name), "[", i, "]").c_str(),
                  absl::StrCat("in [0, ", vocab_size, ")").c_str(), ids[i]);
  }
  return absl::OkStatus();
}

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace isobit
