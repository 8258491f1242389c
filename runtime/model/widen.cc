#include "runtime/model/widen.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"

namespace isobit {
namespace {

// Formats below are ggml's (ggml-common.h and ggml-quants.c describe them). Each is one struct:
//   kElements, kBytes   size of a block
//   Dequantize          one block from unaligned bytes to floats
// The loops have no branches, so that the compiler vectorises them for any instruction set; fp32
// operations are IEEE and uncontracted, so every instruction set gives the same bits.

// As ToFloat(Fp16), with selects in place of branches.
float HalfToFloat(uint16_t half) {
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

uint8_t Byte(const std::byte* from) { return static_cast<uint8_t>(*from); }

uint16_t Load16(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

// The plain types have blocks of one element; a run of them is one "block" here, so that the loop
// inside is long enough to vectorise. Rows need not be a multiple of the run.
constexpr int64_t kRun = 64;

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

template <typename Format>
void DequantizeAll(const std::byte* src, int64_t n, float* out) {
  constexpr int64_t kStep = Format::kElements == 1 ? kRun : Format::kElements;
  for (int64_t i = 0; i < n; i += kStep) {
    Format::Dequantize(src + i / Format::kElements * Format::kBytes, std::min(kStep, n - i),
                       out + i);
  }
}

template <typename Format>
void WidenAll(const std::byte* src, int64_t n, Bf16* out) {
  constexpr int64_t kStep = Format::kElements == 1 ? kRun : Format::kElements;
  float block[kStep] = {};
  for (int64_t i = 0; i < n; i += kStep) {
    const int64_t count = std::min(kStep, n - i);
    Format::Dequantize(src + i / Format::kElements * Format::kBytes, count, block);
    for (int64_t j = 0; j < count; ++j) out[i + j] = RoundToBf16(block[j]);
  }
}

struct Widener {
  TensorType type;
  void (*dequantize)(const std::byte*, int64_t, float*);
  void (*widen)(const std::byte*, int64_t, Bf16*);
};

template <typename Format>
constexpr Widener For(TensorType type) {
  return {type, &DequantizeAll<Format>, &WidenAll<Format>};
}

constexpr Widener kWideners[] = {
    For<F32>(TensorType::kF32),   For<F16>(TensorType::kF16),   For<BF16>(TensorType::kBF16),
    For<Q4_0>(TensorType::kQ4_0), For<Q4_1>(TensorType::kQ4_1), For<Q8_0>(TensorType::kQ8_0),
    For<Q6_K>(TensorType::kQ6_K),
};

const Widener* Find(TensorType type) {
  for (const Widener& widener : kWideners) {
    if (widener.type == type) return &widener;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckWidenable(TensorType type) {
  if (Find(type) != nullptr) return absl::OkStatus();
  std::string known;
  for (const Widener& widener : kWideners) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", Absl(NameOf(widener.type)));
  }
  return absl::UnimplementedError(absl::StrCat("element type ", Absl(NameOf(type)),
                                               " is not supported (supported: ", known, ")"));
}

void WidenRow(TensorType type, const std::byte* src, int64_t n, Bf16* out) {
  Find(type)->widen(src, n, out);
}

void DequantizeRow(TensorType type, const std::byte* src, int64_t n, float* out) {
  Find(type)->dequantize(src, n, out);
}

}  // namespace isobit
