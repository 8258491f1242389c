#include "tests/invariance/faulty_backends.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/numerics/attention.h"
#include "kernels/numerics/dot16.h"
#include "kernels/reference/backend.h"

namespace isobit {
namespace {

using reference::PageOf;
using reference::ReferenceBackend;
using reference::ReferenceKvCache;
using reference::ReferenceWeight;

// One accumulator in two halves of K, added in the end.
float SplitChain(const Bf16* x, const Bf16* w, int64_t k) {
  const int64_t half = k / 2 / kDotTerms * kDotTerms;
  return DotChain(x, w, static_cast<int>(half)) +
         DotChain(x + half, w + half, static_cast<int>(k - half));
}

class SplitK : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const Gemm& op) override {
    if (op.rows > 4 || op.epilogue == Gemm::Epilogue::kSiluGate) return ReferenceBackend::Run(op);
    const auto& weight = static_cast<const ReferenceWeight&>(*op.weight);
    const int64_t n = weight.rows();
    for (int64_t r = 0; r < op.rows; ++r) {
      for (int64_t i = 0; i < n; ++i) {
        float acc = SplitChain(op.x + r * weight.cols(), weight.Row(i), weight.cols());
        if (op.bias != nullptr) acc += op.bias[i];
        if (op.residual != nullptr) acc += ToFloat(op.residual[r * n + i]);
        if (op.epilogue == Gemm::Epilogue::kFp32) {
          op.out_fp32[r * n + i] = acc;
        } else {
          op.out_bf16[r * n + i] = RoundToBf16(acc);
        }
      }
    }
  }
};

class NeighbourRow : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const Gemm& op) override {
    if (op.rows < 3 || op.rows % 2 == 0) return ReferenceBackend::Run(op);
    const auto k = static_cast<size_t>(op.weight->cols());
    std::vector<Bf16> x(op.x, op.x + static_cast<size_t>(op.rows) * k);
    std::copy_n(x.end() - static_cast<ptrdiff_t>(2 * k), k, x.end() - static_cast<ptrdiff_t>(k));
    Gemm wrong = op;
    wrong.x = x.data();
    ReferenceBackend::Run(wrong);
  }
};

// Adds squares one after the other instead of in 128 lanes.
class NormByRows : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const RmsNorm& op) override {
    if (op.rows < 32) return ReferenceBackend::Run(op);
    for (int64_t r = 0; r < op.rows; ++r) {
      const int64_t row = op.row_index != nullptr ? op.row_index[r] : r;
      const Bf16* x = op.x + row * op.width;
      float sum = 0;
      for (int64_t i = 0; i < op.width; ++i) sum += ToFloat(x[i]) * ToFloat(x[i]);
      const float scale = 1.0f / std::sqrt(sum / static_cast<float>(op.width) + op.eps);
      for (int64_t i = 0; i < op.width; ++i) {
        const float normed = ToFloat(RoundToBf16(ToFloat(x[i]) * scale));
        op.out[r * op.width + i] = RoundToBf16(normed * ToFloat(op.weight[i]));
      }
    }
  }
};

class DroppedMask : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const Attention& op) override {
    RowBatch batch = *op.batch;
    std::vector<int32_t> last(static_cast<size_t>(batch.rows));
    for (int64_t r = 0; r < batch.rows; ++r) {
      last[static_cast<size_t>(r)] = batch.position[batch.first_row[batch.sequence[r] + 1] - 1];
    }
    batch.position = last.data();
    Attention wrong = op;
    wrong.batch = &batch;
    ReferenceBackend::Run(wrong);
  }
};

// Two halves of the keys, merged as the contract merges its splits.
class SplitByBatch : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const Attention& op) override {
    const RowBatch& batch = *op.batch;
    if (batch.sequences > 2 || batch.max_context > kSplitKeys) return ReferenceBackend::Run(op);
    const auto& cache = static_cast<const ReferenceKvCache&>(*op.cache);
    const AttentionScale scale = MakeAttentionScale(op.softmax_scale);
    const int page_tokens = cache.shape().page_tokens;
    for (int64_t r = 0; r < batch.rows; ++r) {
      for (int h = 0; h < op.heads; ++h) {
        const int kv_head = h / (op.heads / op.kv_heads);
        const auto key_at = [&](int64_t p) {
          return cache.Key(op.layer, PageOf(batch, batch.sequence[r], p, page_tokens), kv_head,
                           p % page_tokens);
        };
        const auto value_at = [&](int64_t p) {
          return cache.Value(op.layer, PageOf(batch, batch.sequence[r], p, page_tokens), kv_head,
                             p % page_tokens);
        };
        const int64_t last = batch.position[r], middle = last / 2;
        const int64_t head = (r * op.heads + h) * op.head_dim;
        AttentionState merged, half;
        AttendSplit(op.q + head, op.head_dim, scale, 0, 0, middle, key_at, value_at, half);
        MergeSplit(half, op.head_dim, merged);
        AttendSplit(op.q + head, op.head_dim, scale, 0, middle + 1, last, key_at, value_at, half);
        MergeSplit(half, op.head_dim, merged);
        FinishAttention(merged, op.head_dim, op.out + head);
      }
    }
  }
};

// 0 times NaN is NaN.
class UnownedValues : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const Attention& op) override {
    ReferenceBackend::Run(op);
    const RowBatch& batch = *op.batch;
    const auto& cache = static_cast<const ReferenceKvCache&>(*op.cache);
    const int page_tokens = cache.shape().page_tokens;
    for (int64_t r = 0; r < batch.rows; ++r) {
      const int32_t page = PageOf(batch, batch.sequence[r], batch.position[r], page_tokens);
      for (int h = 0; h < op.heads; ++h) {
        const int kv_head = h / (op.heads / op.kv_heads);
        for (int slot = batch.position[r] % page_tokens; slot < page_tokens; ++slot) {
          const Bf16* value = cache.Value(op.layer, page, kv_head, slot);
          for (int d = 0; d < op.head_dim; ++d) {
            if (IsNan(ToFloat(value[d]))) {
              op.out[(r * op.heads + h) * op.head_dim + d] = kCanonicalNanBf16;
            }
          }
        }
      }
    }
  }
};

// In batches of three sequences and more, the first page of a sequence is that of the one before
// it.
class WrongPage : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const Attention& op) override {
    RowBatch batch = *op.batch;
    if (batch.sequences < 3) return ReferenceBackend::Run(op);
    const auto entries = static_cast<size_t>(batch.sequences * batch.page_table_stride);
    std::vector<int32_t> table(batch.page_table, batch.page_table + entries);
    const auto stride = static_cast<size_t>(batch.page_table_stride);
    table[2 * stride] = table[stride];
    batch.page_table = table.data();
    Attention wrong = op;
    wrong.batch = &batch;
    ReferenceBackend::Run(wrong);
  }
};

class SlotInSeed : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const SampleTokens& op) override {
    std::vector<SamplingRow> params(op.params, op.params + op.rows);
    for (size_t r = 0; r < params.size(); ++r) params[r].seed += r;
    SampleTokens wrong = op;
    wrong.params = params.data();
    ReferenceBackend::Run(wrong);
  }
};

class StrideOfFirstRow : public ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const SampleTokens& op) override {
    ReferenceBackend::Run(op);
    for (int64_t r = 1; r < op.rows; ++r) {
      for (int i = op.params[0].top_count; i < op.top_stride; ++i) {
        op.top[r * op.top_stride + i] = TokenLogProb{};
      }
    }
  }
};

template <typename T>
std::unique_ptr<Backend> Make() {
  return std::make_unique<T>();
}

}  // namespace

std::vector<Fault> Faults() {
  return {
      {"a GEMM that splits K when there are few rows", Make<SplitK>, "GEMM", true},
      {"a GEMM whose last row reads its neighbour", Make<NeighbourRow>, "GEMM", true},
      {"a norm that changes at 32 rows", Make<NormByRows>, "RMSNorm", false},
      {"attention without the mask inside a chunk", Make<DroppedMask>, "attention", true},
      {"attention split by the batch", Make<SplitByBatch>, "attention", false},
      {"attention that multiplies what it does not own", Make<UnownedValues>, "attention", true},
      {"attention that follows a wrong page", Make<WrongPage>, "attention", true},
      {"a draw that depends on the slot", Make<SlotInSeed>, "sampling", true},
      {"alternatives counted by the first row", Make<StrideOfFirstRow>, "sampling", true},
  };
}

std::string FaultName(const testing::TestParamInfo<Fault>& param) {
  std::string name = param.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

}  // namespace isobit
