#ifndef ISOBIT_RUNTIME_API_OPENAI_REPLY_H_
#define ISOBIT_RUNTIME_API_OPENAI_REPLY_H_

// Answers in the format of OpenAI's API, with vLLM's additions and, in every answer, the seed that
// was used and the digests.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/api/json_writer.h"
#include "runtime/api/openai_logprobs.h"
#include "runtime/api/openai_request.h"
#include "runtime/api/reply_format.h"
#include "runtime/model/model.h"

namespace isobit {

class OpenAiReply : public ReplyFormat {
 public:
  // `requests` are those that the answer is to, at least one. `model` has their tokenizer.
  OpenAiReply(ReplyIdentity identity, OpenAiReplyOptions options,
              const std::vector<Request>& requests, std::shared_ptr<const Model> model);

  std::string Body(const std::vector<Completion>& completions) override;
  void OnToken(const StreamedToken& token, std::vector<std::string>& events) override;
  void OnDone(size_t prompt, const Completion& completion,
              std::vector<std::string>& events) override;
  void OnEnd(const std::vector<Completion>& completions, std::vector<std::string>& events) override;

 private:
  // How much of a choice was streamed.
  struct Progress {
    bool begun = false;
    size_t text_bytes = 0;
    int64_t characters = 0;  // of the text before the next token
  };

  size_t IndexOf(size_t prompt, int choice) const;
  JsonWriter Begin(const char* object, const Digest& model_digest);
  void WriteText(const char* chat_name, const std::string& text, bool first, JsonWriter& out) const;
  void WriteLogProbs(std::span<const TokenLogProbs> positions, int64_t& characters,
                     JsonWriter& out) const;
  void WriteUsage(const std::vector<Completion>& completions, JsonWriter& out) const;
  void WriteChoice(size_t prompt, const Choice& choice, const Completion& completion,
                   JsonWriter& out) const;
  // A streamed chunk, open in its list of choices, or in the one choice that it has.
  JsonWriter BeginChunk(const Digest& model_digest);
  JsonWriter BeginChunkOf(size_t index, const Digest& model_digest);
  // Closes that choice and the list; the chunk stays open.
  void EndChunkChoice(JsonWriter& out) const;
  // Writes what stands before the first token of a choice, if this is the first event.
  void BeginChoice(size_t index, const Digest& model_digest, std::vector<std::string>& events);
  std::string TextChunk(size_t index, const std::string& text, const Digest& model_digest,
                        bool first);

  const ReplyIdentity identity_;
  const OpenAiReplyOptions options_;
  const std::string id_;  // as answers have it
  const std::shared_ptr<const Model> model_;
  const OpenAiLogProbs logprobs_;
  const size_t n_;
  std::vector<std::string> echoed_;  // by prompt, if asked for
  std::vector<Progress> progress_;   // by choice
  // Of the model of the last chunk; weights can change between two.
  std::optional<Digest> fingerprint_of_;
  std::string fingerprint_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_OPENAI_REPLY_H_
