#include "runtime/api/reply_format.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kernels/numerics/contract_version.h"

namespace isobit {

std::string SystemFingerprint(std::string_view build, const Digest& model_digest) {
  return absl::StrCat(absl::StrReplaceAll(std::string(build), {{" ", "-"}}), "-contract-",
                      kContractVersion, "-model-", model_digest.ToHex());
}

Digest DigestOf(const std::vector<Completion>& completions) {
  if (completions.size() == 1) return completions.front().digest;
  DigestBuilder digest;
  digest.Add("isobit completions");
  for (const Completion& completion : completions) digest.Add(completion.digest);
  return digest.Finish();
}

}  // namespace isobit
