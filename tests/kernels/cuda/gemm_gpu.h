#ifndef ISOBIT_TESTS_KERNELS_CUDA_GEMM_GPU_H_
#define ISOBIT_TESTS_KERNELS_CUDA_GEMM_GPU_H_

// What the GEMM tests share: memory on the GPU and matrices in both layouts.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/packed_weight.h"
#include "kernels/cuda/qualify_inputs.h"

namespace isobit::cuda {

inline void Check(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

// Whether there is a card that these kernels are for.
inline bool HasHopper() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return false;
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  return major == 9;
}

inline int Multiprocessors() {
  int count = 0;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
  return count;
}

// `count` elements between two guards. Everything is poisoned first.
template <typename T>
class DeviceArray {
 public:
  static constexpr int64_t kGuard = 4096;
  static constexpr int kPoison = 0x7b;

  explicit DeviceArray(int64_t count) : count_(count) {
    Check(cudaMalloc(reinterpret_cast<void**>(&memory_), Bytes()));
    Poison();
  }
  ~DeviceArray() { cudaFree(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return memory_ + kGuard; }
  int64_t count() const { return count_; }

  void Poison() { Check(cudaMemset(memory_, kPoison, Bytes())); }
  // Whether the guards, and all elements from `end` on, are still poison.
  bool IsUntouchedFrom(int64_t end) const {
    std::vector<uint8_t> all(Bytes());
    Check(cudaMemcpy(all.data(), memory_, Bytes(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < all.size(); ++i) {
      const bool inside = i >= kGuard * sizeof(T) && i < (kGuard + end) * sizeof(T);
      if (!inside && all[i] != kPoison) return false;
    }
    return true;
  }
  std::vector<T> ToHost() const {
    std::vector<T> values(static_cast<size_t>(count_));
    Check(cudaMemcpy(values.data(), data(), values.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  size_t Bytes() const { return static_cast<size_t>(count_ + 2 * kGuard) * sizeof(T); }

  int64_t count_;
  T* memory_ = nullptr;
};

// A matrix of weights, row-major and packed.
class TestWeight {
 public:
  TestWeight(int64_t n, int64_t k, bool gate_up, InputKind kind, uint64_t seed)
      : rows_(n * k), packed_(PackedLayout{n, k, gate_up}.Bytes()) {
    Check(LaunchFill(kind, seed, 0.05f, n * k, rows_.data(), nullptr));
    matrix_.layout = {n, k, gate_up};
    matrix_.data = packed_.data();
    Check(cudaMemset(packed_.data(), 0, static_cast<size_t>(packed_.count())));
    Check(LaunchPackRows(rows_.data(), 0, n, matrix_.layout, packed_.data(), nullptr));
  }

  const Bf16* rows() const { return rows_.data(); }
  const PackedMatrix& matrix() const { return matrix_; }

 private:
  DeviceArray<Bf16> rows_;
  DeviceArray<uint8_t> packed_;
  PackedMatrix matrix_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_TESTS_KERNELS_CUDA_GEMM_GPU_H_
