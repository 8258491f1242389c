#ifndef ISOBIT_KERNELS_CPU_ROUNDING_MODE_H_
#define ISOBIT_KERNELS_CPU_ROUNDING_MODE_H_

#include <cfenv>

namespace isobit {

// Rounds toward zero on this thread while it lives, as dot16 does.
//
// Compilers move floating-point operations across a change of mode. So the code that depends on the
// mode must be a function that can't be inlined into the scope (a SIMD kernel called through its
// dispatch table), and nothing else in the scope may compute.
class ScopedRoundTowardZero {
 public:
  ScopedRoundTowardZero() : before_(std::fegetround()) { std::fesetround(FE_TOWARDZERO); }
  ~ScopedRoundTowardZero() { std::fesetround(before_); }
  ScopedRoundTowardZero(const ScopedRoundTowardZero&) = delete;
  ScopedRoundTowardZero& operator=(const ScopedRoundTowardZero&) = delete;

 private:
  const int before_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ROUNDING_MODE_H_
