#ifndef ISOBIT_TESTS_KERNELS_CUDA_ROPE_TWINS_H_
#define ISOBIT_TESTS_KERNELS_CUDA_ROPE_TWINS_H_

// Rotation and KV writes on the CUDA backend and on the reference: the queries are compared, and
// every byte of the cache.

#include <cuda_runtime_api.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/kv_cache.h"
#include "kernels/numerics/rope.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {

struct RopeCase {
  int heads, kv_heads, head_dim, page_tokens, rotary_dim;
  bool normalise;
  // Of each sequence: first position and rows.
  std::vector<std::pair<int, int>> sequences;
};

class RopeTwins : public TwinBackends {
 protected:
  // Issues what is tested to one of the backends: RopeKvWrite, alone or in an operation around it.
  using Issue = std::function<void(bool on_cuda, const RopeKvWrite& rope)>;

  void Check(const RopeCase& c, const Issue& issue) {
    RandomValues random(static_cast<uint64_t>(c.head_dim * 1000 + c.rotary_dim));
    const int pages_each = (kPositions + c.page_tokens - 1) / c.page_tokens;
    const auto sequences = static_cast<int64_t>(c.sequences.size());
    const KvCacheShape shape = {kLayers, c.kv_heads, c.head_dim, c.page_tokens,
                                pages_each * sequences + 3};
    auto cuda_cache = cuda().CreateKvCache(shape).value();
    auto reference_cache = reference().CreateKvCache(shape).value();
    std::vector<int32_t> all_pages;
    for (int64_t i = 0; i < shape.pages; ++i) all_pages.push_back(static_cast<int32_t>(i));
    cuda().FillPages(*cuda_cache, all_pages, kPoison);
    reference().FillPages(*reference_cache, all_pages, kPoison);

    std::vector<int32_t> position, sequence, first_row = {0}, table;
    for (int64_t s = 0; s < sequences; ++s) {
      for (int i = 0; i < c.sequences[static_cast<size_t>(s)].second; ++i) {
        position.push_back(c.sequences[static_cast<size_t>(s)].first + i);
        sequence.push_back(static_cast<int32_t>(s));
      }
      first_row.push_back(static_cast<int32_t>(position.size()));
      // Pages far apart and backwards.
      for (int i = 0; i < pages_each; ++i) {
        table.push_back(static_cast<int32_t>(2 + s + (pages_each - 1 - i) * sequences));
      }
    }
    const auto rows = static_cast<int64_t>(position.size());
    const int64_t fused = (c.heads + 2 * c.kv_heads) * c.head_dim;
    const auto qkv = Both(random.NormalRow(rows * fused, 2.0));
    const auto norm = Both(random.NormalRow(c.head_dim));
    std::vector<double> inv_freq(static_cast<size_t>(c.rotary_dim / 2 + 1));
    if (c.rotary_dim > 0) RopeInvFreq(c.rotary_dim, 10000.0, inv_freq.data());
    const int pairs = c.rotary_dim / 2;
    std::vector<float> cos(static_cast<size_t>(kPositions * pairs)), sin(cos.size());
    for (int p = 0; p < kPositions && pairs > 0; ++p) {
      RopeTableRow(p, inv_freq.data(), pairs, &cos[static_cast<size_t>(p * pairs)],
                   &sin[static_cast<size_t>(p * pairs)]);
    }
    const auto cos_both = Both(cos), sin_both = Both(sin);
    const auto position_both = Both(position), sequence_both = Both(sequence);
    const auto first_both = Both(first_row), table_both = Both(table);
    const auto q = Poisoned<Bf16>(rows * c.heads * c.head_dim);
    for (const bool on_cuda : {true, false}) {
      const RowBatch batch = {rows,
                              sequences,
                              Side(position_both, on_cuda),
                              Side(sequence_both, on_cuda),
                              Side(first_both, on_cuda),
                              Side(table_both, on_cuda),
                              pages_each,
                              kPositions};
      const RopeKvWrite op = {.batch = &batch,
                              .heads = c.heads,
                              .kv_heads = c.kv_heads,
                              .head_dim = c.head_dim,
                              .qkv = Side(qkv, on_cuda),
                              .q_norm = c.normalise ? Side(norm, on_cuda) : nullptr,
                              .k_norm = c.normalise ? Side(norm, on_cuda) : nullptr,
                              .norm_eps = 1e-6f,
                              .rotary_dim = c.rotary_dim,
                              .cos = Side(cos_both, on_cuda),
                              .sin = Side(sin_both, on_cuda),
                              .q = Side(q, on_cuda),
                              .cache = on_cuda ? cuda_cache.get() : reference_cache.get(),
                              .layer = 1};
      issue(on_cuda, op);
    }
    const std::string what = "head_dim " + std::to_string(c.head_dim) + ", rotary " +
                             std::to_string(c.rotary_dim) + ", pages of " +
                             std::to_string(c.page_tokens);
    ExpectEqualBits(q, c.head_dim, what);
    CompareCaches(static_cast<const cuda::CudaKvCache&>(*cuda_cache),
                  static_cast<const reference::ReferenceKvCache&>(*reference_cache), what);
  }

 private:
  static constexpr Bf16 kPoison = {0x7fee};
  static constexpr int kLayers = 2;
  static constexpr int kPositions = 300;

  // Every key and value of every slot, written or not.
  static void CompareCaches(const cuda::CudaKvCache& actual,
                            const reference::ReferenceKvCache& expected, const std::string& what) {
    const cuda::KvLayout& layout = actual.layout();
    const KvCacheShape& shape = actual.shape();
    std::vector<uint8_t> memory(static_cast<size_t>(kLayers * layout.LayerBytes()));
    ASSERT_EQ(cudaMemcpy(memory.data(), actual.Layer(0), memory.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    std::vector<Bf16> got, wanted;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int64_t page = 0; page < shape.pages; ++page) {
        for (int head = 0; head < shape.kv_heads; ++head) {
          for (int slot = 0; slot < shape.page_tokens; ++slot) {
            for (const bool values : {false, true}) {
              const Bf16* row = values ? expected.Value(layer, page, head, slot)
                                       : expected.Key(layer, page, head, slot);
              const int64_t tile =
                  values ? layout.ValuesOffset(page, head) : layout.KeysOffset(page, head);
              for (int d = 0; d < shape.head_dim; ++d) {
                const int64_t offset = layer * layout.LayerBytes() + tile +
                                       cuda::KvChunkOffset(shape.head_dim, slot, d / 8) + d % 8 * 2;
                Bf16 element;
                std::memcpy(&element, &memory[static_cast<size_t>(offset)], sizeof(element));
                got.push_back(element);
                wanted.push_back(row[d]);
              }
            }
          }
        }
      }
    }
    ExpectEqualBits(got, wanted, shape.head_dim, "cache, " + what);
  }
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CUDA_ROPE_TWINS_H_
