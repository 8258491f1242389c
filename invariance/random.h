#ifndef ISOBIT_INVARIANCE_RANDOM_H_
#define ISOBIT_INVARIANCE_RANDOM_H_

// Random inputs of sweeps and schedules: the same on every machine and with every standard library.

#include <cstdint>
#include <utility>
#include <vector>

namespace isobit {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, bound). REQUIRES: bound >= 1. The bias of the remainder does not matter here.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(bound));
  }
  // Nearly normal, mean 0 and deviation 1: a sum of four uniform integers, without a maths library.
  float Normal() {
    const uint64_t z = Next();
    const auto sum =
        static_cast<int64_t>((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48)) -
        2 * 0xffff;
    return static_cast<float>(sum) * 0x1.bb67aep-16f;  // sqrt(3) / 2^16
  }

 private:
  uint64_t state_;
};

inline std::vector<int32_t> RandomTokens(SplitMix& random, int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random.Below(vocab)));
  return tokens;
}

template <typename T>
void Shuffle(SplitMix& random, std::vector<T>& values) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  }
}

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_RANDOM_H_
