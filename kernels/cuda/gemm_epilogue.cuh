#ifndef ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_

// From accumulators to memory: bias, residual, SiLU gate, rounding (contract 2 and 5).
//
// A thread owns two tokens, g and g + 8 of its warp's 16, and four neighbouring outputs of each in
// every panel (packed_layout.h says why): a quad. Four lanes store 16 neighbouring outputs.

#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit::cuda {

template <int kTileRows>
class Epilogue {
 public:
  // first_token: of this CTA; row: of this warpgroup's first token in the CTA's tile.
  __device__ Epilogue(const GemmParams& p, const GemmTile& tile, int first_token, int row) : p_(p) {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const int lane = thread % 32;
    const int first_row = row + thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile_row = first_row + 8 * half;
      token_[half] = int64_t{first_token} + tile_row;
      stored_[half] = tile_row < p.tokens && token_[half] < p.rows;
    }
    first_output_ = int64_t{tile.first_panel} * kPlainPanelRows + lane % 4 * 4;
    end_output_ = min(int64_t{tile.first_panel + tile.panels} * kPlainPanelRows, p.outputs);
    if (HasResidual()) LoadResidual<0>();
  }

  __device__ void Store(const float (&d)[kTileRows / 2]) {
    switch (p_.epilogue) {
      case Gemm::Epilogue::kBf16:
        return StoreBf16<0>(d);
      case Gemm::Epilogue::kFp32:
        return StoreFp32(d);
      case Gemm::Epilogue::kSiluGate:
        if constexpr (kTileRows % kGateUpPanelRows == 0) StoreSiluGate(d);
        return;
    }
  }

 private:
  static constexpr int kPanels = kTileRows / kPlainPanelRows;
  // Residuals are loaded some panels ahead: those of the first chunk before the product, each later
  // one before the chunk in front of it is stored.
  static constexpr int kChunkPanels = kPanels < 4 ? kPanels : 4;

  struct Quad {
    float v[4];
  };
  struct Bf16Quad {
    uint32_t low, high;  // two outputs each
  };

  __device__ bool HasResidual() const { return p_.residual != nullptr; }
  __device__ int64_t Output(int panel) const { return first_output_ + panel * kPlainPanelRows; }
  // Outputs of the quad that exist: all four when rows are aligned for vectors.
  __device__ int Count(int panel) const {
    const int64_t left = end_output_ - Output(panel);
    return left >= 4 ? 4 : left > 0 ? static_cast<int>(left) : 0;
  }
  __device__ int64_t Offset(int half, int panel) const {
    return token_[half] * p_.outputs + Output(panel);
  }

  static __device__ Quad PlainQuad(const float (&d)[kTileRows / 2], int panel, int half) {
    const int i = 8 * panel + 2 * half;
    return {d[i], d[i + 1], d[i + 4], d[i + 5]};
  }

  // ---- Memory, four at a time or one by one

  static __device__ Bf16Quad LoadBf16(const Bf16* from, int count, bool vectors) {
    if (vectors) {
      if (count == 0) return {0, 0};
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      return {v.x, v.y};
    }
    uint32_t v[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) v[i] = from[i].bits;
    }
    return {v[0] | v[1] << 16, v[2] | v[3] << 16};
  }

  static __device__ void StoreBf16Quad(const Bf16Quad& quad, Bf16* to, int count, bool vectors) {
    if (vectors) {
      if (count != 0) *reinterpret_cast<uint2*>(to) = uint2{quad.low, quad.high};
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = i < 2 ? quad.low : quad.high;
      if (i < count) to[i] = Bf16{static_cast<uint16_t>(word >> (16 * (i % 2)))};
    }
  }

  static __device__ void StoreFp32Quad(const Quad& quad, float* to, int count, bool vectors) {
    if (vectors) {
      if (count != 0) {
        *reinterpret_cast<float4*>(to) = float4{quad.v[0], quad.v[1], quad.v[2], quad.v[3]};
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) to[i] = quad.v[i];
    }
  }

  __device__ void AddBias(Quad& quad, int panel) const {
    if (p_.bias == nullptr) return;
    const int count = Count(panel);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) quad.v[i] = ieee::Add(quad.v[i], __ldg(p_.bias + Output(panel) + i));
    }
  }

  template <int kFirstPanel>
  __device__ void LoadResidual() {
#pragma unroll
    for (int i = 0; i < kChunkPanels; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int count = stored_[half] && kFirstPanel + i < kPanels ? Count(kFirstPanel + i) : 0;
        residual_[i][half] =
            LoadBf16(p_.residual + Offset(half, kFirstPanel + i), count, p_.vectors);
      }
    }
  }

  // ---- Epilogues

  template <int kFirstPanel>
  __device__ void StoreBf16(const float (&d)[kTileRows / 2]) {
    Bf16Quad residual[kChunkPanels][2];
#pragma unroll
    for (int i = 0; i < kChunkPanels; ++i) {
      residual[i][0] = residual_[i][0];
      residual[i][1] = residual_[i][1];
    }
    constexpr int kNextPanel = kFirstPanel + kChunkPanels;
    if (HasResidual() && kNextPanel < kPanels) LoadResidual<kNextPanel>();
#pragma unroll
    for (int i = 0; i < kChunkPanels; ++i) {
      const int panel = kFirstPanel + i;
      if (panel >= kPanels) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!stored_[half]) continue;
        Quad quad = PlainQuad(d, panel, half);
        AddBias(quad, panel);
        if (HasResidual()) AddResidual(quad, residual[i][half]);
        const Bf16Quad rounded = {sm90::RoundToBf16Pair(quad.v[0], quad.v[1]),
                                  sm90::RoundToBf16Pair(quad.v[2], quad.v[3])};
        StoreBf16Quad(rounded, p_.out_bf16 + Offset(half, panel), Count(panel), p_.vectors);
      }
    }
    if constexpr (kNextPanel < kPanels) StoreBf16<kNextPanel>(d);
  }

  static __device__ void AddResidual(Quad& quad, const Bf16Quad& residual) {
    quad.v[0] = ieee::Add(quad.v[0], BitsFloat(residual.low << 16));
    quad.v[1] = ieee::Add(quad.v[1], BitsFloat(residual.low & 0xffff0000u));
    quad.v[2] = ieee::Add(quad.v[2], BitsFloat(residual.high << 16));
    quad.v[3] = ieee::Add(quad.v[3], BitsFloat(residual.high & 0xffff0000u));
  }

  __device__ void StoreFp32(const float (&d)[kTileRows / 2]) {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!stored_[half]) continue;
        Quad quad = PlainQuad(d, panel, half);
        AddBias(quad, panel);
        StoreFp32Quad(quad, p_.out_fp32 + Offset(half, panel), Count(panel), p_.vectors);
      }
    }
  }

  // Gate and up of output j of the quad are neighbours in the accumulators.
  __device__ void StoreSiluGate(const float (&d)[kTileRows / 2]) {
#pragma unroll
    for (int panel = 0; panel < kPanels / 2; ++panel) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!stored_[half] || Count(panel) == 0) continue;
        uint32_t gated[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int i = 16 * panel + 4 * j + 2 * half;
          gated[j] = SiluGate(RoundToBf16(d[i]), RoundToBf16(d[i + 1])).bits;
        }
        const Bf16Quad quad = {gated[0] | gated[1] << 16, gated[2] | gated[3] << 16};
        StoreBf16Quad(quad, p_.out_bf16 + Offset(half, panel), Count(panel), p_.vectors);
      }
    }
  }

  const GemmParams& p_;
  int64_t token_[2];
  bool stored_[2];
  int64_t first_output_;  // of this thread's first quad
  int64_t end_output_;    // of the tile
  Bf16Quad residual_[kChunkPanels][2];
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
