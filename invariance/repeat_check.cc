#include "invariance/repeat_check.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/workload.h"
#include "kernels/numerics/bf16.h"
#include "runtime/engine/auditor.h"

namespace isobit {
namespace {

constexpr int64_t kLongestPrompt = 200;
// Longer than the neighbours of other checks: their decoding is what is repeated here.
constexpr int64_t kOutput = 48;

std::vector<Request> RandomRequests(const Model& model, uint64_t seed, int64_t count) {
  const int64_t output = std::max<int64_t>(1, std::min(kOutput, model.max_positions() / 4));
  const int64_t prompt =
      std::max<int64_t>(1, std::min(kLongestPrompt, model.max_positions() - output));
  std::vector<Request> requests;
  for (PreparedRequest& random : MakeNoise(model, seed, count, prompt)) {
    random.prompt.resize(std::min(random.prompt.size(), static_cast<size_t>(prompt)));
    Request request = {.id = std::move(random.id),
                       .prompt = std::move(random.prompt),
                       .sampling = std::move(random.sampling)};
    request.sampling.max_tokens = output;
    request.sampling.logprobs_mode = LogProbsMode::kRaw;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace

absl::StatusOr<RepeatRound> RunTwice(Engine& engine, uint64_t seed, int64_t count) {
  RepeatRound round;
  std::vector<Request> requests = RandomRequests(engine.model(), seed, count);
  const std::vector<absl::StatusOr<Completion>> first = engine.Generate(requests);
  absl::Status status;  // this and the round are written by the engine's thread until Drain()
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!first[i].ok()) return first[i].status();
    const Choice& choice = first[i]->choices.front();
    ++round.requests;
    round.computed +=
        2 * static_cast<int64_t>(first[i]->prompt_token_ids.size() + choice.token_ids.size());
    Request& again = requests[i];
    again.redraw = {.choice = 0, .output = choice.token_ids, .at = {}};
    again.redraw->at.resize(choice.token_ids.size());
    std::iota(again.redraw->at.begin(), again.redraw->at.end(), 0);
    RequestCallbacks callbacks;
    callbacks.on_redrawn = [&round, &choice, id = again.id](int64_t index,
                                                            const SampledToken& token) {
      ++round.tokens;
      const TokenLogProbs& drawn = (*choice.logprobs)[static_cast<size_t>(index)];
      if (token.token == drawn.token_id && FloatBits(token.logprob) == FloatBits(drawn.logprob)) {
        return;
      }
      if (!round.first_difference.empty()) return;
      round.first_difference = absl::StrCat(id, ", token ", index, ": first ",
                                            DescribeDrawn(drawn.token_id, drawn.logprob),
                                            "; again ", DescribeDrawn(token.token, token.logprob));
    };
    callbacks.on_done = [&status](const absl::StatusOr<Completion>& done) {
      status.Update(done.status());
    };
    const auto handle = engine.Submit(std::move(again), std::move(callbacks));
    if (!handle.ok()) {
      engine.Drain();
      return handle.status();
    }
  }
  engine.Drain();
  if (!status.ok()) return status;
  return round;
}

}  // namespace isobit
