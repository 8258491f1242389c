#ifndef ISOBIT_TESTS_KERNELS_NUMERICS_DEVICE_NUMERICS_H_
#define ISOBIT_TESTS_KERNELS_NUMERICS_DEVICE_NUMERICS_H_

// The contract's headers, run on the GPU. Every function takes host memory, runs one thread an
// item, and stops the program on a CUDA error. Compiling device_numerics.cu proves that the headers
// are valid device code; it is compiled without --fmad=false, since the headers must not need it.

#include <cstdint>
#include <vector>

#include "kernels/numerics/bf16.h"

namespace isobit {

bool HasCudaDevice();
// Whether it is the architecture whose tensor core contract 1 describes.
bool HasHopper();

enum class ScalarFunction { kExp2, kLog, kSilu };

// Bits of function(x) for x with the bits first, first + step, ...
std::vector<uint32_t> DeviceScalar(ScalarFunction function, uint32_t first, uint32_t step,
                                   int64_t count);

// GridExp2 of first_step / 8192, (first_step + 1) / 8192, ...
std::vector<Bf16> DeviceGridExp2(int32_t first_step, int64_t count);

// Dot16 of steps laid out as in golden/numerics: T a[16], T b[16], float c, float d.
std::vector<uint32_t> DeviceDot16Bf16(const std::vector<uint8_t>& steps);
std::vector<uint32_t> DeviceDot16Fp16(const std::vector<uint8_t>& steps);

// cos and sin, interleaved, of the rotary table with frequencies made on the device.
std::vector<uint32_t> DeviceRopeTable(double theta, int rotary_dim,
                                      const std::vector<int64_t>& positions);

// Rows of attention over keys and values [keys][64]; row r sees first_key[r] .. last_key[r].
std::vector<Bf16> DeviceAttention(const std::vector<Bf16>& q, const std::vector<Bf16>& keys,
                                  const std::vector<Bf16>& values,
                                  const std::vector<int64_t>& first_key,
                                  const std::vector<int64_t>& last_key);

// RMSNorm of rows of n.
std::vector<Bf16> DeviceRmsNorm(const std::vector<Bf16>& x, const std::vector<Bf16>& weight,
                                float eps);

// For each z: SoftmaxWeight, the bits of LogProb against `sum`, TopPThreshold of (z's bits, sum),
// and DrawTarget of DrawBits(seed, index, z's bits) against sum.
std::vector<uint64_t> DeviceSampling(const std::vector<float>& z, float m, uint64_t sum,
                                     uint64_t seed);

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_NUMERICS_DEVICE_NUMERICS_H_
