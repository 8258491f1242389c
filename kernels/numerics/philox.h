#ifndef ISOBIT_KERNELS_NUMERICS_PHILOX_H_
#define ISOBIT_KERNELS_NUMERICS_PHILOX_H_

// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011), and how a draw is addressed (contract 6).

#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace isobit {

struct PhiloxCounter {
  uint32_t word[4];
};
struct PhiloxKey {
  uint32_t word[2];
};

// Ten rounds.
ISOBIT_HOST_DEVICE constexpr PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xd2511f53u, kMultiplier1 = 0xcd9e8d57u;
  constexpr uint32_t kWeyl0 = 0x9e3779b9u, kWeyl1 = 0xbb67ae85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * counter.word[0];
    const uint64_t p1 = kMultiplier1 * counter.word[2];
    counter = {{static_cast<uint32_t>(p1 >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<uint32_t>(p1),
                static_cast<uint32_t>(p0 >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<uint32_t>(p0)}};
    key.word[0] += kWeyl0;
    key.word[1] += kWeyl1;
  }
  return counter;
}

// The 64 bits of one draw: for the token that will stand at `position` of its sequence, in sample
// `sample_index` of its request. Nothing else is looked at, so a draw can be repeated anywhere.
ISOBIT_HOST_DEVICE constexpr uint64_t DrawBits(uint64_t seed, uint32_t sample_index,
                                               uint64_t position) {
  const PhiloxCounter counter = {
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), sample_index, 0}};
  const PhiloxKey key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const PhiloxCounter drawn = Philox4x32(counter, key);
  return uint64_t{drawn.word[0]} | uint64_t{drawn.word[1]} << 32;
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_PHILOX_H_
