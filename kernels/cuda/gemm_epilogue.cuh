#ifndef ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_

// From accumulators to memory: bias, residual, SiLU gate, rounding (contract 2 and 5).
//
// Results in bf16 go through a staging area in shared memory, one row a token, so that memory sees
// whole rows; rows belong to warps, and warps need not meet. The residual comes the same way: it
// lies in the staging area before the product is ready. fp32 results go to memory directly.
//
// A thread of a warpgroup owns two tokens, g and g + 8 of its warp's 16, and of each four
// neighbouring outputs a group of panels (packed_layout.h): a quad.

#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/silu_gate.cuh"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

// Where one CTA's part of a tile lies in the output.
struct OutputTile {
  int64_t first_token;
  int tokens;  // that exist
  int64_t first_output;
  int outputs;  // that exist

  __device__ OutputTile(const GemmParams& p, const GemmTile& tile, int first_row) {
    first_token = first_row;
    const int64_t rows_left = p.rows - first_row;
    tokens = rows_left < 0 ? 0 : static_cast<int>(min(int64_t{p.tokens}, rows_left));
    first_output = int64_t{tile.first_group} * kGroupOutputs;
    outputs = static_cast<int>(min(int64_t{tile.groups} * kGroupOutputs, p.outputs - first_output));
  }
};

template <int kTileRows>
class Epilogue {
 public:
  using Accumulators = float[kTileRows / 2];

  __device__ Epilogue(const GemmParams& p, uint8_t* staging) : p_(p), staging_(staging) {}

  // Brings the residual of `count` tokens, from tile row `row` on, into the staging area. By one
  // warp.
  __device__ void LoadResidual(const OutputTile& tile, int row, int count) {
    if (p_.residual == nullptr) return;
    ForEachChunk<kChunkOutputs>(tile, row, count, [&](uint8_t* staged, int64_t at, int exist) {
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
  }

  // Finishes a warpgroup's accumulators and puts them into the staging area: outputs, or gates and
  // ups side by side. row: of the warpgroup's first token.
  __device__ void Stage(const OutputTile& tile, const Accumulators& d, int row) {
    if (p_.epilogue == Gemm::Epilogue::kSiluGate) {
      StageGateUp(tile, d, row);
    } else {
      StageBf16(tile, d, row);
    }
  }

  // Stores staged tokens. By one warp.
  __device__ void Drain(const OutputTile& tile, int row, int count) {
    if (p_.epilogue == Gemm::Epilogue::kSiluGate) {
      ForEachChunk<kChunkOutputs / 2>(
          tile, row, count, [&](uint8_t* staged, int64_t at, int exist) {
            StoreElements<uint2>(SiluGateQuad(*reinterpret_cast<const uint4*>(staged)),
                                 p_.out_bf16 + at, exist);
          });
    } else {
      ForEachChunk<kChunkOutputs>(tile, row, count, [&](uint8_t* staged, int64_t at, int exist) {
        StoreElements<uint4>(*reinterpret_cast<const uint4*>(staged), p_.out_bf16 + at, exist);
      });
    }
  }

  // Stores a warpgroup's accumulators as fp32, plus bias.
  __device__ void StoreFp32(const OutputTile& tile, const Accumulators& d, int row) {
    ForEachQuad(tile, row, [&](int group, int half, int tile_row, int output) {
      Quad quad = PlainQuad(d, group, half);
      const int exist = tile.outputs - output;
      AddBias(tile, output, exist, quad);
      float* to =
          p_.out_fp32 + (tile.first_token + tile_row) * p_.outputs + tile.first_output + output;
      if (p_.vectors) {
        *reinterpret_cast<float4*>(to) = float4{quad.v[0], quad.v[1], quad.v[2], quad.v[3]};
        return;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < exist) to[i] = quad.v[i];
      }
    });
  }

 private:
  static constexpr int kPitch = StagingPitch(kTileRows);
  static constexpr int kChunks = kTileRows / 8;  // 16 bytes each, a row
  static constexpr int kChunkOutputs = 8;        // in bf16

  struct Quad {
    float v[4];
  };

  // Calls f(staged chunk, offset of its first output in the matrix, outputs that exist) for all
  // chunks of `count` rows, spread over the lanes of a warp.
  template <int kOutputs, typename F>
  __device__ void ForEachChunk(const OutputTile& tile, int row, int count, F f) const {
    const int end = min(count, tile.tokens - row) * kChunks;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x) % 32; i < end; i += 32) {
      const int tile_row = row + i / kChunks;
      const int chunk = i % kChunks;
      const int exist = tile.outputs - chunk * kOutputs;
      if (exist <= 0) continue;
      f(staging_ + tile_row * kPitch + chunk * 16,
        (tile.first_token + tile_row) * p_.outputs + tile.first_output + chunk * kOutputs,
        min(exist, kOutputs));
    }
  }

  // Calls f(group, half, row in the tile, output in the tile) for the quads of this thread that
  // exist. Groups of one panel.
  template <typename F>
  static __device__ void ForEachQuad(const OutputTile& tile, int row, F f) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first_row = row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int group = 0; group < kTileRows / kPanelRows; ++group) {
      const int output = group * kGroupOutputs + lane % 4 * 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int tile_row = first_row + 8 * half;
        if (tile_row < tile.tokens && output < tile.outputs) f(group, half, tile_row, output);
      }
    }
  }

  static __device__ Quad PlainQuad(const Accumulators& d, int group, int half) {
    const int i = 8 * group + 2 * half;
    return {d[i], d[i + 1], d[i + 4], d[i + 5]};
  }

  __device__ void AddBias(const OutputTile& tile, int output, int exist, Quad& quad) const {
    if (p_.bias == nullptr) return;
    const float* bias = p_.bias + tile.first_output + output;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < exist) quad.v[i] = ieee::Add(quad.v[i], __ldg(bias + i));
    }
  }

  __device__ void StageBf16(const OutputTile& tile, const Accumulators& d, int row) {
    ForEachQuad(tile, row, [&](int group, int half, int tile_row, int output) {
      Quad quad = PlainQuad(d, group, half);
      AddBias(tile, output, tile.outputs - output, quad);
      auto* staged = reinterpret_cast<uint2*>(staging_ + tile_row * kPitch + 2 * output);
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

  // Gate and up of one output are neighbours in the accumulators, and in the staging area.
  __device__ void StageGateUp(const OutputTile& tile, const Accumulators& d, int row) {
    ForEachQuad(tile, row, [&](int group, int half, int tile_row, int output) {
      if constexpr (kTileRows % (2 * kPanelRows) == 0) {
        if (group >= kTileRows / (2 * kPanelRows)) return;
        const int i = 16 * group + 2 * half;
        *reinterpret_cast<uint4*>(staging_ + tile_row * kPitch + 4 * output) = uint4{
            sm90::RoundToBf16Pair(d[i], d[i + 1]), sm90::RoundToBf16Pair(d[i + 4], d[i + 5]),
            sm90::RoundToBf16Pair(d[i + 8], d[i + 9]), sm90::RoundToBf16Pair(d[i + 12], d[i + 13])};
      }
    });
  }

  // All elements of the vector, or the first `exist` one by one where rows are not aligned.
  template <typename Vector>
  __device__ void StoreElements(const Vector& vector, Bf16* to, int exist) const {
    if (p_.vectors) {
      *reinterpret_cast<Vector*>(to) = vector;
      return;
    }
    const auto* elements = reinterpret_cast<const Bf16*>(&vector);
    constexpr int kElements = sizeof(Vector) / sizeof(Bf16);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (i < exist) to[i] = elements[i];
    }
  }

  const GemmParams& p_;
  uint8_t* const staging_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_EPILOGUE_CUH_
