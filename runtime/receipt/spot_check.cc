#include "runtime/receipt/spot_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/numerics/philox.h"

namespace isobit {

std::vector<int64_t> PickTokens(int64_t count, double share, uint64_t seed) {
  const auto exact = static_cast<int64_t>(std::ceil(share * static_cast<double>(count)));
  const int64_t wanted = std::min(count, std::max<int64_t>(1, exact));
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  for (int64_t i = 0; i < wanted; ++i) {
    const uint64_t draw = DrawBits(seed, 0, static_cast<uint64_t>(i));
    const auto other = i + static_cast<int64_t>(draw % static_cast<uint64_t>(count - i));
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(other)]);
  }
  all.resize(static_cast<size_t>(wanted));
  std::ranges::sort(all);
  return all;
}

Request RedrawOf(const Receipt& receipt, size_t choice, std::vector<int64_t> at) {
  Request request = RequestOf(receipt);
  const Choice& recorded = receipt.completion.choices[choice];
  request.redraw = {.choice = recorded.index, .output = recorded.token_ids, .at = std::move(at)};
  return request;
}

absl::Status CompareRedrawn(const Receipt& receipt, size_t choice, int64_t index,
                            const SampledToken& again) {
  const bool processed = receipt.sampling.logprobs_mode == LogProbsMode::kProcessed;
  const Choice& recorded = receipt.completion.choices[choice];
  const auto i = static_cast<size_t>(index);
  return CompareToken(recorded.index, i, (*recorded.logprobs)[i],
                      {again.token, processed ? again.processed_logprob : again.logprob, {}});
}

}  // namespace isobit
