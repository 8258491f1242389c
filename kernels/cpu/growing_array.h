#ifndef ISOBIT_KERNELS_CPU_GROWING_ARRAY_H_
#define ISOBIT_KERNELS_CPU_GROWING_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <new>

#include "hwy/aligned_allocator.h"

namespace isobit {

// Scratch memory, aligned for vectors, that grows to the largest size asked for and stays.
template <typename T>
class GrowingArray {
 public:
  T* data() const { return data_.get(); }

  // At least `count` elements; what they held is lost if the array grows.
  T* Grow(int64_t count) {
    if (count > count_) {
      data_ = hwy::AllocateAligned<T>(static_cast<size_t>(count));
      if (data_ == nullptr) throw std::bad_alloc();
      count_ = count;
    }
    return data_.get();
  }

 private:
  hwy::AlignedFreeUniquePtr<T[]> data_;
  int64_t count_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_GROWING_ARRAY_H_
