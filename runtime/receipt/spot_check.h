#ifndef ISOBIT_RUNTIME_RECEIPT_SPOT_CHECK_H_
#define ISOBIT_RUNTIME_RECEIPT_SPOT_CHECK_H_

// Checks some tokens of a receipt instead of running all of it again.
//
// One prefill over prompt and output, with the recorded tokens in their places, gives the logits
// behind every token; the chosen ones are drawn again from them. Because prefill and decoding give
// the same bits, each must come out as recorded, log-probability included. It costs a prefill and
// the chosen rows of logits, instead of a step a token. What is not drawn again is still covered by
// the receipt's own digests (CheckIntact), and by every later token that is drawn: all earlier ones
// are in its context.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/engine/request.h"
#include "runtime/receipt/receipt.h"

namespace isobit {

// A share of `count` tokens, at least one if there is one; ascending, by chance from the seed.
// REQUIRES: 0 <= share <= 1.
std::vector<int64_t> PickTokens(int64_t count, double share, uint64_t seed);

// Draws tokens of one choice again. REQUIRES: the choice has output.
Request RedrawOf(const Receipt& receipt, size_t choice, std::vector<int64_t> at);

// OK if the token came out as recorded; otherwise DataLoss that names place and values, as
// Compare does.
absl::Status CompareRedrawn(const Receipt& receipt, size_t choice, int64_t index,
                            const SampledToken& again);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_RECEIPT_SPOT_CHECK_H_
