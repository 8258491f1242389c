#ifndef ISOBIT_TESTS_KERNELS_NUMERICS_HIGH_PRECISION_H_
#define ISOBIT_TESTS_KERNELS_NUMERICS_HIGH_PRECISION_H_

// The reference that proofs are made against: MPFR numbers of 200 bits.

#include <mpfr.h>

#include <cmath>

namespace isobit {

class HighPrecision {
 public:
  HighPrecision() { mpfr_init2(value_, 200); }
  explicit HighPrecision(double x) : HighPrecision() { mpfr_set_d(value_, x, MPFR_RNDN); }
  ~HighPrecision() { mpfr_clear(value_); }
  HighPrecision(const HighPrecision&) = delete;
  HighPrecision& operator=(const HighPrecision&) = delete;

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }
  double ToDouble() const { return mpfr_get_d(value_, MPFR_RNDN); }

 private:
  mpfr_t value_;
};

// One unit in the last place of fp32 at the magnitude of x; 2^-149 in the subnormal range.
inline double UlpOfFloat(double x) {
  int exponent = 0;
  std::frexp(std::fabs(x), &exponent);  // |x| = f * 2^exponent, f in [1/2, 1)
  return std::ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}

// |got - exact| in ulps of fp32. Infinity stands for 2^128, so that a result that overflowed is
// judged like any other.
inline double UlpError(float got, const HighPrecision& exact) {
  HighPrecision difference(std::isinf(got) ? std::copysign(0x1p+128, got) : double{got});
  mpfr_sub(difference.get(), difference.get(), exact.get(), MPFR_RNDN);
  return std::fabs(difference.ToDouble()) / UlpOfFloat(exact.ToDouble());
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_NUMERICS_HIGH_PRECISION_H_
