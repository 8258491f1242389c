// What the CUDA backend does with finished sums of a GEMM (bias, scale, residual, gates, soft
// caps), against the reference.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

using Epilogue = Gemm::Epilogue;

class CudaGemmEpilogueTest : public TwinBackends {
 protected:
  struct Case {
    int64_t rows, n, k;
    Epilogue epilogue;
    float scale = 1.0f;
    float soft_cap = 0.0f;
    bool bias = false, residual = false;
    double spread = 1.0;   // of x
    bool is_wild = false;  // any finite bf16 in x, and rows that are not finite
  };

  std::unique_ptr<Weight> Load(Backend& backend, const Case& c, const std::vector<Bf16>& weights) {
    const bool gate = IsGate(c.epilogue);
    const auto part = [&](int64_t first, int64_t rows) {
      return MatrixSource{rows, c.k,
                          [&weights, first, k = c.k](int64_t begin, int64_t end, Bf16* to) {
                            std::copy(weights.begin() + (first + begin) * k,
                                      weights.begin() + (first + end) * k, to);
                          }};
    };
    std::vector<MatrixSource> parts = {part(0, c.n)};
    if (gate) parts = {part(0, c.n / 2), part(c.n / 2, c.n / 2)};
    return backend.LoadWeight(parts, gate ? WeightLayout::kGateUp : WeightLayout::kConcatenated)
        .value();
  }

  void Check(const Case& c) {
    RandomValues random(static_cast<uint64_t>(c.rows * 1000003 + c.n * 101 + c.k));
    std::vector<Bf16> x_values = random.NormalRow(c.rows * c.k, c.spread);
    if (c.is_wild) {
      for (size_t i = 0; i < x_values.size(); i += 7) x_values[i] = random.FiniteBf16();
      x_values[0] = {0x7fc0};                                            // NaN
      x_values[static_cast<size_t>((c.rows - 1) * c.k + 1)] = {0xff80};  // -infinity
    }
    std::vector<float> bias_values;
    for (int64_t i = 0; i < c.n; ++i) bias_values.push_back(static_cast<float>(random.Normal()));
    const std::vector<Bf16> weights = random.NormalRow(c.n * c.k, 0.25);
    const auto of_cuda = Load(cuda(), c, weights), of_reference = Load(reference(), c, weights);
    const bool gate = of_cuda->layout() == WeightLayout::kGateUp;
    const int64_t outputs = gate ? c.n / 2 : c.n;
    const auto x = Both(x_values);
    const auto bias = Both(bias_values);
    const auto residual = Both(random.NormalRow(c.rows * outputs));
    const auto out = Poisoned<Bf16>(c.rows * outputs);
    const auto out_fp32 = Poisoned<float>(c.rows * outputs);
    RunBoth([&](bool on_cuda) {
      Gemm op{.rows = c.rows,
              .weight = on_cuda ? of_cuda.get() : of_reference.get(),
              .x = Side(x, on_cuda),
              .epilogue = c.epilogue,
              .scale = c.scale,
              .soft_cap = c.soft_cap};
      if (c.bias) op.bias = Side(bias, on_cuda);
      if (c.residual) op.residual = Side(residual, on_cuda);
      if (c.epilogue == Epilogue::kFp32) {
        op.out_fp32 = Side(out_fp32, on_cuda);
      } else {
        op.out_bf16 = Side(out, on_cuda);
      }
      return op;
    });
    const std::string what = std::to_string(c.rows) + " x " + std::to_string(c.n) + " x " +
                             std::to_string(c.k) + ", epilogue " +
                             std::to_string(static_cast<int>(c.epilogue)) + ", scale " +
                             std::to_string(c.scale) + ", cap " + std::to_string(c.soft_cap);
    if (c.epilogue == Epilogue::kFp32) {
      ExpectEqualBits(out_fp32, outputs, what);
    } else {
      ExpectEqualBits(out, outputs, what);
    }
  }
};

constexpr int64_t kRows[] = {1, 3, 16, 17, 64, 130};

TEST_F(CudaGemmEpilogueTest, ScalesWithBiasAndResidual) {
  for (const int64_t rows : kRows) {
    for (const int64_t n : {8, 72, 160, 300}) {
      for (const float scale : {0.22f, 12.0f}) {
        for (const bool bias : {false, true}) {
          for (const bool residual : {false, true}) {
            Check({.rows = rows,
                   .n = n,
                   .k = 96,
                   .epilogue = Epilogue::kBf16,
                   .scale = scale,
                   .bias = bias,
                   .residual = residual});
          }
          Check({.rows = rows,
                 .n = n,
                 .k = 96,
                 .epilogue = Epilogue::kFp32,
                 .scale = scale,
                 .bias = bias});
        }
      }
    }
  }
}

TEST_F(CudaGemmEpilogueTest, SoftCapsOfLogits) {
  for (const int64_t rows : kRows) {
    for (const int64_t n : {8, 161, 1000}) {
      for (const float cap : {0.5f, 30.0f}) {
        Check({.rows = rows,
               .n = n,
               .k = 64,
               .epilogue = Epilogue::kFp32,
               .soft_cap = cap,
               .spread = 20});
        Check({.rows = rows,
               .n = n,
               .k = 64,
               .epilogue = Epilogue::kFp32,
               .scale = 0.125f,
               .soft_cap = cap,
               .bias = true});
      }
    }
  }
}

TEST_F(CudaGemmEpilogueTest, Gates) {
  for (const int64_t rows : kRows) {
    for (const int64_t n : {16, 192, 320, 600}) {
      for (const Epilogue epilogue : {Epilogue::kSiluGate, Epilogue::kGeluGate}) {
        for (const double spread : {1.0, 12.0}) {
          Check({.rows = rows, .n = n, .k = 80, .epilogue = epilogue, .spread = spread});
        }
      }
    }
  }
}

TEST_F(CudaGemmEpilogueTest, AnyNumbers) {
  for (const int64_t rows : {2, 40}) {
    const Case base = {
        .rows = rows, .n = 256, .k = 64, .epilogue = Epilogue::kBf16, .is_wild = true};
    for (const Epilogue epilogue : {Epilogue::kSiluGate, Epilogue::kGeluGate}) {
      Case c = base;
      c.epilogue = epilogue;
      Check(c);
    }
    for (const bool bias : {false, true}) {
      Case c = base;
      c.scale = 3.5f;
      c.bias = bias;
      c.residual = true;
      Check(c);
      c.residual = false;
      c.epilogue = Epilogue::kFp32;
      c.soft_cap = 30.0f;
      Check(c);
    }
  }
}

}  // namespace
}  // namespace isobit
