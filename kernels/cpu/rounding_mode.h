#ifndef ISOBIT_KERNELS_CPU_ROUNDING_MODE_H_
#define ISOBIT_KERNELS_CPU_ROUNDING_MODE_H_

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace isobit {

// Rounds toward zero on this thread while it lives, as dot16 does.
//
// Compilers move floating-point operations across a change of mode. So the code that depends on the
// mode must be a function that can't be inlined into the scope (a SIMD kernel called through its
// dispatch table), and nothing else in the scope may compute.
class ScopedRoundTowardZero {
 public:
  ScopedRoundTowardZero(const ScopedRoundTowardZero&) = delete;
  ScopedRoundTowardZero& operator=(const ScopedRoundTowardZero&) = delete;

#if defined(__SSE2__)
  // Ten times as fast as fesetround, which also sets the x87 unit.
  ScopedRoundTowardZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_ROUND_TOWARD_ZERO); }
  ~ScopedRoundTowardZero() { _mm_setcsr(before_); }

 private:
  const unsigned int before_;
#else
  ScopedRoundTowardZero() : before_(std::fegetround()) { std::fesetround(FE_TOWARDZERO); }
  ~ScopedRoundTowardZero() { std::fesetround(before_); }

 private:
  const int before_;
#endif
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ROUNDING_MODE_H_
