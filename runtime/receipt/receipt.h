#ifndef ISOBIT_RUNTIME_RECEIPT_RECEIPT_H_
#define ISOBIT_RUNTIME_RECEIPT_RECEIPT_H_

// A receipt: one JSON file with all that it takes to run a request again and to say where, if
// anywhere, the bits differ.
//
// format.md beside this file describes every field. In short:
//
//   {"format": "isobit receipt", "version": 1, "build": "isobit 0.1.0", "contract": 1,
//    "model": {"name": text, "digest": hex},
//    "id": text, "digest": hex, "sampling": {every parameter, with the seed that was used},
//    "prompt_token_ids": [...], "prompt_logprobs": null or [null, -1.25, ...],
//    "choices": [{"index": 0, "finish_reason": "stop", "text": text, "token_ids": [...],
//                 "logprobs": [-0.5, ...], "digest": hex}]}
//
// Log-probabilities have the digits that give back their fp32 bits; -infinity is null. Alternatives
// (top) are not recorded.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/engine/request.h"
#include "runtime/receipt/digest.h"

namespace isobit {

struct Receipt {
  std::string build;  // name and version of the program that wrote it, for people
  int contract = 0;
  std::string model_name;  // for people
  Digest model_digest;
  SamplingParams sampling;  // as they took effect: with the seed that was used
  Completion completion;    // as delivered; no alternatives, no cached_tokens
};

// Turns on what a receipt records beyond what was asked for: the log-probability of every token.
// No bit of the completion depends on it.
void AskForReceipt(SamplingParams& params);

// The receipt of a completion, for the sampling parameters of its request (after AskForReceipt).
// FailedPrecondition if it was cancelled: when that happens is not a function of the request.
absl::StatusOr<Receipt> MakeReceipt(std::string build, std::string model_name,
                                    const Digest& model_digest, const SamplingParams& sampling,
                                    const Completion& completion);

std::string ReceiptToJson(const Receipt& receipt);

// Strict: InvalidArgument names a field that is missing, unknown, or of another type, and lists
// that have not the same length.
absl::StatusOr<Receipt> ParseReceipt(std::string_view text);

// A file, written so that it is never seen half. Errors name the path.
absl::Status WriteReceipt(const std::string& path, const Receipt& receipt);
absl::StatusOr<Receipt> ReadReceipt(const std::string& path);

// The request that gives the same completion again.
Request RequestOf(const Receipt& receipt);

// OK if this model under this build's contract can be expected to give the same bits; otherwise
// FailedPrecondition with both values.
absl::Status CheckReplayable(const Receipt& receipt, const Digest& model_digest);

// OK if the receipt's digests belong to its other fields, so that none was changed since it was
// written; otherwise DataLoss that names the digest. Needs no model. The digest of a choice covers
// raw log-probabilities; where processed ones are recorded, only the digest over the choices is
// checked.
absl::Status CheckIntact(const Receipt& receipt);

// OK if the completion of RequestOf(receipt) has the recorded bits; otherwise DataLoss with the
// first difference: "choice 0, token 3, logprob: recorded -0.5 (bf000000), replayed ...".
absl::Status Compare(const Receipt& receipt, const Completion& replayed);

// The same of one token of a choice.
absl::Status CompareToken(int choice, size_t index, const TokenLogProbs& recorded,
                          const TokenLogProbs& replayed);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_RECEIPT_RECEIPT_H_
