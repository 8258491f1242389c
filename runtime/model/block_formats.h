#ifndef ISOBIT_RUNTIME_MODEL_BLOCK_FORMATS_H_
#define ISOBIT_RUNTIME_MODEL_BLOCK_FORMATS_H_

// How stored weights become floats, one struct a format.
//
// Formats are ggml's (ggml-common.h and ggml-quants.c describe them). Each struct has:
//   kElements, kBytes   size of a block
//   Dequantize          one block from unaligned bytes to floats
// The loops have no branches, so that the compiler vectorises them for any instruction set; fp32
// operations are IEEE and uncontracted, so every instruction set gives the same bits.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/numerics/bf16.h"

namespace isobit::block_format {

// As ToFloat(Fp16), with selects in place of branches.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  // magnitude < 0x400 is a fraction of 2^-24; the product is exact.
  const uint32_t subnormal =
      FloatBits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t finite = magnitude < 0x400u ? subnormal : normal;
  return BitsFloat(sign | (magnitude >= 0x7c00u ? special : finite));
}

inline uint8_t Byte(const std::byte* from) { return static_cast<uint8_t>(*from); }

inline uint16_t Load16(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

struct F32 {
  static constexpr int64_t kElements = 1, kBytes = 4;
  static void Dequantize(const std::byte* src, int64_t n, float* out) {
    std::memcpy(out, src, static_cast<size_t>(n) * sizeof(float));
  }
};

struct F16 {
  static constexpr int64_t kElements = 1, kBytes = 2;
  static void Dequantize(const std::byte* src, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = HalfToFloat(Load16(src + 2 * i));
  }
};

struct BF16 {
  static constexpr int64_t kElements = 1, kBytes = 2;
  static void Dequantize(const std::byte* src, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = BitsFloat(uint32_t{Load16(src + 2 * i)} << 16);
  }
};

// fp16 d, then 16 bytes: low nibbles are elements 0..15, high nibbles 16..31. y = d * (q - 8).
struct Q4_0 {
  static constexpr int64_t kElements = 32, kBytes = 18;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    for (int i = 0; i < 16; ++i) {
      const int q = Byte(src + 2 + i);
      out[i] = d * static_cast<float>((q & 15) - 8);
      out[i + 16] = d * static_cast<float>((q >> 4) - 8);
    }
  }
};

// fp16 d, fp16 m, nibbles as in Q4_0. y = d * q + m, two roundings.
struct Q4_1 {
  static constexpr int64_t kElements = 32, kBytes = 20;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    const float m = HalfToFloat(Load16(src + 2));
    for (int i = 0; i < 16; ++i) {
      const int q = Byte(src + 4 + i);
      out[i] = d * static_cast<float>(q & 15) + m;
      out[i + 16] = d * static_cast<float>(q >> 4) + m;
    }
  }
};

// Bit `i` of the four bytes at `from`, as the fifth bit of element i.
inline int FifthBit(const std::byte* from, int i) {
  return (Byte(from + i / 8) >> (i % 8) & 1) << 4;
}

// fp16 d, 32 fifth bits, nibbles as in Q4_0. y = d * (q - 16).
struct Q5_0 {
  static constexpr int64_t kElements = 32, kBytes = 22;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    for (int i = 0; i < 16; ++i) {
      const int q = Byte(src + 6 + i);
      out[i] = d * static_cast<float>(((q & 15) | FifthBit(src + 2, i)) - 16);
      out[i + 16] = d * static_cast<float>(((q >> 4) | FifthBit(src + 2, i + 16)) - 16);
    }
  }
};

// fp16 d, fp16 m, 32 fifth bits, nibbles. y = d * q + m, two roundings.
struct Q5_1 {
  static constexpr int64_t kElements = 32, kBytes = 24;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    const float m = HalfToFloat(Load16(src + 2));
    for (int i = 0; i < 16; ++i) {
      const int q = Byte(src + 8 + i);
      out[i] = d * static_cast<float>((q & 15) | FifthBit(src + 4, i)) + m;
      out[i + 16] = d * static_cast<float>((q >> 4) | FifthBit(src + 4, i + 16)) + m;
    }
  }
};

// fp16 d, then 32 signed bytes. y = d * q.
struct Q8_0 {
  static constexpr int64_t kElements = 32, kBytes = 34;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    for (int i = 0; i < 32; ++i) {
      out[i] = d * static_cast<float>(static_cast<int8_t>(Byte(src + 2 + i)));
    }
  }
};

// Significands of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// fp16 d, nibbles as in Q4_0. y = d * value[q].
struct IQ4_NL {
  static constexpr int64_t kElements = 32, kBytes = 18;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    for (int i = 0; i < 16; ++i) {
      const int q = Byte(src + 2 + i);
      out[i] = d * static_cast<float>(kIq4Values[q & 15]);
      out[i + 16] = d * static_cast<float>(kIq4Values[q >> 4]);
    }
  }
};

// One exponent byte, nibbles as in Q4_0: 4-bit floats of the OCP microscaling formats, doubled here
// so that they are integers, under half the scale. y = (2^(e - 127) / 2) * value[q].
struct MXFP4 {
  static constexpr int64_t kElements = 32, kBytes = 17;
  static constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const uint32_t e = Byte(src);
    const float d = BitsFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23);  // e < 2: subnormal
    for (int i = 0; i < 16; ++i) {
      const int q = Byte(src + 1 + i);
      out[i] = d * static_cast<float>(kValues[q & 15]);
      out[i + 16] = d * static_cast<float>(kValues[q >> 4]);
    }
  }
};

// 16 bytes of scale (low nibble) and minimum (high nibble), one a run of 16 elements; 64 bytes of
// bit pairs; fp16 d, fp16 dmin. y = (d * scale) * q - (dmin * min). Each half of 128 elements takes
// four runs of 32 from the pairs 0, 1, 2, 3 of 32 bytes.
struct Q2_K {
  static constexpr int64_t kElements = 256, kBytes = 84;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src + 80));
    const float dmin = HalfToFloat(Load16(src + 82));
    for (int run = 0; run < 16; ++run) {
      const std::byte* pairs = src + 16 + 32 * (run / 8) + 16 * (run % 2);
      const int shift = run % 8 / 2 * 2;
      const float scale = d * static_cast<float>(Byte(src + run) & 15);
      const float minimum = dmin * static_cast<float>(Byte(src + run) >> 4);
      for (int i = 0; i < 16; ++i) {
        const int q = Byte(pairs + i) >> shift & 3;
        out[16 * run + i] = scale * static_cast<float>(q) - minimum;
      }
    }
  }
};

// 32 bytes of third bits, 64 bytes of bit pairs as in Q2_K, 12 bytes of 16 six-bit scales, fp16 d.
// y = (d * (scale - 32)) * (pair - (third bit ? 0 : 4)). Bit k of the third bits serves the
// elements from 32 k.
struct Q3_K {
  static constexpr int64_t kElements = 256, kBytes = 110;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src + 108));
    for (int run = 0; run < 16; ++run) {
      const std::byte* pairs = src + 32 + 32 * (run / 8) + 16 * (run % 2);
      const std::byte* thirds = src + 16 * (run % 2);
      const int shift = run % 8 / 2 * 2;
      const float scale = d * static_cast<float>(Scale(src + 96, run) - 32);
      for (int i = 0; i < 16; ++i) {
        const int offset = (Byte(thirds + i) >> (run / 2) & 1) != 0 ? 0 : 4;
        out[16 * run + i] = scale * static_cast<float>((Byte(pairs + i) >> shift & 3) - offset);
      }
    }
  }

 private:
  // Low nibbles of scales 0..7, then high nibbles 8..15, in 8 bytes; upper pairs in four more, byte
  // i holding those of i, i + 4, i + 8, i + 12.
  static int Scale(const std::byte* scales, int i) {
    const int low = Byte(scales + i % 8) >> (i < 8 ? 0 : 4) & 15;
    const int high = Byte(scales + 8 + i % 4) >> (i / 4 * 2) & 3;
    return low | high << 4;
  }
};

// 12 bytes of 8 scales and 8 minima of six bits: those of runs 0..3 lie in the low six bits of
// bytes 0..3 and 4..7, of runs 4..7 in the nibbles of bytes 8..11 and the upper pairs of bytes
// 0..7.
struct ScaleAndMin {
  int scale, minimum;
  static ScaleAndMin Of(const std::byte* packed, int run) {
    if (run < 4) return {Byte(packed + run) & 63, Byte(packed + run + 4) & 63};
    const int nibbles = Byte(packed + run + 4);
    return {(nibbles & 15) | (Byte(packed + run - 4) >> 6) << 4,
            nibbles >> 4 | (Byte(packed + run) >> 6) << 4};
  }
};

// fp16 d, fp16 dmin, scales and minima of 8 runs of 32, 128 bytes of nibbles: 32 bytes serve two
// runs, low nibbles first. y = (d * scale) * q - (dmin * min).
struct Q4_K {
  static constexpr int64_t kElements = 256, kBytes = 144;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    const float dmin = HalfToFloat(Load16(src + 2));
    for (int run = 0; run < 8; ++run) {
      const ScaleAndMin packed = ScaleAndMin::Of(src + 4, run);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const std::byte* nibbles = src + 16 + 32 * (run / 2);
      for (int i = 0; i < 32; ++i) {
        const int q = Byte(nibbles + i) >> (run % 2 * 4) & 15;
        out[32 * run + i] = scale * static_cast<float>(q) - minimum;
      }
    }
  }
};

// As Q4_K, with 32 bytes of fifth bits before the nibbles, bit k of which serves run k.
struct Q5_K {
  static constexpr int64_t kElements = 256, kBytes = 176;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    const float dmin = HalfToFloat(Load16(src + 2));
    for (int run = 0; run < 8; ++run) {
      const ScaleAndMin packed = ScaleAndMin::Of(src + 4, run);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const std::byte* nibbles = src + 48 + 32 * (run / 2);
      for (int i = 0; i < 32; ++i) {
        const int fifth = (Byte(src + 16 + i) >> run & 1) << 4;
        const int q = (Byte(nibbles + i) >> (run % 2 * 4) & 15) | fifth;
        out[32 * run + i] = scale * static_cast<float>(q) - minimum;
      }
    }
  }
};

// 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales, fp16 d.
// y = (d * scale) * (q - 32); a scale serves 16 elements. Each half of 128 elements interleaves
// four runs of 32: nibbles low, low, high, high; bit pairs 0, 1, 2, 3.
struct Q6_K {
  static constexpr int64_t kElements = 256, kBytes = 210;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src + 208));
    for (size_t half = 0; half < 2; ++half) {
      const std::byte* low = src + 64 * half;
      const std::byte* high = src + 128 + 32 * half;
      for (size_t run = 0; run < 4; ++run) {
        for (size_t part = 0; part < 2; ++part) {
          const size_t index = 8 * half + 2 * run + part;
          const auto scale = static_cast<int8_t>(Byte(src + 192 + index));
          Run16(low + 32 * (run & 1) + 16 * part, high + 16 * part, run >= 2 ? 4 : 0,
                2 * static_cast<int>(run), d * static_cast<float>(scale), out + 16 * index);
        }
      }
    }
  }

 private:
  static void Run16(const std::byte* low, const std::byte* high, int low_shift, int high_shift,
                    float scale, float* out) {
    for (int i = 0; i < 16; ++i) {
      const int q =
          ((Byte(low + i) >> low_shift) & 15) | (((Byte(high + i) >> high_shift) & 3) << 4);
      out[i] = scale * static_cast<float>(q - 32);
    }
  }
};

// fp16 d, upper pairs of 8 scales in 16 bits, their low nibbles in 4 bytes, then 128 bytes of
// nibbles, 16 a run of 32 elements, as in IQ4_NL. y = (d * (scale - 32)) * value[q].
struct IQ4_XS {
  static constexpr int64_t kElements = 256, kBytes = 136;
  static void Dequantize(const std::byte* src, int64_t, float* out) {
    const float d = HalfToFloat(Load16(src));
    for (int run = 0; run < 8; ++run) {
      const int low = Byte(src + 4 + run / 2) >> (run % 2 * 4) & 15;
      const int high = Load16(src + 2) >> (2 * run) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      for (int i = 0; i < 16; ++i) {
        const int q = Byte(src + 8 + 16 * run + i);
        out[32 * run + i] = scale * static_cast<float>(kIq4Values[q & 15]);
        out[32 * run + 16 + i] = scale * static_cast<float>(kIq4Values[q >> 4]);
      }
    }
  }
};

}  // namespace isobit::block_format

#endif  // ISOBIT_RUNTIME_MODEL_BLOCK_FORMATS_H_
