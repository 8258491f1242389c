#ifndef ISOBIT_INVARIANCE_COMPARISON_H_
#define ISOBIT_INVARIANCE_COMPARISON_H_

// Counts what was compared bit for bit, and keeps the first difference in words.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/numerics/bf16.h"

namespace isobit {

// How many representable numbers lie between two floats: 0 if equal in bits, -1 if one is NaN. +0
// and -0 are one apart.
int64_t UlpDistance(float a, float b);

class Comparison {
 public:
  // Names the place of element i: "position 17". Called for the first difference only.
  using Place = std::function<std::string(size_t)>;

  // Compares by bits, so that NaN equals itself and -0 differs from +0. Another size is a
  // difference too.
  void Floats(std::span<const float> expected, std::span<const float> got, const Place& place);
  void Bf16s(std::span<const Bf16> expected, std::span<const Bf16> got, const Place& place);
  void Integers(std::span<const int32_t> expected, std::span<const int32_t> got,
                const Place& place);
  void Text(std::string_view expected, std::string_view got, const std::string& place);

  // Something that could not be compared at all.
  void Fail(const std::string& what);

  int64_t compared() const { return compared_; }
  int64_t different() const { return different_; }
  // The first difference, how many there are where it is, and in all; empty if there is none.
  std::string Describe() const;

 private:
  template <typename T, typename Explain>
  void Compare(std::span<const T> expected, std::span<const T> got, const Place& place,
               const Explain& explain);
  void Note(const std::string& what);

  int64_t compared_ = 0;
  int64_t different_ = 0;
  std::string first_;
};

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_COMPARISON_H_
