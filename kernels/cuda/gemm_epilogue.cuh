#ifndef ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_

// From accumulators to memory: bias, scale, residual, gates, rounding (contract 2 and 5).
//
// Every warp stores the 16 tokens whose products it holds, without meeting other warps. Results in
// bf16 go through the warp's own piece of shared memory, one row a token and up to 64 outputs at a
// time, so that memory sees whole lines. The residual waits in registers.
// fp32 results go to memory directly. (__stcg and __ldcg keep the compiler from splitting vectors.)
//
// A thread owns two tokens, g and g + 8 of its warp's 16 (g = lane / 4), and of each four
// neighbouring outputs a group of panels (packed_layout.h): a quad. `half` tells the tokens apart.

#include "kernels/cuda/gate.cuh"
#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/qkv_store.cuh"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

// Where one warp's part of a tile lies in the output.
struct OutputTile {
  int64_t first_token;
  int tokens;  // that exist, at most 16
  int64_t first_output;
  int outputs;  // that exist

  // first_token: of the CTA's tile; warp: in the CTA.
  __device__ OutputTile(const GemmParams& p, const GemmTile& tile, int cta_token, int warp) {
    const int row = kWarpTokens * warp;
    first_token = int64_t{cta_token} + row;
    const int64_t left = min(p.rows - first_token, int64_t{p.tokens - row});
    tokens = static_cast<int>(max(int64_t{0}, min(int64_t{kWarpTokens}, left)));
    first_output = int64_t{tile.first_group} * kGroupOutputs;
    outputs = static_cast<int>(min(int64_t{tile.groups} * kGroupOutputs, p.outputs - first_output));
  }
};

// kResidualParts: parts of the residual that wait in registers, in turn.
template <int kTileRows, int kResidualParts>
class Epilogue {
 public:
  using Accumulators = float[kTileRows / 2];

  // staging: of this warp, StagingBytes(kTileRows) of it; there is none for warps without tokens.
  __device__ Epilogue(const GemmParams& p, uint8_t* staging)
      : p_(p), staging_(staging), lane_(static_cast<int>(threadIdx.x) % 32), qkv_(p.qkv, staging) {}

  // Before the product, and before the kernels in front have ended: what these don't write.
  __device__ void PrepareEarly(const OutputTile& tile) {
    if (IsQkv()) qkv_.Prepare(tile.first_token, tile.tokens, FirstPanel(tile), Panels(tile));
  }

  // Before the product: what can be loaded early.
  __device__ void Prepare(const OutputTile& tile) {
    if (p_.residual == nullptr) return;
#pragma unroll
    for (int part = 0; part < kResidualParts; ++part) LoadResidual(tile, part);
  }

  // In a rehearsal, of one token, results go no further than the staging area.
  __device__ void Store(const OutputTile& tile, bool is_rehearsal, const Accumulators& d) {
    is_rehearsal_ = is_rehearsal;
    if (tile.tokens == 0) return;
    if (IsQkv()) {
      StoreQkv<0>(tile, d);
      return;
    }
    switch (p_.epilogue) {
      case Gemm::Epilogue::kBf16:
        StoreBf16(tile, d);
        return;
      case Gemm::Epilogue::kSiluGate:
        StoreGated<SiluGateFunction>(tile, d);
        return;
      case Gemm::Epilogue::kGeluGate:
        StoreGated<GeluGateFunction>(tile, d);
        return;
      case Gemm::Epilogue::kFp32:
        StoreFp32(tile, d);
        return;
    }
  }

 private:
  static constexpr int kGroups = kTileRows / kPanelRows;  // of one panel
  static constexpr int kPartOutputs = StagingOutputs(kTileRows);
  static constexpr int kPartGroups = kPartOutputs / kGroupOutputs;
  static constexpr int kPitch = StagingPitch(kTileRows);
  static constexpr int kChunkOutputs = 8;                                  // 16 bytes of bf16
  static constexpr int kResidualQuads = 2 * kPartGroups * kResidualParts;  // of a thread

  struct Quad {
    float v[4];
  };

  // ---- Kinds of results

  __device__ void StoreBf16(const OutputTile& tile, const Accumulators& d) {
    const auto plain = [&]<int kCount>(int first, int half, uint2(&quads)[kCount]) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) quads[i] = Round(PlainQuad(d, first + i, half));
    };
    const auto changed = [&]<int kCount>(int first, int half, uint2(&quads)[kCount]) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        Quad quad = PlainQuad(d, first + i, half);
        AddBiasAndScale(tile, FirstOutput(first + i), quad);
        if (p_.residual != nullptr) AddResidual(Residual(first + i, half), quad);
        quads[i] = Round(quad);
      }
    };
    if (p_.residual == nullptr && p_.bias == nullptr && p_.scale == 1.0f) {
      StoreParts<0, kGroups, false>(tile, plain);
    } else {
      StoreParts<0, kGroups, true>(tile, changed);
    }
  }

  template <typename Gate>
  __device__ void StoreGated(const OutputTile& tile, const Accumulators& d) {
    const auto gated = [&]<int kCount>(int first, int half, uint2(&quads)[kCount]) {
      uint4 pairs[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) pairs[i] = GatePairs(d, first + i, half);
      GateQuads<Gate>(pairs, quads);
    };
    if constexpr (kGroups >= 2) StoreParts<0, kGroups / 2, false>(tile, gated);
  }

  __device__ void StoreFp32(const OutputTile& tile, const Accumulators& d) {
    ForEachQuad<0, kGroups>(tile, [&](int group, int half, int row, int output) {
      Quad quad = PlainQuad(d, group, half);
      AddBiasAndScale(tile, output, quad);
      if (is_rehearsal_) return;
      float* to = p_.out_fp32 + (tile.first_token + row) * p_.outputs + tile.first_output + output;
      if (p_.vectors) {
        __stcg(reinterpret_cast<float4*>(to), float4{quad.v[0], quad.v[1], quad.v[2], quad.v[3]});
        return;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (output + i < tile.outputs) to[i] = quad.v[i];
      }
    });
  }

  // ---- Heads of a QkvProjection (qkv_store.cuh)

  __device__ bool IsQkv() const { return p_.qkv.heads > 0; }
  static __device__ int FirstPanel(const OutputTile& tile) {
    return static_cast<int>(tile.first_output / kGroupOutputs);
  }
  static __device__ int Panels(const OutputTile& tile) { return tile.outputs / kGroupOutputs; }

  // Panels are staged one behind the other, each as its two runs of 8 dimensions.
  template <int kFirst>
  __device__ void StoreQkv(const OutputTile& tile, const Accumulators& d) {
    constexpr int kCount = kGroups - kFirst < kPartGroups ? kGroups - kFirst : kPartGroups;
    ForEachQuad<kFirst, kCount>(tile, [&](int group, int half, int row, int) {
      Quad quad = PlainQuad(d, group, half);
      if (p_.bias != nullptr) qkv_.AddBias(p_.bias, FirstPanel(tile) + group, quad.v);
#pragma unroll
      for (int i = 0; i < 4; ++i) quad.v[i] = ieee::Mul(quad.v[i], p_.scale);
      const uint2 rounded = Round(quad);
      auto* staged = reinterpret_cast<uint32_t*>(
          staging_ + row * kPitch + 2 * (group - kFirst) * kGroupOutputs + lane_ % 4 * 4);
      staged[0] = rounded.x;
      staged[kRunDims / 2] = rounded.y;
    });
    __syncwarp();
    qkv_.Store(tile.first_token, tile.tokens, FirstPanel(tile) + kFirst,
               min(Panels(tile) - kFirst, kCount), is_rehearsal_);
    __syncwarp();
    if constexpr (kFirst + kCount < kGroups) StoreQkv<kFirst + kCount>(tile, d);
  }

  // ---- Through the staging area

  // Stores groups [kFirst, kEnd). pack(first, half, quads) gives the quads of groups from `first`
  // on in bf16.
  template <int kFirst, int kEnd, bool kAddsResidual, typename Pack>
  __device__ void StoreParts(const OutputTile& tile, Pack pack) {
    constexpr int kCount = kEnd - kFirst < kPartGroups ? kEnd - kFirst : kPartGroups;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane_ / 4 + 8 * half;
      if (row >= tile.tokens) continue;
      uint2 quads[kCount];
      pack(kFirst, half, quads);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        *reinterpret_cast<uint2*>(staging_ + row * kPitch + 2 * FirstOutput(i)) = quads[i];
      }
    }
    if constexpr (kAddsResidual) {
      if (p_.residual != nullptr) LoadResidual(tile, kFirst / kPartGroups + kResidualParts);
    }
    __syncwarp();
    Drain<kCount * kGroupOutputs>(tile, kFirst * kGroupOutputs);
    __syncwarp();
    if constexpr (kFirst + kCount < kEnd) {
      StoreParts<kFirst + kCount, kEnd, kAddsResidual>(tile, pack);
    }
  }

  // What is staged, to outputs [first, first + kOutputs) of the tile.
  template <int kOutputs>
  __device__ void Drain(const OutputTile& tile, int first) const {
    constexpr int kRowChunks = kOutputs / kChunkOutputs;
    constexpr int kSteps = kWarpTokens * kRowChunks / 32;
    static_assert(kWarpTokens * kRowChunks % 32 == 0);
    Bf16* out = p_.out_bf16 + tile.first_token * p_.outputs + tile.first_output + first;
    const int outputs = tile.outputs - first;
    const int tokens = is_rehearsal_ ? 0 : tile.tokens;
    if (p_.vectors) {
      uint4 chunks[kSteps];
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const int chunk = 32 * i + lane_;
        chunks[i] = *reinterpret_cast<const uint4*>(staging_ + chunk / kRowChunks * kPitch +
                                                    chunk % kRowChunks * sizeof(uint4));
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const int row = (32 * i + lane_) / kRowChunks;
        const int column = (32 * i + lane_) % kRowChunks * kChunkOutputs;
        if (row < tokens && column < outputs) {
          __stcg(reinterpret_cast<uint4*>(out + row * p_.outputs + column), chunks[i]);
        }
      }
      return;
    }
#pragma unroll 1
    for (int i = lane_; i < tokens * kOutputs; i += 32) {
      const int row = i / kOutputs;
      const int column = i % kOutputs;
      if (column >= outputs) continue;
      out[row * p_.outputs + column] =
          *reinterpret_cast<const Bf16*>(staging_ + row * kPitch + 2 * column);
    }
  }

  // ---- The residual

  // For a part of the tile, if there is one.
  __device__ void LoadResidual(const OutputTile& tile, int part) {
    const Bf16* from = p_.residual + tile.first_token * p_.outputs + tile.first_output;
#pragma unroll
    for (int i = 0; i < kPartGroups; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int group = part * kPartGroups + i;
        if (group >= kGroups) continue;
        const int row = lane_ / 4 + 8 * half;
        const int exist = row < tile.tokens ? tile.outputs - FirstOutput(group) : 0;
        const Bf16* at = from + row * p_.outputs + FirstOutput(group);
        uint2& quad = Residual(group, half);
        if (p_.vectors) {
          quad = exist > 0 ? __ldcg(reinterpret_cast<const uint2*>(at)) : uint2{};
        } else {
          quad = LoadSingly(at, exist);
        }
      }
    }
  }

  __device__ uint2& Residual(int group, int half) {
    return residual_[(2 * group + half) % kResidualQuads];
  }

  static __device__ uint2 LoadSingly(const Bf16* from, int exist) {
    uint32_t elements[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) elements[i] = i < exist ? from[i].bits : 0;
    return {elements[0] | elements[1] << 16, elements[2] | elements[3] << 16};
  }

  static __device__ void AddResidual(uint2 residual, Quad& quad) {
    quad.v[0] = ieee::Add(quad.v[0], BitsFloat(residual.x << 16));
    quad.v[1] = ieee::Add(quad.v[1], BitsFloat(residual.x & 0xffff0000u));
    quad.v[2] = ieee::Add(quad.v[2], BitsFloat(residual.y << 16));
    quad.v[3] = ieee::Add(quad.v[3], BitsFloat(residual.y & 0xffff0000u));
  }

  // ---- From accumulators

  // Of this thread's quad in a group, from the first output of the group with number 0.
  __device__ int FirstOutput(int group) const { return group * kGroupOutputs + lane_ % 4 * 4; }

  // Calls f(group, half, row, output) for the quads of this thread that exist, in groups
  // [kFirst, kFirst + kCount).
  template <int kFirst, int kCount, typename F>
  __device__ void ForEachQuad(const OutputTile& tile, F f) const {
#pragma unroll
    for (int group = kFirst; group < kFirst + kCount; ++group) {
      const int output = FirstOutput(group);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane_ / 4 + 8 * half;
        if (row < tile.tokens && output < tile.outputs) f(group, half, row, output);
      }
    }
  }

  static __device__ Quad PlainQuad(const Accumulators& d, int group, int half) {
    const int i = 8 * group + 2 * half;
    return {d[i], d[i + 1], d[i + 4], d[i + 5]};
  }

  // Gate and up of one output are neighbours in the accumulators.
  static __device__ uint4 GatePairs(const Accumulators& d, int group, int half) {
    const int i = 16 * group + 2 * half;
    return {sm90::RoundToBf16Pair(d[i], d[i + 1]), sm90::RoundToBf16Pair(d[i + 4], d[i + 5]),
            sm90::RoundToBf16Pair(d[i + 8], d[i + 9]), sm90::RoundToBf16Pair(d[i + 12], d[i + 13])};
  }

  static __device__ uint2 Round(const Quad& quad) {
    return {sm90::RoundToBf16Pair(quad.v[0], quad.v[1]),
            sm90::RoundToBf16Pair(quad.v[2], quad.v[3])};
  }

  __device__ void AddBiasAndScale(const OutputTile& tile, int output, Quad& quad) const {
    if (p_.bias != nullptr) {
      const float* bias = p_.bias + tile.first_output + output;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (output + i < tile.outputs) quad.v[i] = ieee::Add(quad.v[i], __ldg(bias + i));
      }
    }
    // Times 1 changes nothing.
#pragma unroll
    for (int i = 0; i < 4; ++i) quad.v[i] = ieee::Mul(quad.v[i], p_.scale);
  }

  const GemmParams& p_;
  uint8_t* const staging_;
  const int lane_;
  bool is_rehearsal_ = false;
  uint2 residual_[kResidualQuads];
  QkvStore<2 * kPartOutputs, kPitch, /*kKeepsAngles=*/(kGroups <= kPartGroups)> qkv_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
