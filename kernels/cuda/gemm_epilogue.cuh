#ifndef ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_

// From accumulators to memory: bias, scale, residual, gates, rounding (contract 2 and 5).
//
// Every warp stores the 16 tokens whose products it holds, without meeting other warps. Results in
// bf16 go through the warp's own piece of shared memory, one row a token, so that memory sees whole
// rows; a tile with more columns than fit goes in parts. The residual comes the same way: it lies
// there before the result is added. fp32 results go to memory directly.
//
// Launches of many large tiles (GemmParams::async_stores) hand rows to the copy engine and go on
// with the next tile while these are on their way: all CTAs finish tiles at about the same time,
// and memory can't take all they have at once.
//
// A thread owns two tokens, g and g + 8 of its warp's 16 (g = lane / 4), and of each four
// neighbouring outputs a group of panels (packed_layout.h): a quad.

#include "kernels/cuda/gate.cuh"
#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/sm90/async_proxy.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/cuda/sm90/copy.h"
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

template <int kTileRows>
class Epilogue {
 public:
  using Accumulators = float[kTileRows / 2];

  // staging: of this warp, StagingBytes(kTileRows) of it.
  __device__ Epilogue(const GemmParams& p, uint8_t* staging)
      : p_(p), staging_(staging), lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Before the product: what can be loaded early.
  __device__ void Prepare(const OutputTile& tile) {
    if (p_.residual == nullptr) return;
    WaitForStaging();
    LoadResidual(tile, 0);
  }

  __device__ void Store(const OutputTile& tile, const Accumulators& d) {
    switch (p_.epilogue) {
      case Gemm::Epilogue::kFp32:
        StoreFp32(tile, d);
        return;
      case Gemm::Epilogue::kBf16:
        StorePart<0>(tile, d);
        return;
      case Gemm::Epilogue::kSiluGate:
        WaitForStaging();
        StageGate<SiluGateFunction>(tile, d);
        Drain(tile, 0, kTileRows / 2);
        return;
      case Gemm::Epilogue::kGeluGate:
        WaitForStaging();
        StageGate<GeluGateFunction>(tile, d);
        Drain(tile, 0, kTileRows / 2);
        return;
    }
  }

  // After the last tile.
  __device__ void Finish() const {
    if (p_.async_stores) sm90::WaitBulkStores();
  }

 private:
  static constexpr int kGroups = kTileRows / kPanelRows;  // of one panel
  static constexpr int kPartOutputs = StagingOutputs(kTileRows);
  static constexpr int kPartGroups = kPartOutputs / kGroupOutputs;
  static constexpr int kParts = (kTileRows + kPartOutputs - 1) / kPartOutputs;
  static constexpr int kPitch = StagingPitch(kTileRows);
  static constexpr int kChunkOutputs = 8;  // 16 bytes of bf16

  struct Quad {
    float v[4];
  };

  template <int kPart>
  __device__ void StorePart(const OutputTile& tile, const Accumulators& d) {
    constexpr int kFirstGroup = kPart * kPartGroups;
    if (kPart > 0 || p_.residual == nullptr) WaitForStaging();
    if (kPart > 0 && p_.residual != nullptr) LoadResidual(tile, kFirstGroup * kGroupOutputs);
    StageBf16<kFirstGroup>(tile, d);
    Drain(tile, kFirstGroup * kGroupOutputs, kPartOutputs);
    if constexpr (kPart + 1 < kParts) StorePart<kPart + 1>(tile, d);
  }

  // ---- Between memory and the staging area, whole warp

  // Calls f(staged chunk, offset of its first output in the matrix, outputs that exist) for the
  // chunks of columns [first, first + count), spread over the lanes.
  template <typename F>
  __device__ void ForEachChunk(const OutputTile& tile, int first, int count, F f) const {
    const int chunks = count / kChunkOutputs;
#pragma unroll 4
    for (int i = lane_; i < tile.tokens * chunks; i += 32) {
      const int row = i / chunks;
      const int column = (i - row * chunks) * kChunkOutputs;
      const int exist = tile.outputs - first - column;
      if (exist <= 0) continue;
      f(staging_ + row * kPitch + 2 * column,
        (tile.first_token + row) * p_.outputs + tile.first_output + first + column,
        min(exist, kChunkOutputs));
    }
  }

  __device__ void LoadResidual(const OutputTile& tile, int first) {
    ForEachChunk(tile, first, kPartOutputs, [&](uint8_t* staged, int64_t at, int exist) {
      uint4 chunk = {};
      if (p_.vectors) {
        chunk = *reinterpret_cast<const uint4*>(p_.residual + at);
      } else {
        auto* elements = reinterpret_cast<Bf16*>(&chunk);
#pragma unroll
        for (int i = 0; i < kChunkOutputs; ++i) {
          if (i < exist) elements[i] = p_.residual[at + i];
        }
      }
      *reinterpret_cast<uint4*>(staged) = chunk;
    });
    __syncwarp();
  }

  __device__ void Drain(const OutputTile& tile, int first, int count) {
    if (p_.async_stores) {
      DrainAsync(tile, first, count);
      return;
    }
    __syncwarp();
    ForEachChunk(tile, first, count, [&](uint8_t* staged, int64_t at, int exist) {
      const uint4 chunk = *reinterpret_cast<const uint4*>(staged);
      if (p_.vectors) {
        *reinterpret_cast<uint4*>(p_.out_bf16 + at) = chunk;
        return;
      }
      const auto* elements = reinterpret_cast<const Bf16*>(&chunk);
#pragma unroll
      for (int i = 0; i < kChunkOutputs; ++i) {
        if (i < exist) p_.out_bf16[at + i] = elements[i];
      }
    });
    __syncwarp();
  }

  // A lane a row.
  __device__ void DrainAsync(const OutputTile& tile, int first, int count) {
    sm90::FenceAsyncProxy();
    __syncwarp();
    const int exist = min(tile.outputs - first, count);
    if (lane_ < tile.tokens && exist > 0) {
      Bf16* to = p_.out_bf16 + (tile.first_token + lane_) * p_.outputs + tile.first_output + first;
      const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(staging_ + lane_ * kPitch));
      sm90::BulkStore(to, from, exist * sizeof(Bf16));
    }
    sm90::CommitBulkStores();
  }

  // Until stores of this warp have left the staging area.
  __device__ void WaitForStaging() const {
    if (!p_.async_stores) return;
    sm90::WaitBulkStoresRead();
    __syncwarp();
  }

  // ---- From accumulators

  // Calls f(group, half, row, output) for the quads of this thread that exist, in groups
  // [kFirst, kFirst + kCount).
  template <int kFirst, int kCount, typename F>
  __device__ void ForEachQuad(const OutputTile& tile, F f) const {
#pragma unroll
    for (int group = kFirst; group < kFirst + kCount; ++group) {
      const int output = group * kGroupOutputs + lane_ % 4 * 4;
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

  template <int kFirstGroup>
  __device__ void StageBf16(const OutputTile& tile, const Accumulators& d) {
    constexpr int kCount =
        kGroups - kFirstGroup < kPartGroups ? kGroups - kFirstGroup : kPartGroups;
    ForEachQuad<kFirstGroup, kCount>(tile, [&](int group, int half, int row, int output) {
      Quad quad = PlainQuad(d, group, half);
      AddBiasAndScale(tile, output, quad);
      auto* staged = reinterpret_cast<uint2*>(staging_ + row * kPitch +
                                              2 * (output - kFirstGroup * kGroupOutputs));
      if (p_.residual != nullptr) {
        const uint2 residual = *staged;
        quad.v[0] = ieee::Add(quad.v[0], BitsFloat(residual.x << 16));
        quad.v[1] = ieee::Add(quad.v[1], BitsFloat(residual.x & 0xffff0000u));
        quad.v[2] = ieee::Add(quad.v[2], BitsFloat(residual.y << 16));
        quad.v[3] = ieee::Add(quad.v[3], BitsFloat(residual.y & 0xffff0000u));
      }
      *staged = uint2{sm90::RoundToBf16Pair(quad.v[0], quad.v[1]),
                      sm90::RoundToBf16Pair(quad.v[2], quad.v[3])};
    });
  }

  // Gate and up of one output are neighbours in the accumulators.
  template <typename Gate>
  __device__ void StageGate(const OutputTile& tile, const Accumulators& d) {
    ForEachQuad<0, kGroups / 2>(tile, [&](int group, int half, int row, int output) {
      const int i = 16 * group + 2 * half;
      const uint4 pairs = {
          sm90::RoundToBf16Pair(d[i], d[i + 1]), sm90::RoundToBf16Pair(d[i + 4], d[i + 5]),
          sm90::RoundToBf16Pair(d[i + 8], d[i + 9]), sm90::RoundToBf16Pair(d[i + 12], d[i + 13])};
      *reinterpret_cast<uint2*>(staging_ + row * kPitch + 2 * output) = GateQuad<Gate>(pairs);
    });
  }

  __device__ void StoreFp32(const OutputTile& tile, const Accumulators& d) {
    ForEachQuad<0, kGroups>(tile, [&](int group, int half, int row, int output) {
      Quad quad = PlainQuad(d, group, half);
      AddBiasAndScale(tile, output, quad);
      float* to = p_.out_fp32 + (tile.first_token + row) * p_.outputs + tile.first_output + output;
      if (p_.vectors) {
        *reinterpret_cast<float4*>(to) = float4{quad.v[0], quad.v[1], quad.v[2], quad.v[3]};
        return;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (output + i < tile.outputs) to[i] = quad.v[i];
      }
    });
  }

  const GemmParams& p_;
  uint8_t* const staging_;
  const int lane_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
