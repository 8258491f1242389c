#include <algorithm>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/distribution.h"

namespace isobit::reference {

void Run(const ScoreTokens& op) {
  for (int64_t r = 0; r < op.rows; ++r) {
    const float* logits = op.logits + r * op.vocab;
    TokenLogProb* top = op.top + r * op.top_count;
    std::vector<float> z(logits, logits + op.vocab);
    if (!IsDistribution(z)) {
      op.logprob[r] = CanonicalNan();
      std::fill_n(top, op.top_count, TokenLogProb{});
      continue;
    }
    const Distribution d = MakeDistribution(std::move(z));
    const uint64_t total = d.TotalWeight();
    op.logprob[r] = LogProb(d.z[op.token[r]], d.max, total);
    WriteTop(d, total, op.top_count, top);
  }
}

}  // namespace isobit::reference
