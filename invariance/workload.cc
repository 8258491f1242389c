#include "invariance/workload.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"

namespace isobit {
namespace {

// Texts in several scripts; what they say does not matter.
constexpr std::string_view kTexts[] = {
    "The capital of France is",
    "def fibonacci(n):\n    return",
    "Count: 1, 2, 3, 4,",
    "今天天气很好，",
    "Once upon a time there was a",
    "Explain to a child, in two sentences, why the sky is blue and the sunset is red.",
};

class Builder {
 public:
  Builder(const Model& model, const WorkloadSize& size) : model_(model), size_(size) {}

  absl::StatusOr<std::vector<PreparedRequest>> Build() {
    if (absl::Status s = AddTexts(); !s.ok()) return s;
    AddLengths();
    AddShared();
    return std::move(requests_);
  }

 private:
  SamplingParams Base() const {
    SamplingParams params;
    params.max_tokens = size_.output;
    params.temperature = 0;
    params.ignore_eos = true;
    params.logprobs = 1;
    return params;
  }

  // Clips the prompt so that it and its output fit the model.
  void Add(std::string_view kind, std::vector<int32_t> prompt, SamplingParams params) {
    const int64_t room = model_.max_positions();
    params.max_tokens = std::min(params.max_tokens, std::max<int64_t>(1, room / 4));
    const auto longest = static_cast<size_t>(std::max<int64_t>(1, room - params.max_tokens));
    if (prompt.size() > longest) prompt.resize(longest);
    PreparedRequest r;
    r.id = absl::StrCat(absl::string_view(kind.data(), kind.size()), " ", requests_.size());
    r.prompt = std::move(prompt);
    r.seed = 1000 + requests_.size();
    params.seed = r.seed;
    r.sampling = std::move(params);
    requests_.push_back(std::move(r));
  }

  absl::Status AddTexts() {
    std::vector<std::vector<int32_t>> prompts;
    for (std::string_view text : kTexts) {
      auto ids = model_.tokenizer().Encode(text);
      if (!ids.ok()) return ids.status();
      if (ids->empty()) {  // a vocabulary without bytes may lack a whole script
        SplitMix random(10);
        *ids = RandomTokens(random, 7, model_.config().vocab);
      }
      prompts.push_back(*std::move(ids));
    }
    const auto vocab = static_cast<int32_t>(model_.config().vocab);

    SamplingParams p = Base();
    p.logprobs = 5;
    p.prompt_logprobs = 3;
    Add("text", prompts[0], p);

    p = Base();
    p.temperature = 0.8;
    p.top_p = 0.9;
    p.logprobs = 2;
    Add("sampled", prompts[1], p);

    p = Base();
    p.temperature = 1;
    p.n = 3;
    p.prompt_logprobs = 0;
    Add("choices", prompts[2], p);

    p = Base();
    p.temperature = 1.3;
    p.top_k = 40;
    p.min_p = 0.02;
    p.repetition_penalty = 1.2;
    p.presence_penalty = 0.5;
    p.frequency_penalty = 0.25;
    p.logit_bias = {{vocab / 3, 2.0}, {vocab / 2, -100.0}};
    p.min_tokens = 3;
    p.logprobs = 3;
    p.logprobs_mode = LogProbsMode::kProcessed;
    Add("penalties", prompts[3], p);

    // A stop string of one letter: most outputs soon hold it, and where is decided by every bit.
    p = Base();
    p.temperature = 0.7;
    p.stop = {"e", "\n\n"};
    p.ignore_eos = false;
    Add("stop", prompts[4], p);

    p = Base();
    p.max_tokens = 2 * size_.output;
    Add("text", prompts[5], p);
    return absl::OkStatus();
  }

  // Around the sizes where tiles and pages end.
  void AddLengths() {
    const int64_t lengths[] = {1, size_.long_prompt, 17, 33, 15, 16, 64, 65, 129, 257};
    SplitMix random(11);
    const auto count = std::min<size_t>(static_cast<size_t>(size_.lengths), std::size(lengths));
    for (size_t i = 0; i < count; ++i) {
      SamplingParams p = Base();
      if (i % 2 == 1) p.prompt_logprobs = 1;
      if (i % 3 == 2) {
        p.temperature = 1;
        p.top_k = 5;
      }
      Add("length", RandomTokens(random, lengths[i], model_.config().vocab), p);
    }
  }

  // Chained prefixes; the last prompt is the one before it again, so that all of it is cached.
  void AddShared() {
    SplitMix random(12);
    const std::vector<int32_t> all = RandomTokens(random, size_.shared, model_.config().vocab);
    for (int64_t length : {size_.shared / 2 + 1, size_.shared, size_.shared}) {
      SamplingParams p = Base();
      p.max_tokens = std::max<int64_t>(1, size_.output / 2);
      Add("prefix", {all.begin(), all.begin() + length}, p);
    }
  }

  const Model& model_;
  const WorkloadSize size_;
  std::vector<PreparedRequest> requests_;
};

}  // namespace

absl::StatusOr<std::vector<PreparedRequest>> MakeWorkload(const Model& model,
                                                          const WorkloadSize& size) {
  return Builder(model, size).Build();
}

std::vector<PreparedRequest> MakeNoise(const Model& model, uint64_t seed, int64_t count,
                                       int64_t longest) {
  SplitMix random(seed);
  const int64_t room = model.max_positions();
  std::vector<PreparedRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    PreparedRequest r;
    r.id = absl::StrCat("noise ", i);
    SamplingParams& p = r.sampling;
    p.max_tokens = std::min<int64_t>(1 + random.Below(8), std::max<int64_t>(1, room / 4));
    p.temperature = 0.5 * static_cast<double>(random.Below(4));
    p.top_k = random.Below(3) == 0 ? 1 + random.Below(50) : 0;
    p.top_p = random.Below(2) == 0 ? 0.5 : 1;
    p.repetition_penalty = random.Below(3) == 0 ? 1.5 : 1;
    p.logprobs = random.Below(6);
    p.ignore_eos = true;
    p.seed = r.seed = random.Next();
    const int64_t most = std::min(longest, room - p.max_tokens);
    r.prompt = RandomTokens(random, 1 + random.Below(most), model.config().vocab);
    requests.push_back(std::move(r));
  }
  return requests;
}

PreparedRequest MakeLongPrompt(const Model& model, int64_t length, int64_t output) {
  SplitMix random(13);
  PreparedRequest r;
  r.id = absl::StrCat("prompt of ", length);
  r.prompt = RandomTokens(random, length, model.config().vocab);
  r.sampling.max_tokens = output;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  r.sampling.logprobs = 1;
  return r;
}

PreparedRequest MakeScoring(const PreparedRequest& request, const Outcome& decoded, int choice) {
  PreparedRequest r;
  r.id = request.id;
  r.prompt = decoded.completion.prompt_token_ids;
  const auto& out = decoded.completion.choices[static_cast<size_t>(choice)].token_ids;
  r.prompt.insert(r.prompt.end(), out.begin(), out.end());
  r.sampling.max_tokens = 0;
  r.sampling.temperature = 0;
  r.sampling.prompt_logprobs = *request.sampling.logprobs;
  return r;
}

}  // namespace isobit
