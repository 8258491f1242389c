#include "runtime/engine/sequence.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "kernels/numerics/contract_version.h"
#include "kernels/numerics/sampling.h"

namespace isobit {

float EffectiveTemperature(const SamplingParams& params) {
  return static_cast<float>(params.temperature);
}

bool IsGreedy(const SamplingParams& params) { return IsGreedy(EffectiveTemperature(params)); }

void AddRequestTo(DigestBuilder& digest, const Digest& model, const std::vector<int32_t>& prompt,
                  const SamplingParams& params, uint64_t seed, int sample_index) {
  digest.Add("isobit completion").Add(int64_t{kContractVersion}).Add(model).Add(prompt);
  digest.Add(params.max_tokens).Add(params.min_tokens);
  if (IsGreedy(params)) {
    digest.Add("greedy");
  } else {
    digest.Add("sampled").AddBits(EffectiveTemperature(params)).Add(params.top_k);
    digest.Add(params.top_p).Add(params.min_p);
    digest.AddUnsigned(seed).Add(int64_t{sample_index});
  }
  digest.Add(params.presence_penalty).Add(params.frequency_penalty).Add(params.repetition_penalty);
  // In the order of token ids: the order in which they were written decides nothing.
  auto bias = params.logit_bias;
  std::ranges::sort(bias);
  digest.Add(static_cast<int64_t>(bias.size()));
  for (const auto& [token, value] : bias) digest.Add(int64_t{token}).Add(value);
  digest.Add(static_cast<int64_t>(params.stop.size()));
  for (const std::string& stop : params.stop) digest.Add(stop);
  auto stop_ids = params.stop_token_ids;
  std::ranges::sort(stop_ids);
  digest.Add(stop_ids).Add(int64_t{params.ignore_eos});
}

Sequence::Sequence(int64_t id_in, int choice_in, const std::vector<int32_t>& prompt,
                   const SamplingParams& params, uint64_t seed, int64_t max_length,
                   const Tokenizer& tokenizer, const Digest& model_digest)
    : id(id_in),
      choice(choice_in),
      params_(params),
      seed_(seed),
      max_length_(max_length),
      penalised_(params.presence_penalty != 0 || params.frequency_penalty != 0 ||
                 params.repetition_penalty != 1),
      tokens_(prompt),
      prompt_size_(static_cast<int64_t>(prompt.size())),
      end_ids_(params.stop_token_ids),
      stream_(tokenizer),
      stops_(params.stop) {
  if (!params.ignore_eos) {
    const auto stop_ids = tokenizer.stop_ids();
    end_ids_.insert(end_ids_.end(), stop_ids.begin(), stop_ids.end());
  }
  std::ranges::sort(end_ids_);
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());

  for (const auto& [token, bias] : params.logit_bias) EditOf(token).bias = static_cast<float>(bias);
  if (params.repetition_penalty != 1) {
    for (int32_t token : prompt) EditOf(token).seen = 1;
  }
  if (params.min_tokens > 0) {
    for (int32_t token : end_ids_) EditOf(token);
  }
  AddRequestTo(digest_, model_digest, prompt, params, seed, choice);
}

LogitEdit& Sequence::EditOf(int32_t token) {
  const auto [it, inserted] = edit_of_token_.try_emplace(token, edits_.size());
  if (inserted) edits_.push_back({.token = token});
  return edits_[it->second];
}

bool Sequence::DrawsLast() const {
  return drawing > 0 && (length() - prompt_size_ >= params_.max_tokens || length() >= max_length_);
}

SamplingRow Sequence::NextRow(std::vector<LogitEdit>* edits) const {
  assert(drawing == 0 || DrawsAhead());
  SamplingRow row;
  row.temperature = EffectiveTemperature(params_);
  row.top_k =
      static_cast<int32_t>(std::min<int64_t>(params_.top_k, std::numeric_limits<int32_t>::max()));
  row.top_p_q32 = ProbabilityQ32(params_.top_p);
  row.min_p_q32 = ProbabilityQ32(params_.min_p);
  row.repetition_penalty = static_cast<float>(params_.repetition_penalty);
  row.frequency_penalty = static_cast<float>(params_.frequency_penalty);
  row.presence_penalty = static_cast<float>(params_.presence_penalty);
  row.seed = seed_;
  row.sample_index = static_cast<uint32_t>(choice);
  row.position = static_cast<uint64_t>(length());
  row.edit_begin = static_cast<int32_t>(edits->size());
  edits->insert(edits->end(), edits_.begin(), edits_.end());
  row.edit_end = static_cast<int32_t>(edits->size());
  if (length() - prompt_size_ < params_.min_tokens) {
    for (auto edit = edits->begin() + row.edit_begin; edit != edits->end(); ++edit) {
      if (std::ranges::binary_search(end_ids_, edit->token))
        edit->bias = -std::numeric_limits<float>::infinity();
    }
  }
  row.top_count = static_cast<int32_t>(params_.logprobs.value_or(0));
  row.processed = params_.logprobs && params_.logprobs_mode == LogProbsMode::kProcessed ? 1 : 0;
  return row;
}

void Sequence::NoteOutput(int32_t token) {
  if (!penalised_) return;
  LogitEdit& edit = EditOf(token);
  ++edit.output_count;
  edit.seen = 1;
}

std::string Sequence::Append(const SampledToken& drawn, std::vector<TokenLogProb> top) {
  assert(!finished_);
  tokens_.push_back(drawn.token);
  NoteOutput(drawn.token);
  digest_.Add(int64_t{drawn.token}).AddBits(drawn.logprob);
  drawn_logprobs_.push_back(drawn.logprob);
  if (params_.logprobs) {
    const bool processed = params_.logprobs_mode == LogProbsMode::kProcessed;
    logprobs_.push_back(
        {drawn.token, processed ? drawn.processed_logprob : drawn.logprob, std::move(top)});
  }

  if (std::ranges::binary_search(end_ids_, drawn.token)) return Finish(FinishReason::kStop);
  std::string text = Deliver(stream_.Push(drawn.token), false);
  if (finished_) return text;
  if (output_size() >= params_.max_tokens || size() >= max_length_)
    text += Finish(FinishReason::kLength);
  return text;
}

std::string Sequence::Deliver(const std::string& text, bool last) {
  std::string ready;
  // Up to min_tokens a stop string is text like any other.
  if (output_size() < params_.min_tokens) {
    ready = text;
  } else {
    StopStrings::Result result = stops_.Push(text);
    ready = std::move(result.text);
    if (last && !result.stop_index) {
      result = stops_.Finish();
      ready += result.text;
    }
    if (result.stop_index) finished_ = FinishReason::kStop;
  }
  text_ += ready;
  return ready;
}

std::string Sequence::Finish(FinishReason reason) {
  std::string text = Deliver(stream_.Finish(), true);
  if (!finished_) finished_ = reason;
  return text;
}

const TokenLogProbs* Sequence::last_logprobs() const {
  return logprobs_.empty() ? nullptr : &logprobs_.back();
}

Choice Sequence::TakeChoice() {
  assert(finished_);
  Choice choice_out;
  choice_out.index = choice;
  choice_out.text = std::move(text_);
  choice_out.token_ids.assign(tokens_.begin() + prompt_size_, tokens_.end());
  choice_out.finish_reason = *finished_;
  if (params_.logprobs) choice_out.logprobs = std::move(logprobs_);
  choice_out.digest = digest_.Finish();
  return choice_out;
}

}  // namespace isobit
