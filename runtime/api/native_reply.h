#ifndef ISOBIT_RUNTIME_API_NATIVE_REPLY_H_
#define ISOBIT_RUNTIME_API_NATIVE_REPLY_H_

// Answers to /generate and /score: the completions of `isobit batch` (completion_json.h).

#include <string>
#include <vector>

#include "runtime/api/reply_format.h"

namespace isobit {

// A completion; streamed, first {"index", "token_id", "text", "logprobs"} for each token.
class GenerateReply : public ReplyFormat {
 public:
  explicit GenerateReply(std::string build) : build_(std::move(build)) {}
  std::string Body(const std::vector<Completion>& completions) override;
  void OnToken(const StreamedToken& token, std::vector<std::string>& events) override;
  void OnDone(size_t prompt, const Completion& completion,
              std::vector<std::string>& events) override;
  void OnEnd(const std::vector<Completion>&, std::vector<std::string>&) override {}

 private:
  const std::string build_;
};

// {"id", "prompt_token_ids", "prompt_logprobs", "digest", "model_digest", "contract", "usage",
//  "system_fingerprint"}; the digest covers the log-probabilities.
class ScoreReply : public ReplyFormat {
 public:
  explicit ScoreReply(std::string build) : build_(std::move(build)) {}
  std::string Body(const std::vector<Completion>& completions) override;
  // A score is not streamed.
  void OnToken(const StreamedToken&, std::vector<std::string>&) override {}
  void OnDone(size_t, const Completion&, std::vector<std::string>&) override {}
  void OnEnd(const std::vector<Completion>&, std::vector<std::string>&) override {}

 private:
  const std::string build_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_NATIVE_REPLY_H_
