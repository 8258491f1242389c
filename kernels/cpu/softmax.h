#ifndef ISOBIT_KERNELS_CPU_SOFTMAX_H_
#define ISOBIT_KERNELS_CPU_SOFTMAX_H_

// Passes over logits in vectors: what scoring and sampling are made of. Every result equals the
// scalar functions of kernels/numerics/sampling.h bit for bit, sums included, since they are sums
// of integers.

#include <cstdint>

#include "kernels/cpu/context.h"

namespace isobit {

// Tokens are looked at in blocks of this many, whose maxima steer the search for likely tokens.
inline constexpr int64_t kBlockTokens = 32;

// z[i] = logits[i] / temperature for i < n.
void ApplyTemperatureToRow(const CpuContext& context, const float* logits, int64_t n,
                           float temperature, float* z);

// block_max[b] = the largest of z[32 b .. 32 b + 31], the last block may be short. False if any z
// is NaN; the maxima then mean nothing.
bool BlockMaxima(const CpuContext& context, const float* z, int64_t n, float* block_max);

// Sum of SoftmaxWeight(z[i], m) over all z[i] >= threshold. REQUIRES: no NaN, z[i] <= m, m finite,
// n < 2^24.
uint64_t SumOfWeights(const CpuContext& context, const float* z, int64_t n, float m,
                      float threshold);

// weight[i] = SoftmaxWeight(z[i], m), under the same conditions.
void WeightsOfRow(const CpuContext& context, const float* z, int64_t n, float m, uint64_t* weight);

// Where a token stands below the maximum. The bucket of a higher z is not higher, and the last one
// holds no weight: exp(-511 / 16) < 2^-40.
inline constexpr int kBuckets = 512;
inline constexpr float kBucketsPerUnit = 16.0f;
int BucketOf(float z, float m);

// bucket_weight[BucketOf(z[i], m)] += SoftmaxWeight(z[i], m), under the same conditions.
void AddToBuckets(const CpuContext& context, const float* z, int64_t n, float m,
                  uint64_t* bucket_weight);

// Writes the numbers first + i of all z[i] in [low, high], ascending, and returns how many.
// `tokens` has room for n + 16.
int64_t TokensBetween(const CpuContext& context, const float* z, int64_t n, float low, float high,
                      int32_t first, int32_t* tokens);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_SOFTMAX_H_
