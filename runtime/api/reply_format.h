#ifndef ISOBIT_RUNTIME_API_REPLY_FORMAT_H_
#define ISOBIT_RUNTIME_API_REPLY_FORMAT_H_

// How the answer to a request reads: as one JSON document, or as a stream of them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/request.h"

namespace isobit {

// What every answer says about where it comes from.
struct ReplyIdentity {
  std::string id;       // of the request
  int64_t created = 0;  // seconds since 1970; for people
  std::string model;    // the name that it is served by
  std::string build;    // "isobit 0.1.0"
};

// Build, contract and model in one word: equal fingerprints and equal requests give equal digests.
std::string SystemFingerprint(std::string_view build, const Digest& model_digest);

// Of an answer to one or more prompts: the completion's if it is one.
Digest DigestOf(const std::vector<Completion>& completions);

// A TokenEvent that outlives its callback.
struct StreamedToken {
  size_t prompt = 0;  // which of the request's
  int choice = 0;     // of that prompt
  int32_t token_id = -1;
  std::string text;
  std::optional<TokenLogProbs> logprobs;
  Digest model_digest;
};

// One answer in the making. Either Body, or OnToken and OnDone as things happen and OnEnd at the
// end; each of these appends JSON texts, one an event. Not thread-safe.
class ReplyFormat {
 public:
  virtual ~ReplyFormat() = default;

  // `completions`: one a prompt.
  virtual std::string Body(const std::vector<Completion>& completions) = 0;

  virtual void OnToken(const StreamedToken& token, std::vector<std::string>& events) = 0;
  virtual void OnDone(size_t prompt, const Completion& completion,
                      std::vector<std::string>& events) = 0;
  virtual void OnEnd(const std::vector<Completion>& completions,
                     std::vector<std::string>& events) = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_REPLY_FORMAT_H_
