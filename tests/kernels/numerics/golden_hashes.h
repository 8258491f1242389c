#ifndef ISOBIT_TESTS_KERNELS_NUMERICS_GOLDEN_HASHES_H_
#define ISOBIT_TESTS_KERNELS_NUMERICS_GOLDEN_HASHES_H_

// Hashes of the outputs of the contract's functions, read from golden/numerics/hashes.txt: the
// same on every machine, compiler and instruction set. Lines are "name hash".

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "kernels/numerics/bf16.h"

namespace isobit {

// XXH3-64 over the bits of the outputs in order, little-endian.
inline std::string HashOfWords(const std::vector<uint32_t>& words) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(words.data(), 4 * words.size())));
  return text;
}

// Inputs 0, step, 2 step, ... as bits of fp32, over all 2^32.
template <typename Function>
std::string HashAtStride(uint32_t step, Function&& function) {
  std::vector<uint32_t> words;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += step) {
    words.push_back(FloatBits(function(BitsFloat(static_cast<uint32_t>(bits)))));
  }
  return HashOfWords(words);
}

inline constexpr uint32_t kHashStride = 1021;

inline std::string GoldenHash(const std::string& name) {
  const std::string path = std::string(ISOBIT_SOURCE_DIR) + "/golden/numerics/hashes.txt";
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::string key, hash;
  while (file >> key >> hash) {
    if (key == name) return hash;
  }
  ADD_FAILURE() << path << " has no line " << name;
  return "";
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_NUMERICS_GOLDEN_HASHES_H_
