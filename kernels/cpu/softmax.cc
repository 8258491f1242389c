#include "kernels/cpu/softmax.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/numerics/sampling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

void Divide(const float* logits, int64_t n, float temperature, float* z) {
  const FloatTag df;
  const int64_t lanes = hn::Lanes(df);
  const auto divisor = hn::Set(df, temperature);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Div(hn::LoadU(df, logits + i), divisor), df, z + i);
  }
  for (; i < n; ++i) z[i] = ApplyTemperature(logits[i], temperature);
}

bool Maxima(const float* z, int64_t n, float* block_max) {
  const FloatTag df;
  const int64_t lanes = hn::Lanes(df);
  const auto zero = hn::Zero(df);
  auto nan = zero;  // turns NaN in any lane that saw one
  int64_t begin = 0;
  for (; begin + kBlockTokens <= n; begin += kBlockTokens) {
    auto largest = hn::LoadU(df, z + begin);
    nan = hn::IfThenElse(hn::IsNaN(largest), largest, nan);
    for (int64_t i = lanes; i < kBlockTokens; i += lanes) {
      const auto v = hn::LoadU(df, z + begin + i);
      nan = hn::IfThenElse(hn::IsNaN(v), v, nan);
      largest = hn::Max(largest, v);
    }
    *block_max++ = hn::GetLane(hn::MaxOfLanes(df, largest));
  }
  bool any_nan = !hn::AllFalse(df, hn::IsNaN(nan));
  if (begin < n) {
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t i = begin; i < n; ++i) {
      any_nan = any_nan || IsNan(z[i]);
      largest = std::max(largest, z[i]);
    }
    *block_max = largest;
  }
  return !any_nan;
}

// SoftmaxWeight of a vector, as high * 2^24 + low with high <= 2^16 and low < 2^24.
struct WeightParts {
  hn::Vec<IntTag> high;
  hn::Vec<IntTag> low;
};

// Exp2 of kernels/numerics/scalar.h, but for what can't be seen here: arguments are not above 0,
// and those below -64, whose weight is 0 in any case, are raised to -64. So 2^n is always normal.
inline WeightParts WeightsOf(Floats z, Floats m) {
  const FloatTag df;
  const IntTag di;
  auto x = hn::Mul(hn::Sub(z, m), hn::Set(df, kLog2E));
  x = hn::Max(x, hn::Set(df, -64.0f));
  const auto round_to_integer = hn::Set(df, 0x1.8p+23f);
  const auto shifted = hn::Add(x, round_to_integer);
  const auto f = hn::Sub(x, hn::Sub(shifted, round_to_integer));
  auto q = hn::Set(df, 0x1.3f906cp-13f);
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.5f0a66p-10f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.3b30bp-7f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.c6af78p-5f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.ebfbd8p-3f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.62e43p-1f));
  const auto power = hn::MulAdd(q, f, hn::Set(df, 1.0f));
  // The last bits of `shifted` are n; the weight is 2^40 * power * 2^n, here first 2^16 of it.
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 16));
  const auto scaled = hn::BitCast(df, hn::Add(hn::BitCast(di, power), hn::ShiftLeft<23>(exponent)));
  // Truncating splits a float into parts that are both exact.
  const auto high = hn::ConvertTo(di, scaled);
  const auto rest = hn::Sub(scaled, hn::ConvertTo(df, high));
  return {high, hn::ConvertTo(di, hn::Mul(rest, hn::Set(df, 0x1p+24f)))};
}

// SoftmaxWeight, without its arithmetic where the weight is 0 by far.
inline uint64_t ScalarWeight(float z, float m) {
  return ieee::Sub(z, m) < -28.0f ? 0 : SoftmaxWeight(z, m);
}

uint64_t SumWeights(const float* z, int64_t n, float m, float threshold) {
  const FloatTag df;
  const IntTag di;
  const int64_t lanes = hn::Lanes(df);
  uint64_t sum = 0;
  int64_t i = 0;
  if constexpr (kFusedMulAdd) {
    constexpr int64_t kStepsWithoutOverflow = 127;  // low < 2^24 in a signed lane
    const auto maxima = hn::Set(df, m);
    const auto thresholds = hn::Set(df, threshold);
    const auto none = hn::Set(df, -std::numeric_limits<float>::infinity());
    const int64_t whole = n - n % lanes;
    while (i < whole) {
      const int64_t end = std::min(whole, i + kStepsWithoutOverflow * lanes);
      auto high = hn::Zero(di);
      auto low = hn::Zero(di);
      for (; i < end; i += lanes) {
        const auto v = hn::LoadU(df, z + i);
        const auto counted = hn::IfThenElse(hn::Ge(v, thresholds), v, none);
        const WeightParts parts = WeightsOf(counted, maxima);
        high = hn::Add(high, parts.high);
        low = hn::Add(low, parts.low);
      }
      HWY_ALIGN int32_t high_lane[hn::MaxLanes(IntTag())];
      HWY_ALIGN int32_t low_lane[hn::MaxLanes(IntTag())];
      hn::Store(high, di, high_lane);
      hn::Store(low, di, low_lane);
      for (int64_t l = 0; l < lanes; ++l) {
        sum += (static_cast<uint64_t>(high_lane[l]) << 24) + static_cast<uint64_t>(low_lane[l]);
      }
    }
  }
  for (; i < n; ++i) {
    if (z[i] >= threshold) sum += ScalarWeight(z[i], m);
  }
  return sum;
}

void Weights(const float* z, int64_t n, float m, uint64_t* weight) {
  const FloatTag df;
  const IntTag di;
  const int64_t lanes = hn::Lanes(df);
  int64_t i = 0;
  if constexpr (kFusedMulAdd) {
    HWY_ALIGN int32_t high[hn::MaxLanes(IntTag())];
    HWY_ALIGN int32_t low[hn::MaxLanes(IntTag())];
    const auto maxima = hn::Set(df, m);
    for (; i + lanes <= n; i += lanes) {
      const WeightParts parts = WeightsOf(hn::LoadU(df, z + i), maxima);
      hn::Store(parts.high, di, high);
      hn::Store(parts.low, di, low);
      for (int64_t l = 0; l < lanes; ++l) {
        weight[i + l] = (static_cast<uint64_t>(high[l]) << 24) + static_cast<uint64_t>(low[l]);
      }
    }
  }
  for (; i < n; ++i) weight[i] = ScalarWeight(z[i], m);
}

void AddBuckets(const float* z, int64_t n, float m, uint64_t* bucket_weight) {
  const FloatTag df;
  const IntTag di;
  const int64_t lanes = hn::Lanes(df);
  int64_t i = 0;
  if constexpr (kFusedMulAdd) {
    HWY_ALIGN int32_t high[hn::MaxLanes(IntTag())];
    HWY_ALIGN int32_t low[hn::MaxLanes(IntTag())];
    HWY_ALIGN int32_t bucket[hn::MaxLanes(IntTag())];
    const auto maxima = hn::Set(df, m);
    const auto last = hn::Set(df, static_cast<float>(kBuckets - 1));
    for (; i + lanes <= n; i += lanes) {
      const auto v = hn::LoadU(df, z + i);
      const WeightParts parts = WeightsOf(v, maxima);
      const auto steps = hn::Mul(hn::Sub(maxima, v), hn::Set(df, kBucketsPerUnit));
      hn::Store(parts.high, di, high);
      hn::Store(parts.low, di, low);
      hn::Store(hn::ConvertTo(di, hn::Min(steps, last)), di, bucket);
      for (int64_t l = 0; l < lanes; ++l) {
        bucket_weight[bucket[l]] +=
            (static_cast<uint64_t>(high[l]) << 24) + static_cast<uint64_t>(low[l]);
      }
    }
  }
  for (; i < n; ++i) bucket_weight[BucketOf(z[i], m)] += ScalarWeight(z[i], m);
}

int64_t Between(const float* z, int64_t n, float low, float high, int32_t first, int32_t* tokens) {
  const FloatTag df;
  const IntTag di;
  const int64_t lanes = hn::Lanes(df);
  const auto lows = hn::Set(df, low);
  const auto highs = hn::Set(df, high);
  int64_t count = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(df, z + i);
    const auto chosen = hn::RebindMask(di, hn::And(hn::Ge(v, lows), hn::Le(v, highs)));
    const auto numbers = hn::Iota(di, first + static_cast<int32_t>(i));
    count += hn::CompressStore(numbers, chosen, di, tokens + count);
  }
  for (; i < n; ++i) {
    if (z[i] >= low && z[i] <= high) tokens[count++] = first + static_cast<int32_t>(i);
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(Divide);
HWY_EXPORT(Maxima);
HWY_EXPORT(SumWeights);
HWY_EXPORT(Weights);
HWY_EXPORT(AddBuckets);
HWY_EXPORT(Between);

void ApplyTemperatureToRow(const CpuContext& context, const float* logits, int64_t n,
                           float temperature, float* z) {
  SelectKernel(HWY_DISPATCH_TABLE(Divide), context)(logits, n, temperature, z);
}

bool BlockMaxima(const CpuContext& context, const float* z, int64_t n, float* block_max) {
  return SelectKernel(HWY_DISPATCH_TABLE(Maxima), context)(z, n, block_max);
}

uint64_t SumOfWeights(const CpuContext& context, const float* z, int64_t n, float m,
                      float threshold) {
  return SelectKernel(HWY_DISPATCH_TABLE(SumWeights), context)(z, n, m, threshold);
}

void WeightsOfRow(const CpuContext& context, const float* z, int64_t n, float m, uint64_t* weight) {
  SelectKernel(HWY_DISPATCH_TABLE(Weights), context)(z, n, m, weight);
}

int BucketOf(float z, float m) {
  const float steps = ieee::Mul(ieee::Sub(m, z), kBucketsPerUnit);
  return static_cast<int>(std::min(steps, static_cast<float>(kBuckets - 1)));
}

void AddToBuckets(const CpuContext& context, const float* z, int64_t n, float m,
                  uint64_t* bucket_weight) {
  SelectKernel(HWY_DISPATCH_TABLE(AddBuckets), context)(z, n, m, bucket_weight);
}

int64_t TokensBetween(const CpuContext& context, const float* z, int64_t n, float low, float high,
                      int32_t first, int32_t* tokens) {
  return SelectKernel(HWY_DISPATCH_TABLE(Between), context)(z, n, low, high, first, tokens);
}

}  // namespace isobit
#endif  // HWY_ONCE
