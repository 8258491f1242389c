#include "tools/isobit/sampling_options.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace isobit {

void AddSamplingOptions(CLI::App& command, SamplingOptions& options) {
  const std::string group = "Sampling";
  SamplingParams& p = options.params;
  command
      .add_option("-n,--max-tokens", options.max_tokens,
                  "Most tokens to generate (default 128, with --chat 1024)")
      ->group(group);
  command.add_option("--min-tokens", p.min_tokens, "No end before this many tokens")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--temperature,--temp", options.temperature,
                  "0: greedy, always the most likely token (default: the model's, or 1)")
      ->group(group);
  command
      .add_option("--top-k", options.top_k,
                  "Draw from the k most likely tokens (0: off; default: the model's, or 0)")
      ->group(group);
  command
      .add_option("--top-p", options.top_p,
                  "Draw from the smallest set with this probability (default: the model's, or 1)")
      ->group(group);
  command
      .add_option(
          "--min-p", options.min_p,
          "No token below this share of the largest probability (default: the model's, or 0)")
      ->group(group);
  command.add_option("--presence-penalty", p.presence_penalty, "Taken from tokens that occurred")
      ->capture_default_str()
      ->group(group);
  command.add_option("--frequency-penalty", p.frequency_penalty, "Taken once for each occurrence")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--repetition-penalty", options.repetition_penalty,
                  "Factor on tokens of prompt and output (default: the model's, or 1)")
      ->group(group);
  command.add_option("--logit-bias", options.logit_bias, "TOKEN:BIAS; may be given again")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--stop", p.stop, "Text that ends the output; may be given again")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--stop-token-ids", p.stop_token_ids,
                  "Token that ends the output; may be given again")
      ->allow_extra_args(false)
      ->group(group);
  command.add_flag("--ignore-eos", p.ignore_eos, "Go on behind the end-of-sequence token")
      ->group(group);
}

void Recommend(const GenerationDefaults& recommended, const SamplingOptions& options,
               SamplingParams& params) {
  const auto choose = [](const auto& given, const auto& model, auto& param) {
    if (!given) param = model.value_or(param);
  };
  choose(options.temperature, recommended.temperature, params.temperature);
  choose(options.top_k, recommended.top_k, params.top_k);
  choose(options.top_p, recommended.top_p, params.top_p);
  choose(options.min_p, recommended.min_p, params.min_p);
  choose(options.repetition_penalty, recommended.repetition_penalty, params.repetition_penalty);
}

absl::StatusOr<SamplingParams> SamplingOf(const SamplingOptions& options) {
  SamplingParams params = options.params;
  params.temperature = options.temperature.value_or(params.temperature);
  params.top_k = options.top_k.value_or(params.top_k);
  params.top_p = options.top_p.value_or(params.top_p);
  params.min_p = options.min_p.value_or(params.min_p);
  params.repetition_penalty = options.repetition_penalty.value_or(params.repetition_penalty);
  params.max_tokens = options.max_tokens.value_or(params.max_tokens);
  for (const std::string& text : options.logit_bias) {
    const size_t colon = text.find(':');
    int32_t token = 0;
    double bias = 0;
    if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(0, colon), &token) ||
        !absl::SimpleAtod(text.substr(colon + 1), &bias)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--logit-bias must be TOKEN:BIAS, got ", text));
    }
    params.logit_bias.emplace_back(token, bias);
  }
  return params;
}

}  // namespace isobit
