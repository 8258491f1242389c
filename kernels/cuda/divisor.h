#ifndef ISOBIT_KERNELS_CUDA_DIVISOR_H_
#define ISOBIT_KERNELS_CUDA_DIVISOR_H_

// Division by a number that is known when a kernel is launched: one multiplication on the device,
// which has no instruction to divide integers.

#include <cassert>
#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

class Divisor {
 public:
  // REQUIRES: value >= 1.
  explicit Divisor(int value) : value_(value), reciprocal_(Reciprocal(value)) {
    assert(value >= 1);
  }

  ISOBIT_HOST_DEVICE int value() const { return value_; }

  // x / value. REQUIRES: 0 <= x, x * value < 2^32.
  ISOBIT_HOST_DEVICE int Divide(int x) const {
    if (reciprocal_ == 0) return x;
    return static_cast<int>(uint64_t{static_cast<uint32_t>(x)} * reciprocal_ >> 32);
  }
  ISOBIT_HOST_DEVICE int Remainder(int x) const { return x - Divide(x) * value_; }

 private:
  // 2^32 / value rounded up; 0 stands for 2^32. The product is too large by less than x * value /
  // 2^32 times 1 / value, which is too little to reach the next integer.
  static uint32_t Reciprocal(int value) {
    return static_cast<uint32_t>(((uint64_t{1} << 32) + static_cast<uint64_t>(value) - 1) /
                                 static_cast<uint64_t>(value));
  }

  int value_;
  uint32_t reciprocal_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_DIVISOR_H_
