// Reading completions.

#include <optional>
#include <string>
#include <vector>

#include "runtime/api/c/handles.h"
#include "runtime/api/c/isobit.h"
#include "runtime/api/c/marshal.h"
#include "runtime/api/c/status.h"
#include "runtime/api/completion_json.h"
#include "runtime/receipt/receipt.h"

namespace isobit::c {
namespace {

using Positions = std::optional<std::vector<TokenLogProbs>>;

absl::StatusOr<const Choice*> ChoiceOf(const isobit_completion* completion, int32_t choice) {
  if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return s;
  const std::vector<Choice>& choices = completion->record->completion.choices;
  if (choice < 0 || static_cast<size_t>(choice) >= choices.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("choice must be in [0, ", choices.size(), "), got ", choice));
  }
  return &choices[static_cast<size_t>(choice)];
}

absl::Status NotAskedFor(const char* what) {
  return absl::FailedPreconditionError(absl::StrCat("the request did not ask for ", what));
}

isobit_status WriteTop(const Positions& positions, const char* name, size_t position,
                       isobit_token_logprob* top, size_t capacity, size_t* count) {
  if (!positions.has_value()) return Report(NotAskedFor(name));
  if (position >= positions->size() || (*positions)[position].token_id < 0) {
    return Report(
        absl::InvalidArgumentError(absl::StrCat("position ", position, " has no log-probability")));
  }
  const std::vector<TokenLogProb>& from = (*positions)[position].top;
  return WriteArray(
      from.size(),
      [&](size_t i) {
        return isobit_token_logprob{from[i].token, from[i].logprob};
      },
      top, capacity, count);
}

int32_t ReasonOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return ISOBIT_FINISH_STOP;
    case FinishReason::kLength:
      return ISOBIT_FINISH_LENGTH;
    case FinishReason::kCancelled:
      return ISOBIT_FINISH_CANCELLED;
  }
  return ISOBIT_FINISH_CANCELLED;
}

}  // namespace
}  // namespace isobit::c

using namespace isobit::c;  // NOLINT(build/namespaces)

void isobit_completion_free(isobit_completion* completion) { delete completion; }

isobit_status isobit_completion_get_info(const isobit_completion* completion,
                                         isobit_completion_info* info, size_t struct_size) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return Report(s);
    const CompletionRecord& record = *completion->record;
    const isobit::Completion& from = record.completion;
    isobit_completion_info out = {};
    WriteDigest(from.digest.ToHex(), out.digest);
    WriteDigest(record.completion.model_digest.ToHex(), out.model_digest);
    out.seed = from.seed.value_or(0);
    out.has_seed = from.seed.has_value() ? 1 : 0;
    out.choice_count = static_cast<int32_t>(from.choices.size());
    out.prompt_token_count = static_cast<int64_t>(from.prompt_token_ids.size());
    out.cached_tokens = from.cached_tokens;
    out.has_prompt_logprobs = from.prompt_logprobs.has_value() ? 1 : 0;
    out.has_receipt = record.receipt ? 1 : 0;
    return WriteResult(out, info, struct_size);
  });
}

isobit_status isobit_completion_get_choice(const isobit_completion* completion, int32_t choice,
                                           isobit_choice_info* info, size_t struct_size) {
  return Guard([&]() -> isobit_status {
    const absl::StatusOr<const isobit::Choice*> from = ChoiceOf(completion, choice);
    if (!from.ok()) return Report(from.status());
    isobit_choice_info out = {};
    WriteDigest((*from)->digest.ToHex(), out.digest);
    out.finish_reason = ReasonOf((*from)->finish_reason);
    out.has_logprobs = (*from)->logprobs.has_value() ? 1 : 0;
    out.token_count = static_cast<int64_t>((*from)->token_ids.size());
    out.text_length = static_cast<int64_t>((*from)->text.size());
    return WriteResult(out, info, struct_size);
  });
}

isobit_status isobit_completion_text(const isobit_completion* completion, int32_t choice,
                                     char* text, size_t capacity, size_t* text_length) {
  return Guard([&]() -> isobit_status {
    const absl::StatusOr<const isobit::Choice*> from = ChoiceOf(completion, choice);
    if (!from.ok()) return Report(from.status());
    return WriteText((*from)->text, text, capacity, text_length);
  });
}

isobit_status isobit_completion_token_ids(const isobit_completion* completion, int32_t choice,
                                          int32_t* token_ids, size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    const absl::StatusOr<const isobit::Choice*> from = ChoiceOf(completion, choice);
    if (!from.ok()) return Report(from.status());
    const std::vector<int32_t>& ids = (*from)->token_ids;
    return WriteArray(
        ids.size(), [&](size_t i) { return ids[i]; }, token_ids, capacity, count);
  });
}

isobit_status isobit_completion_logprobs(const isobit_completion* completion, int32_t choice,
                                         float* logprobs, size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    const absl::StatusOr<const isobit::Choice*> from = ChoiceOf(completion, choice);
    if (!from.ok()) return Report(from.status());
    const Positions& tokens = (*from)->logprobs;
    if (!tokens.has_value()) return Report(NotAskedFor("logprobs"));
    return WriteArray(
        tokens->size(), [&](size_t i) { return (*tokens)[i].logprob; }, logprobs, capacity, count);
  });
}

isobit_status isobit_completion_top_logprobs(const isobit_completion* completion, int32_t choice,
                                             size_t position, isobit_token_logprob* top,
                                             size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    const absl::StatusOr<const isobit::Choice*> from = ChoiceOf(completion, choice);
    if (!from.ok()) return Report(from.status());
    return WriteTop((*from)->logprobs, "logprobs", position, top, capacity, count);
  });
}

isobit_status isobit_completion_prompt_token_ids(const isobit_completion* completion,
                                                 int32_t* token_ids, size_t capacity,
                                                 size_t* count) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return Report(s);
    const std::vector<int32_t>& ids = completion->record->completion.prompt_token_ids;
    return WriteArray(
        ids.size(), [&](size_t i) { return ids[i]; }, token_ids, capacity, count);
  });
}

isobit_status isobit_completion_prompt_logprobs(const isobit_completion* completion,
                                                float* logprobs, size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return Report(s);
    const Positions& tokens = completion->record->completion.prompt_logprobs;
    if (!tokens.has_value()) return Report(NotAskedFor("prompt_logprobs"));
    const size_t size = tokens->empty() ? 0 : tokens->size() - 1;
    return WriteArray(
        size, [&](size_t i) { return (*tokens)[i + 1].logprob; }, logprobs, capacity, count);
  });
}

isobit_status isobit_completion_prompt_top_logprobs(const isobit_completion* completion,
                                                    size_t position, isobit_token_logprob* top,
                                                    size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return Report(s);
    return WriteTop(completion->record->completion.prompt_logprobs, "prompt_logprobs", position,
                    top, capacity, count);
  });
}

isobit_status isobit_completion_json(const isobit_completion* completion, char* json,
                                     size_t capacity, size_t* length) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return Report(s);
    const CompletionRecord& record = *completion->record;
    return WriteText(isobit::CompletionToJson(record.completion), json, capacity, length);
  });
}

isobit_status isobit_completion_receipt(const isobit_completion* completion, char* json,
                                        size_t capacity, size_t* length) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return Report(s);
    const CompletionRecord& record = *completion->record;
    if (!record.receipt) return Report(NotAskedFor("a receipt"));
    const absl::StatusOr<isobit::Receipt> receipt =
        isobit::MakeReceipt("isobit " ISOBIT_VERSION, record.completion.model_name,
                            record.completion.model_digest, record.sampling, record.completion);
    if (!receipt.ok()) return Report(receipt.status());
    return WriteText(isobit::ReceiptToJson(*receipt), json, capacity, length);
  });
}
