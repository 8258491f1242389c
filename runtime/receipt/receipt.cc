#include "runtime/receipt/receipt.h"

#include <bit>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/numerics/contract_version.h"
#include "runtime/engine/sequence.h"
#include "runtime/receipt/atomic_file.h"

namespace isobit {
namespace {

// More than any receipt needs: tens of millions of tokens.
constexpr size_t kMaxReceiptBytes = size_t{1} << 30;

void DropAlternatives(std::optional<std::vector<TokenLogProbs>>& positions) {
  if (!positions.has_value()) return;
  for (TokenLogProbs& position : *positions) position.top.clear();
}

absl::Status Difference(const std::string& place, const std::string& recorded,
                        const std::string& replayed) {
  return absl::DataLossError(absl::StrCat(place, ": recorded ", recorded, ", replayed ", replayed));
}

// The shortest decimal and the bits: two numbers may differ in no digit that people look at.
std::string Describe(float value) {
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  return absl::StrFormat("%s (%08x)", std::string(digits, end.ptr), std::bit_cast<uint32_t>(value));
}

absl::Status CompareIds(const std::string& place, const std::vector<int32_t>& recorded,
                        const std::vector<int32_t>& replayed, size_t i) {
  if (recorded[i] == replayed[i]) return absl::OkStatus();
  return Difference(absl::StrCat(place, "token ", i, ", id"), absl::StrCat(recorded[i]),
                    absl::StrCat(replayed[i]));
}

absl::Status CompareLogProbs(const std::string& place,
                             const std::optional<std::vector<TokenLogProbs>>& recorded,
                             const std::optional<std::vector<TokenLogProbs>>& replayed, size_t i) {
  if (!recorded.has_value()) return absl::OkStatus();
  if (!replayed.has_value() || replayed->size() <= i) {
    return Difference(absl::StrCat(place, "token ", i, ", logprob"),
                      Describe((*recorded)[i].logprob), "none");
  }
  const float a = (*recorded)[i].logprob, b = (*replayed)[i].logprob;
  if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) return absl::OkStatus();
  return Difference(absl::StrCat(place, "token ", i, ", logprob"), Describe(a), Describe(b));
}

// Token by token, so that the first difference in time is the one that is named.
absl::Status CompareTokens(const std::string& place, const std::vector<int32_t>& recorded_ids,
                           const std::vector<int32_t>& replayed_ids,
                           const std::optional<std::vector<TokenLogProbs>>& recorded_logprobs,
                           const std::optional<std::vector<TokenLogProbs>>& replayed_logprobs) {
  for (size_t i = 0; i < std::min(recorded_ids.size(), replayed_ids.size()); ++i) {
    absl::Status status = CompareIds(place, recorded_ids, replayed_ids, i);
    if (status.ok()) status = CompareLogProbs(place, recorded_logprobs, replayed_logprobs, i);
    if (!status.ok()) return status;
  }
  if (recorded_ids.size() != replayed_ids.size()) {
    return Difference(absl::StrCat(place, "number of tokens"), absl::StrCat(recorded_ids.size()),
                      absl::StrCat(replayed_ids.size()));
  }
  return absl::OkStatus();
}

absl::Status CompareChoice(const Choice& recorded, const Choice& replayed) {
  const std::string place = absl::StrCat("choice ", recorded.index, ", ");
  if (const absl::Status status = CompareTokens(place, recorded.token_ids, replayed.token_ids,
                                                recorded.logprobs, replayed.logprobs);
      !status.ok()) {
    return status;
  }
  if (recorded.finish_reason != replayed.finish_reason) {
    return Difference(place + "finish_reason", FinishReasonName(recorded.finish_reason),
                      FinishReasonName(replayed.finish_reason));
  }
  if (recorded.text != replayed.text) {
    return Difference(place + "text", absl::StrCat("\"", recorded.text, "\""),
                      absl::StrCat("\"", replayed.text, "\""));
  }
  if (recorded.digest != replayed.digest) {
    return Difference(place + "digest", recorded.digest.ToHex(), replayed.digest.ToHex());
  }
  return absl::OkStatus();
}

}  // namespace

void AskForReceipt(SamplingParams& params) {
  if (!params.logprobs.has_value()) params.logprobs = 0;
}

absl::StatusOr<Receipt> MakeReceipt(std::string build, std::string model_name,
                                    const Digest& model_digest, const SamplingParams& sampling,
                                    const Completion& completion) {
  Receipt receipt{std::move(build), kContractVersion, std::move(model_name),
                  model_digest,     sampling,         completion};
  receipt.sampling.seed = completion.seed;
  // Only the log-probability of each token itself is recorded.
  receipt.sampling.logprobs = 0;
  if (receipt.sampling.prompt_logprobs.has_value()) receipt.sampling.prompt_logprobs = 0;
  receipt.completion.cached_tokens = 0;
  DropAlternatives(receipt.completion.prompt_logprobs);
  for (Choice& choice : receipt.completion.choices) {
    if (choice.finish_reason == FinishReason::kCancelled) {
      return absl::FailedPreconditionError("a cancelled completion has no receipt");
    }
    if (!choice.logprobs.has_value()) {
      return absl::FailedPreconditionError("a receipt needs the log-probability of every token");
    }
    DropAlternatives(choice.logprobs);
  }
  return receipt;
}

absl::Status WriteReceipt(const std::string& path, const Receipt& receipt) {
  return WriteFileAtomically(path, ReceiptToJson(receipt));
}

absl::StatusOr<Receipt> ReadReceipt(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxReceiptBytes, "a receipt");
  if (!text.ok()) return text.status();
  absl::StatusOr<Receipt> receipt = ParseReceipt(*text);
  if (receipt.ok()) return receipt;
  return absl::Status(receipt.status().code(),
                      absl::StrCat(path, ": ", receipt.status().message()));
}

Request RequestOf(const Receipt& receipt) {
  return {receipt.completion.id, receipt.completion.prompt_token_ids, receipt.sampling};
}

absl::Status CheckReplayable(const Receipt& receipt, const Digest& model_digest) {
  if (receipt.contract != kContractVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "contract version: recorded ", receipt.contract, ", this build has ", kContractVersion));
  }
  if (receipt.model_digest != model_digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("model digest: recorded ", receipt.model_digest.ToHex(), " (",
                     receipt.model_name, "), this model has ", model_digest.ToHex()));
  }
  return absl::OkStatus();
}

absl::Status CheckIntact(const Receipt& receipt) {
  const Completion& completion = receipt.completion;
  if (static_cast<int64_t>(completion.choices.size()) != receipt.sampling.n) {
    return absl::DataLossError(absl::StrCat("the receipt was changed: n is ", receipt.sampling.n,
                                            ", but there are ", completion.choices.size(),
                                            " choices"));
  }
  DigestBuilder choices;
  choices.Add("isobit choices");
  for (const Choice& choice : completion.choices) {
    choices.Add(choice.digest);
    if (receipt.sampling.logprobs_mode == LogProbsMode::kProcessed) continue;
    DigestBuilder builder;
    AddRequestTo(builder, receipt.model_digest, completion.prompt_token_ids, receipt.sampling,
                 receipt.sampling.seed.value_or(0), choice.index);
    for (const TokenLogProbs& token : *choice.logprobs) {
      builder.Add(int64_t{token.token_id}).AddBits(token.logprob);
    }
    const Digest digest = builder.Finish();
    if (digest == choice.digest) continue;
    return absl::DataLossError(absl::StrCat("the receipt was changed: choice ", choice.index,
                                            ", digest: recorded ", choice.digest.ToHex(),
                                            ", its fields give ", digest.ToHex()));
  }
  const Digest digest = choices.Finish();
  if (digest == completion.digest) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the receipt was changed: digest: recorded ",
                                          completion.digest.ToHex(), ", its choices give ",
                                          digest.ToHex()));
}

absl::Status CompareToken(int choice, size_t index, const TokenLogProbs& recorded,
                          const TokenLogProbs& replayed) {
  const std::string place = absl::StrCat("choice ", choice, ", token ", index, ", ");
  if (recorded.token_id != replayed.token_id) {
    return Difference(place + "id", absl::StrCat(recorded.token_id),
                      absl::StrCat(replayed.token_id));
  }
  if (std::bit_cast<uint32_t>(recorded.logprob) == std::bit_cast<uint32_t>(replayed.logprob)) {
    return absl::OkStatus();
  }
  return Difference(place + "logprob", Describe(recorded.logprob), Describe(replayed.logprob));
}

absl::Status Compare(const Receipt& receipt, const Completion& replayed) {
  const Completion& recorded = receipt.completion;
  if (const absl::Status status =
          CompareTokens("prompt ", recorded.prompt_token_ids, replayed.prompt_token_ids,
                        recorded.prompt_logprobs, replayed.prompt_logprobs);
      !status.ok()) {
    return status;
  }
  if (recorded.choices.size() != replayed.choices.size()) {
    return Difference("number of choices", absl::StrCat(recorded.choices.size()),
                      absl::StrCat(replayed.choices.size()));
  }
  for (size_t i = 0; i < recorded.choices.size(); ++i) {
    const absl::Status status = CompareChoice(recorded.choices[i], replayed.choices[i]);
    if (!status.ok()) return status;
  }
  if (recorded.digest != replayed.digest) {
    return Difference("digest", recorded.digest.ToHex(), replayed.digest.ToHex());
  }
  return absl::OkStatus();
}

}  // namespace isobit
