#include "tests/kernels/numerics/device_numerics.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/numerics/attention.h"
#include "kernels/numerics/contract_version.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/grid_exp.h"
#include "kernels/numerics/philox.h"
#include "kernels/numerics/rope.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/sampling.h"
#include "kernels/numerics/scalar.h"

namespace isobit {
namespace {

void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::abort();
}

// Device memory holding a copy of a vector, or room for one.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { Check(cudaMalloc(&data_, size * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    Check(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  std::vector<T> ToHost() const {
    std::vector<T> host(size_);
    Check(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

template <typename Item>
__global__ void RunItems(int64_t count, Item item) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) item(i);
}

// item(i) for i in [0, count), one thread each.
template <typename Item>
void ForEach(int64_t count, Item item) {
  constexpr int kThreads = 128;
  RunItems<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads>>>(count, item);
  Check(cudaGetLastError());
  Check(cudaDeviceSynchronize());
}

struct ScalarItem {
  ScalarFunction function;
  uint32_t first, step;
  uint32_t* out;
  __device__ void operator()(int64_t i) const {
    const float x = BitsFloat(first + static_cast<uint32_t>(i) * step);
    const float y = function == ScalarFunction::kExp2  ? Exp2(x)
                    : function == ScalarFunction::kLog ? Log(x)
                                                       : Silu(x);
    out[i] = FloatBits(y);
  }
};

struct GridItem {
  int32_t first_step;
  Bf16* out;
  __device__ void operator()(int64_t i) const {
    out[i] = GridExp2(static_cast<float>(first_step + static_cast<int32_t>(i)) / kGridSize);
  }
};

template <typename T>
struct Dot16Item {
  struct Step {
    T a[kDotTerms], b[kDotTerms];
    float c, d;
  };
  const Step* steps;
  uint32_t* out;
  __device__ void operator()(int64_t i) const {
    out[i] = FloatBits(Dot16(steps[i].c, steps[i].a, steps[i].b));
  }
};

struct InvFreqItem {
  double theta;
  int rotary_dim;
  double* inv_freq;
  __device__ void operator()(int64_t) const { RopeInvFreq(rotary_dim, theta, inv_freq); }
};

struct RopeItem {
  const double* inv_freq;
  int pairs;
  const int64_t* position;
  uint32_t* out;
  __device__ void operator()(int64_t r) const {
    for (int i = 0; i < pairs; ++i) {
      float cos = 0, sin = 0;
      RopeTableRow(position[r], inv_freq + i, 1, &cos, &sin);
      out[2 * (r * pairs + i)] = FloatBits(cos);
      out[2 * (r * pairs + i) + 1] = FloatBits(sin);
    }
  }
};

struct AttentionItem {
  static constexpr int kHeadDim = 64;
  const Bf16 *q, *keys, *values;
  const int64_t *first_key, *last_key;
  Bf16* out;
  __device__ void operator()(int64_t r) const {
    const Bf16 *k = keys, *v = values;
    AttendRow(
        q + r * kHeadDim, kHeadDim, MakeAttentionScale(0.125), first_key[r], last_key[r],
        [k](int64_t j) { return k + j * kHeadDim; }, [v](int64_t j) { return v + j * kHeadDim; },
        out + r * kHeadDim);
  }
};

struct NormItem {
  const Bf16 *x, *weight;
  int64_t n;
  float eps;
  Bf16* out;
  __device__ void operator()(int64_t r) const {
    RmsNormRow(x + r * n, weight, n, eps, out + r * n);
  }
};

struct SamplingItem {
  const float* z;
  float m;
  uint64_t sum, seed;
  uint64_t* out;
  __device__ void operator()(int64_t i) const {
    out[4 * i] = SoftmaxWeight(z[i], m);
    out[4 * i + 1] = FloatBits(LogProb(z[i], m, sum));
    out[4 * i + 2] = TopPThreshold(FloatBits(z[i]), sum);
    out[4 * i + 3] = DrawTarget(DrawBits(seed, static_cast<uint32_t>(i), FloatBits(z[i])), sum);
  }
};

template <typename T>
std::vector<uint32_t> DeviceDot16(const std::vector<uint8_t>& bytes) {
  using Step = typename Dot16Item<T>::Step;
  const int64_t count = static_cast<int64_t>(bytes.size() / sizeof(Step));
  DeviceArray<uint8_t> steps(bytes);
  DeviceArray<uint32_t> out(count);
  ForEach(count, Dot16Item<T>{reinterpret_cast<const Step*>(steps.data()), out.data()});
  return out.ToHost();
}

}  // namespace

bool HasCudaDevice() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

bool HasHopper() {
  int major = 0;
  return HasCudaDevice() &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
         major == 9;
}

std::vector<uint32_t> DeviceScalar(ScalarFunction function, uint32_t first, uint32_t step,
                                   int64_t count) {
  DeviceArray<uint32_t> out(count);
  ForEach(count, ScalarItem{function, first, step, out.data()});
  return out.ToHost();
}

std::vector<Bf16> DeviceGridExp2(int32_t first_step, int64_t count) {
  DeviceArray<Bf16> out(count);
  ForEach(count, GridItem{first_step, out.data()});
  return out.ToHost();
}

std::vector<uint32_t> DeviceDot16Bf16(const std::vector<uint8_t>& steps) {
  return DeviceDot16<Bf16>(steps);
}
std::vector<uint32_t> DeviceDot16Fp16(const std::vector<uint8_t>& steps) {
  return DeviceDot16<Fp16>(steps);
}

std::vector<uint32_t> DeviceRopeTable(double theta, int rotary_dim,
                                      const std::vector<int64_t>& positions) {
  const int pairs = rotary_dim / 2;
  const int64_t rows = static_cast<int64_t>(positions.size());
  DeviceArray<double> inv_freq(pairs);
  ForEach(1, InvFreqItem{theta, rotary_dim, inv_freq.data()});
  DeviceArray<int64_t> position(positions);
  DeviceArray<uint32_t> out(2 * rows * pairs);
  ForEach(rows, RopeItem{inv_freq.data(), pairs, position.data(), out.data()});
  return out.ToHost();
}

std::vector<Bf16> DeviceAttention(const std::vector<Bf16>& q, const std::vector<Bf16>& keys,
                                  const std::vector<Bf16>& values,
                                  const std::vector<int64_t>& first_key,
                                  const std::vector<int64_t>& last_key) {
  DeviceArray<Bf16> device_q(q), device_keys(keys), device_values(values), out(q.size());
  DeviceArray<int64_t> first(first_key), last(last_key);
  ForEach(static_cast<int64_t>(first_key.size()),
          AttentionItem{device_q.data(), device_keys.data(), device_values.data(), first.data(),
                        last.data(), out.data()});
  return out.ToHost();
}

std::vector<Bf16> DeviceRmsNorm(const std::vector<Bf16>& x, const std::vector<Bf16>& weight,
                                float eps) {
  DeviceArray<Bf16> device_x(x), device_weight(weight), out(x.size());
  const int64_t n = static_cast<int64_t>(weight.size());
  ForEach(static_cast<int64_t>(x.size()) / n,
          NormItem{device_x.data(), device_weight.data(), n, eps, out.data()});
  return out.ToHost();
}

std::vector<uint64_t> DeviceSampling(const std::vector<float>& z, float m, uint64_t sum,
                                     uint64_t seed) {
  DeviceArray<float> device_z(z);
  DeviceArray<uint64_t> out(4 * z.size());
  ForEach(static_cast<int64_t>(z.size()), SamplingItem{device_z.data(), m, sum, seed, out.data()});
  return out.ToHost();
}

}  // namespace isobit
