#ifndef ISOBIT_RUNTIME_ENGINE_AUDITOR_H_
#define ISOBIT_RUNTIME_ENGINE_AUDITOR_H_

// Audits a running engine: of the requests that finish, a random one now and then is computed
// again, by one prefill beside the others, and every token and log-probability is compared with
// what was delivered. A processor or memory that makes mistakes shows up while it serves.
//
// Cost: tokens are computed again only as far as `share` of the tokens computed so far pays for
// them, at any time. A token of a prefill costs no more than a decoded one, so `share` bounds the
// loss of throughput. What is found: mistakes that happen once. A fault that is there each time, as
// in a weight, repeats itself, and shows when a receipt from elsewhere is replayed.
//
// Not thread-safe: lives on the engine's thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/request.h"

namespace isobit {

// A choice of a finished request, as it was delivered.
struct AuditCandidate {
  std::string id;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  uint64_t seed = 0;
  Redraw redraw;                // all tokens of the choice
  std::vector<float> logprobs;  // of the logits as they left the model, one a token

  int64_t tokens() const {
    return static_cast<int64_t>(prompt.size()) + static_cast<int64_t>(redraw.output.size());
  }
};

// "id 5, logprob -0.5 (bf000000)": the shortest decimal and the bits.
std::string DescribeDrawn(int32_t token, float logprob);

class Auditor {
 public:
  // share: in [0, 1]; 0 audits nothing. Which requests are audited depends on the seed alone and
  // on what finishes.
  Auditor(double share, uint64_t seed) : share_(share), seed_(seed) {}

  bool enabled() const { return share_ > 0; }

  // A choice has finished, for which `computed` tokens were computed. True: it takes the place of
  // the one that would be audited next, and Take must follow.
  bool Note(int64_t computed);
  void Take(AuditCandidate candidate) { candidate_ = std::move(candidate); }

  // What is to be audited now, if anything. After it, Compare is called for every token and Finish
  // once.
  const AuditCandidate* Next();
  void Compare(int64_t index, const SampledToken& again);
  // False: the audit could not be finished (the engine is shutting down).
  void Finish(bool finished);

  int64_t audits() const { return audits_; }
  int64_t audited_tokens() const { return audited_tokens_; }
  int64_t differences() const { return differences_; }  // audits that found one
  // "r7, choice 0, token 12: delivered id 5, logprob -0.5 (bf000000); again id ...". Empty: none.
  const std::string& first_difference() const { return first_difference_; }

 private:
  const double share_;
  const uint64_t seed_;
  uint64_t draws_ = 0;
  double budget_ = 0;  // tokens that may be computed again
  uint64_t seen_ = 0;  // choices since the last audit began
  std::optional<AuditCandidate> candidate_, running_;
  bool differs_ = false;  // the running one

  int64_t audits_ = 0, audited_tokens_ = 0, differences_ = 0;
  std::string first_difference_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_AUDITOR_H_
