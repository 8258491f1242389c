#include "tools/figures/split_k_control.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "kernels/forwarding_backend.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/scalar.h"

namespace isobit {
namespace {

constexpr int kMostParts = 4;

int PartsFor(int64_t rows) { return rows <= 2 ? 4 : rows <= 8 ? 2 : 1; }

// Columns [begin, end) of part `i` of `parts`, in whole groups of dot16.
struct Slice {
  int64_t begin, end;
};
Slice SliceOf(int64_t k, int i, int parts) {
  const int64_t groups = (k + kDotTerms - 1) / kDotTerms;
  return {std::min(k, groups * i / parts * kDotTerms),
          std::min(k, groups * (i + 1) / parts * kDotTerms)};
}

// The matrix as the backend has it, and cut in parts.
class ControlWeight : public Weight {
 public:
  ControlWeight(std::unique_ptr<Weight> whole_in,
                std::map<int, std::vector<std::unique_ptr<Weight>>> cut_in)
      : Weight(whole_in->rows(), whole_in->cols(), whole_in->layout()),
        whole(std::move(whole_in)),
        cut(std::move(cut_in)) {}

  const std::unique_ptr<Weight> whole;
  const std::map<int, std::vector<std::unique_ptr<Weight>>> cut;  // by number of parts
};

class SplitKControl : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  using ForwardingBackend::Run;

  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                     WeightLayout layout) override {
    auto whole = inner().LoadWeight(parts, layout);
    if (!whole.ok()) return whole.status();
    std::map<int, std::vector<std::unique_ptr<Weight>>> cut;
    for (int count = 2; count <= kMostParts; count *= 2) {
      for (int i = 0; i < count; ++i) {
        auto slice = LoadSlice(parts, SliceOf((*whole)->cols(), i, count));
        if (!slice.ok()) return slice.status();
        cut[count].push_back(*std::move(slice));
      }
    }
    return std::make_unique<ControlWeight>(*std::move(whole), std::move(cut));
  }

  absl::StatusOr<std::unique_ptr<Weight>> LoadQkvWeight(std::span<const MatrixSource> parts,
                                                        const QkvHeads& /*heads*/) override {
    return LoadWeight(parts, WeightLayout::kConcatenated);
  }

  void Run(const QkvProjection& op) override { Backend::Run(op); }
  void Run(const Embed& op) override {
    Embed whole = op;
    whole.table = static_cast<const ControlWeight&>(*op.table).whole.get();
    inner().Run(whole);
  }
  void Run(const Gemm& op) override {
    const auto& weight = static_cast<const ControlWeight&>(*op.weight);
    const int parts = PartsFor(op.rows);
    if (parts == 1) {
      Gemm whole = op;
      whole.weight = weight.whole.get();
      return inner().Run(whole);
    }
    Epilogue(op, SumOfParts(op, weight.cut.at(parts)));
  }
  std::unique_ptr<Recording> Record(const std::function<void()>& /*issue*/) override {
    return nullptr;
  }
  absl::Status Synchronize() override { return status_.ok() ? inner().Synchronize() : status_; }

 private:
  absl::StatusOr<std::unique_ptr<Weight>> LoadSlice(std::span<const MatrixSource> parts,
                                                    Slice slice) {
    std::vector<MatrixSource> sources;
    for (const MatrixSource& part : parts) {
      const int64_t width = slice.end - slice.begin;
      sources.push_back({.rows = part.rows,
                         .cols = width,
                         .read = [&part, slice, width](int64_t begin, int64_t end, Bf16* out) {
                           std::vector<Bf16> rows(static_cast<size_t>((end - begin) * part.cols));
                           part.read(begin, end, rows.data());
                           for (int64_t r = 0; r < end - begin; ++r) {
                             std::copy_n(rows.data() + r * part.cols + slice.begin, width,
                                         out + r * width);
                           }
                         }});
    }
    return inner().LoadWeight(sources, WeightLayout::kConcatenated);
  }

  // Each part into a memory of its own, then added in order: what a split-K kernel's reduction
  // does.
  std::vector<float> SumOfParts(const Gemm& op, const std::vector<std::unique_ptr<Weight>>& parts) {
    const int64_t n = op.weight->rows(), k = op.weight->cols();
    std::vector<float> sum(static_cast<size_t>(op.rows * n), 0.0f);
    float* const part = Reserve<float>(part_, op.rows * n);
    Bf16* const x = Reserve<Bf16>(x_, op.rows * k);
    if (!status_.ok()) return sum;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Slice slice = SliceOf(k, static_cast<int>(i), static_cast<int>(parts.size()));
      const int64_t width = slice.end - slice.begin;
      for (int64_t r = 0; r < op.rows; ++r) {
        std::copy_n(op.x + r * k + slice.begin, width, x + r * width);
      }
      inner().Run(Gemm{.rows = op.rows,
                       .weight = parts[i].get(),
                       .x = x,
                       .epilogue = Gemm::Epilogue::kFp32,
                       .out_fp32 = part});
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
    }
    return sum;
  }

  static void Epilogue(const Gemm& op, const std::vector<float>& sum) {
    const int64_t n = op.weight->rows();
    for (int64_t r = 0; r < op.rows; ++r) {
      const float* const acc = sum.data() + r * n;
      if (op.epilogue == Gemm::Epilogue::kSiluGate) {
        for (int64_t i = 0; i < n / 2; ++i) {
          op.out_bf16[r * (n / 2) + i] = SiluGate(RoundToBf16(acc[i]), RoundToBf16(acc[n / 2 + i]));
        }
        continue;
      }
      for (int64_t i = 0; i < n; ++i) {
        float y = acc[i];
        if (op.bias != nullptr) y += op.bias[i];
        if (op.residual != nullptr) y += ToFloat(op.residual[r * n + i]);
        if (op.epilogue == Gemm::Epilogue::kFp32) {
          op.out_fp32[r * n + i] = y;
        } else {
          op.out_bf16[r * n + i] = RoundToBf16(y);
        }
      }
    }
  }

  // Memory for `count` elements, kept for the next call.
  template <typename T>
  T* Reserve(std::unique_ptr<Buffer>& buffer, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (buffer == nullptr || buffer->bytes() < bytes) {
      auto made = inner().Allocate(bytes);
      status_.Update(made.status());
      if (!made.ok()) return nullptr;
      buffer = *std::move(made);
    }
    return buffer->As<T>();
  }

  std::unique_ptr<Buffer> x_, part_;
  absl::Status status_;  // of memory that could not be had
};

}  // namespace

std::unique_ptr<Backend> MakeSplitKControl(std::unique_ptr<Backend> backend) {
  return std::make_unique<SplitKControl>(std::move(backend));
}

}  // namespace isobit
