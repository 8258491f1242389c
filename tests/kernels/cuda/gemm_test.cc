// The GEMM kernels on a GPU, bit for bit: against the plain mma.sync chain of qualify.h, and that
// against Dot16 on the host. Skipped where there is no card.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/qualify.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/scalar.h"
#include "tests/kernels/cuda/gemm_gpu.h"

namespace isobit::cuda {
namespace {

class GemmGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasHopper()) GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }
};

// One GEMM with all that it reads, and what it should give for every number of rows up to `rows`.
class Case {
 public:
  Case(int64_t rows, int64_t n, int64_t k, Gemm::Epilogue epilogue, InputKind kind, uint64_t seed)
      : rows_(rows),
        n_(n),
        k_(k),
        outputs_(epilogue == Gemm::Epilogue::kSiluGate ? n / 2 : n),
        epilogue_(epilogue),
        weight_(n, k, epilogue == Gemm::Epilogue::kSiluGate, kind, 2 * seed),
        x_(rows * k),
        chains_(rows * n),
        bias_(n),
        residual_(rows * outputs_),
        expected_bf16_(IsFp32() ? 0 : rows * outputs_),
        expected_fp32_(IsFp32() ? rows * outputs_ : 0) {
    Check(LaunchFill(kind, 2 * seed + 1, 1.0f, rows * k, x_.data(), nullptr));
    Check(LaunchReferenceChains(x_.data(), weight_.rows(), rows, n, k, chains_.data(), nullptr));
    // Any fp32 do for a bias: take chains of a row.
    Check(cudaMemcpy(bias_.data(), chains_.data(), static_cast<size_t>(n) * sizeof(float),
                     cudaMemcpyDeviceToDevice));
    Check(LaunchFill(InputKind::kNormal, 77, 3.0f, rows * outputs_, residual_.data(), nullptr));
  }

  void UseBias(bool use) { use_bias_ = use; }
  void UseResidual(bool use) { use_residual_ = use; }
  // Plans run on so many units at most, which then have many tiles each.
  void UseFewUnits(int units) { most_units_ = units; }
  // Of all kernels, only those with so many rows in a tile at least.
  void UseLargeTiles(int rows) { fewest_tile_rows_ = rows; }

  Gemm Op(int64_t rows) const {
    Gemm op;
    op.rows = rows;
    op.x = x_.data();
    op.epilogue = epilogue_;
    if (use_bias_) op.bias = bias_.data();
    if (use_residual_) op.residual = residual_.data();
    return op;
  }

  void ComputeExpected() {
    Gemm op = Op(rows_);
    op.out_bf16 = expected_bf16_.data();
    op.out_fp32 = expected_fp32_.data();
    Check(LaunchReferenceEpilogue(op, chains_.data(), n_, nullptr));
  }

  // Runs the plan on the first `rows` rows into a poisoned output and compares all of it.
  template <typename T>
  ::testing::AssertionResult Matches(const GemmPlan& plan, int64_t rows, DeviceArray<T>& out,
                                     const DeviceArray<T>& expected, bool in_place = false) {
    out.Poison();
    Gemm op = Op(rows);
    if constexpr (sizeof(T) == sizeof(float)) {
      op.out_fp32 = out.data();
    } else {
      op.out_bf16 = out.data();
      if (in_place) {
        Check(cudaMemcpy(out.data(), residual_.data(),
                         static_cast<size_t>(rows * outputs_) * sizeof(Bf16),
                         cudaMemcpyDeviceToDevice));
        op.residual = out.data();
      }
    }
    Check(LaunchPoisonSharedMemory(nullptr));
    cudaError_t error = LaunchGemm(op, weight_.matrix(), plan, GemmLaunch{}, nullptr);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
      return ::testing::AssertionFailure() << ToString(plan) << ": " << cudaGetErrorString(error);
    }
    BitDifference difference;
    Check(
        CompareBits(expected.data(), out.data(), rows * outputs_, sizeof(T), &difference, nullptr));
    if (difference.count != 0) {
      return ::testing::AssertionFailure()
             << ToString(plan) << ", " << rows
             << " rows: " << Describe(difference, rows * outputs_, outputs_);
    }
    if (!out.IsUntouchedFrom(rows * outputs_)) {
      return ::testing::AssertionFailure() << ToString(plan) << " wrote outside its output";
    }
    return ::testing::AssertionSuccess();
  }

  // All plans of all kernels, or only the one that is chosen, for each number of rows.
  void ExpectEqual(const std::vector<int64_t>& row_counts, bool all_kernels) {
    ComputeExpected();
    DeviceArray<Bf16> out_bf16(expected_bf16_.count());
    DeviceArray<float> out_fp32(expected_fp32_.count());
    for (int64_t rows : row_counts) {
      std::vector<GemmPlan> plans = {PlanGemm(weight_.matrix().layout, rows, Multiprocessors())};
      for (const GemmKernelId& kernel : GemmKernels()) {
        if (!all_kernels) break;
        if (kernel.tile_rows < fewest_tile_rows_) continue;
        for (const GemmPlan& plan :
             PlansWithKernel(kernel, weight_.matrix().layout, rows, Multiprocessors())) {
          plans.push_back(plan);
        }
      }
      for (GemmPlan& plan : plans) {
        plan.units = std::min(plan.units, most_units_);
        if (IsFp32()) {
          ASSERT_TRUE(Matches(plan, rows, out_fp32, expected_fp32_));
        } else {
          ASSERT_TRUE(Matches(plan, rows, out_bf16, expected_bf16_));
          if (use_residual_) {
            ASSERT_TRUE(Matches(plan, rows, out_bf16, expected_bf16_, /*in_place=*/true));
          }
        }
      }
    }
  }

  bool IsFp32() const { return epilogue_ == Gemm::Epilogue::kFp32; }
  const TestWeight& weight() const { return weight_; }
  const DeviceArray<Bf16>& x() const { return x_; }
  const DeviceArray<float>& chains() const { return chains_; }
  const DeviceArray<Bf16>& residual() const { return residual_; }

 private:
  int64_t rows_, n_, k_, outputs_;
  Gemm::Epilogue epilogue_;
  TestWeight weight_;
  DeviceArray<Bf16> x_;
  DeviceArray<float> chains_;
  DeviceArray<float> bias_;
  DeviceArray<Bf16> residual_;
  DeviceArray<Bf16> expected_bf16_;
  DeviceArray<float> expected_fp32_;
  bool use_bias_ = false;
  bool use_residual_ = false;
  int most_units_ = std::numeric_limits<int>::max();
  int fewest_tile_rows_ = 0;
};

std::vector<int64_t> Range(int64_t first, int64_t last) {
  std::vector<int64_t> all;
  for (int64_t i = first; i <= last; ++i) all.push_back(i);
  return all;
}

std::vector<Bf16> RowsOnHost(const Bf16* device, int64_t count) {
  std::vector<Bf16> host(static_cast<size_t>(count));
  Check(cudaMemcpy(host.data(), device, host.size() * sizeof(Bf16), cudaMemcpyDeviceToHost));
  return host;
}

// ---- The reference itself

TEST_F(GemmGpuTest, ReferenceChainsAreDot16) {
  constexpr int64_t kRows = 19, kN = 29;
  for (InputKind kind : kInputKinds) {
    for (int64_t k : {16, 64, 75, 2048}) {
      SCOPED_TRACE(std::string(Name(kind)) + ", k = " + std::to_string(k));
      Case c(kRows, kN, k, Gemm::Epilogue::kFp32, kind, 5);
      const std::vector<Bf16> x = RowsOnHost(c.x().data(), kRows * k);
      const std::vector<Bf16> w = RowsOnHost(c.weight().rows(), kN * k);
      const std::vector<float> chains = c.chains().ToHost();
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < kN; ++i) {
          ASSERT_EQ(FloatBits(chains[static_cast<size_t>(r * kN + i)]),
                    FloatBits(DotChain(&x[static_cast<size_t>(r * k)],
                                       &w[static_cast<size_t>(i * k)], k)))
              << "row " << r << ", column " << i;
        }
      }
    }
  }
}

TEST_F(GemmGpuTest, ReferenceEpiloguesAreTheContracts) {
  constexpr int64_t kRows = 40, kN = 96, kK = 128;
  for (InputKind kind : {InputKind::kNormal, InputKind::kSpecial, InputKind::kAnyFinite}) {
    Case c(kRows, kN, kK, Gemm::Epilogue::kSiluGate, kind, 9);
    const std::vector<float> chains = c.chains().ToHost();
    const std::vector<Bf16> residual = c.residual().ToHost();
    DeviceArray<Bf16> gated(kRows * kN / 2), sum(kRows * kN / 2);
    Gemm op = c.Op(kRows);
    op.out_bf16 = gated.data();
    Check(LaunchReferenceEpilogue(op, c.chains().data(), kN, nullptr));
    // The same chains as kRows rows of kN / 2: any fp32 do.
    op.epilogue = Gemm::Epilogue::kBf16;
    op.residual = c.residual().data();
    op.bias = c.chains().data();
    op.out_bf16 = sum.data();
    Check(LaunchReferenceEpilogue(op, c.chains().data(), kN / 2, nullptr));
    const std::vector<Bf16> got_gated = gated.ToHost(), got_sum = sum.ToHost();
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < kN / 2; ++i) {
        const auto at = static_cast<size_t>(r * kN / 2 + i);
        const float* row = &chains[static_cast<size_t>(r * kN)];
        ASSERT_EQ(got_gated[at].bits,
                  SiluGate(RoundToBf16(row[i]), RoundToBf16(row[kN / 2 + i])).bits);
        const float y = chains[at] + chains[static_cast<size_t>(i)] + ToFloat(residual[at]);
        ASSERT_EQ(got_sum[at].bits, RoundToBf16(y).bits);
      }
    }
  }
}

// ---- Kernels against the reference

// Every kernel at every number of rows that decode can have, and some beyond.
TEST_F(GemmGpuTest, EveryKernelAtEveryRowCount) {
  std::vector<int64_t> row_counts = Range(1, 132);
  for (int64_t rows : {192, 255, 256, 257, 300, 512}) row_counts.push_back(rows);
  Case c(512, 1000, 208, Gemm::Epilogue::kBf16, InputKind::kWide, 1);
  c.ExpectEqual(row_counts, /*all_kernels=*/true);
}

TEST_F(GemmGpuTest, EveryKernelOnEveryKindOfInput) {
  for (InputKind kind : kInputKinds) {
    SCOPED_TRACE(Name(kind));
    for (int64_t k : {80, 640, 1168}) {
      Case c(150, 336, k, Gemm::Epilogue::kFp32, kind, 3);
      c.ExpectEqual({1, 17, 64, 150}, /*all_kernels=*/true);
    }
  }
}

TEST_F(GemmGpuTest, EveryEpilogue) {
  const std::vector<int64_t> row_counts = {1, 3, 40, 65, 128, 129, 300};
  for (InputKind kind : {InputKind::kNormal, InputKind::kSpecial}) {
    for (int64_t n : {576, 578, 577}) {  // rows of the output aligned for vectors, and not
      SCOPED_TRACE(std::string(Name(kind)) + ", n = " + std::to_string(n));
      for (bool bias : {false, true}) {
        for (bool residual : {false, true}) {
          Case c(300, n, 1536, Gemm::Epilogue::kBf16, kind, 4);
          c.UseBias(bias);
          c.UseResidual(residual);
          c.ExpectEqual(row_counts, /*all_kernels=*/true);
        }
        Case c(300, n, 576, Gemm::Epilogue::kFp32, kind, 5);
        c.UseBias(bias);
        c.ExpectEqual(row_counts, /*all_kernels=*/true);
      }
    }
    for (int64_t n : {3072, 1032, 70}) {
      SCOPED_TRACE(std::string(Name(kind)) + ", gated n = " + std::to_string(n));
      Case c(300, n, 576, Gemm::Epilogue::kSiluGate, kind, 6);
      c.ExpectEqual(row_counts, /*all_kernels=*/true);
    }
  }
}

TEST_F(GemmGpuTest, SmallAndOddShapes) {
  for (int64_t n : {1, 2, 15, 16, 17, 31, 127}) {
    for (int64_t k : {8, 16, 72, 128}) {
      SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(k));
      Case c(130, n, k, Gemm::Epilogue::kBf16, InputKind::kAnyFinite, 8);
      c.ExpectEqual({1, 9, 130}, /*all_kernels=*/true);
    }
  }
}

// More tiles than multiprocessors: CTAs go on to next tiles, with stores of the last on their way.
TEST_F(GemmGpuTest, EveryKernelWithManyTiles) {
  for (int64_t n : {9000, 9002}) {
    Case c(700, n, 192, Gemm::Epilogue::kBf16, InputKind::kWide, 13);
    c.UseBias(true);
    c.UseResidual(true);
    c.ExpectEqual({40, 700}, /*all_kernels=*/true);
  }
  Case gated(700, 18032, 64, Gemm::Epilogue::kSiluGate, InputKind::kNormal, 14);
  gated.ExpectEqual({40, 700}, /*all_kernels=*/true);
  Case logits(70, 18032, 64, Gemm::Epilogue::kFp32, InputKind::kNormal, 15);
  logits.ExpectEqual({40, 70}, /*all_kernels=*/true);
}

// CTAs with many tiles, of which warpgroups may take turns, that go around the ring many times.
TEST_F(GemmGpuTest, EveryKernelWithManyTilesAndALongK) {
  for (InputKind kind : {InputKind::kNormal, InputKind::kSpecial}) {
    for (int64_t n : {1000, 1002}) {
      for (bool changes : {false, true}) {
        Case c(300, n, 1024, Gemm::Epilogue::kBf16, kind, 16);
        c.UseBias(changes);
        c.UseResidual(changes);
        c.UseFewUnits(2);
        c.ExpectEqual({130, 300}, /*all_kernels=*/true);
      }
      Case fp32(300, n, 768, Gemm::Epilogue::kFp32, kind, 17);
      fp32.UseBias(true);
      fp32.UseFewUnits(2);
      fp32.ExpectEqual({300}, /*all_kernels=*/true);
    }
    for (int64_t n : {1616, 1620}) {
      Case gated(300, n, 1024, Gemm::Epilogue::kSiluGate, kind, 18);
      gated.UseFewUnits(2);
      gated.ExpectEqual({130, 300}, /*all_kernels=*/true);
    }
  }
}

// Small enough for compute-sanitizer.
TEST_F(GemmGpuTest, LargeTilesOnOneUnit) {
  for (int64_t n : {416, 418}) {
    Case c(140, n, 392, Gemm::Epilogue::kBf16, InputKind::kNormal, 19);
    c.UseBias(true);
    c.UseResidual(true);
    c.UseFewUnits(1);
    c.UseLargeTiles(160);
    c.ExpectEqual({140}, /*all_kernels=*/true);
  }
  Case gated(140, 836, 392, Gemm::Epilogue::kSiluGate, InputKind::kNormal, 20);
  gated.UseFewUnits(1);
  gated.UseLargeTiles(160);
  gated.ExpectEqual({140}, /*all_kernels=*/true);
}

TEST_F(GemmGpuTest, ShapesOfModels) {
  struct Shape {
    int64_t n, k;
    Gemm::Epilogue epilogue;
  };
  using enum Gemm::Epilogue;
  for (const Shape& s :
       {Shape{960, 576, kBf16}, Shape{576, 576, kBf16}, Shape{3072, 576, kSiluGate},
        Shape{576, 1536, kBf16}, Shape{49152, 576, kFp32}, Shape{6144, 4096, kBf16},
        Shape{4096, 4096, kBf16}, Shape{28672, 4096, kSiluGate}, Shape{4096, 14336, kBf16}}) {
    SCOPED_TRACE(std::to_string(s.n) + " x " + std::to_string(s.k));
    Case c(1000, s.n, s.k, s.epilogue, InputKind::kNormal, 10);
    c.UseResidual(s.n == s.k);
    c.ExpectEqual({1, 16, 33, 64, 100, 128, 129, 192, 256, 300, 512, 1000}, false);
  }
  Case prefill(4096, 6144, 4096, kBf16, InputKind::kWide, 11);
  prefill.ExpectEqual({4096}, /*all_kernels=*/true);
}

// All 65536 gates, with several ups: the products of a one-hot x are the weights
// themselves.
TEST_F(GemmGpuTest, GatesOfEveryGate) {
  constexpr int64_t kGates = 65536, kK = 64;
  for (Bf16 up : {Bf16{0x3f80}, Bf16{0xbfc5}, Bf16{0x7f80}, Bf16{0x0001}, Bf16{0x7fc0}}) {
    std::vector<Bf16> weights(2 * kGates * kK, Bf16{0});
    for (int64_t gate = 0; gate < kGates; ++gate) {
      weights[static_cast<size_t>(gate * kK)] = Bf16{static_cast<uint16_t>(gate)};
      weights[static_cast<size_t>((kGates + gate) * kK)] = up;
    }
    DeviceArray<Bf16> w(2 * kGates * kK), x(kK), out(kGates);
    Check(cudaMemcpy(w.data(), weights.data(), weights.size() * sizeof(Bf16),
                     cudaMemcpyHostToDevice));
    std::vector<Bf16> one_hot(kK, Bf16{0});
    one_hot[0] = kOneBf16;
    Check(cudaMemcpy(x.data(), one_hot.data(), kK * sizeof(Bf16), cudaMemcpyHostToDevice));
    const PackedLayout layout = {2 * kGates, kK, true};
    DeviceArray<uint8_t> packed(layout.Bytes());
    Check(cudaMemset(packed.data(), 0, static_cast<size_t>(layout.Bytes())));
    Check(LaunchPackRows(w.data(), 0, 2 * kGates, layout, packed.data(), nullptr));
    Gemm op;
    op.rows = 1;
    op.x = x.data();
    op.out_bf16 = out.data();
    for (const bool is_gelu : {false, true}) {
      op.epilogue = is_gelu ? Gemm::Epilogue::kGeluGate : Gemm::Epilogue::kSiluGate;
      Check(LaunchGemm(op, {layout, packed.data()}, PlanGemm(layout, 1, Multiprocessors()),
                       GemmLaunch{}, nullptr));
      const std::vector<Bf16> got = out.ToHost();
      for (int64_t gate = 0; gate < kGates; ++gate) {
        // As the chain and the rounding leave them: +0 for -0, one NaN.
        const Bf16 g =
            RoundToBf16(Dot16(0.0f, &weights[static_cast<size_t>(gate * kK)], one_hot.data()));
        const Bf16 u = RoundToBf16(
            Dot16(0.0f, &weights[static_cast<size_t>((kGates + gate) * kK)], one_hot.data()));
        const Bf16 expected = is_gelu ? GeluGate(g, u) : SiluGate(g, u);
        ASSERT_EQ(got[static_cast<size_t>(gate)].bits, expected.bits)
            << (is_gelu ? "GELU" : "SiLU") << " of gate " << gate;
      }
    }
  }
}

// What is beside a row, in x and in shared memory, does not reach it.
TEST_F(GemmGpuTest, ARowThatIsNotFiniteAffectsOnlyItself) {
  constexpr int64_t kRows = 70, kN = 160, kK = 80;
  Case c(kRows, kN, kK, Gemm::Epilogue::kFp32, InputKind::kNormal, 12);
  c.ComputeExpected();
  const std::vector<float> clean = c.chains().ToHost();
  for (int64_t bad : {0, 1, 35, 69}) {
    DeviceArray<Bf16> x(kRows * kK);
    Check(cudaMemcpy(x.data(), c.x().data(), static_cast<size_t>(kRows * kK) * sizeof(Bf16),
                     cudaMemcpyDeviceToDevice));
    Check(cudaMemset(x.data() + bad * kK, 0xff, static_cast<size_t>(kK) * sizeof(Bf16)));
    for (const GemmKernelId& kernel : GemmKernels()) {
      const GemmPlan plan =
          *PlanWithKernel(kernel, c.weight().matrix().layout, kRows, Multiprocessors());
      DeviceArray<float> out(kRows * kN);
      Gemm op = c.Op(kRows);
      op.x = x.data();
      op.out_fp32 = out.data();
      Check(LaunchGemm(op, c.weight().matrix(), plan, GemmLaunch{}, nullptr));
      const std::vector<float> got = out.ToHost();
      for (int64_t i = 0; i < kRows * kN; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_EQ(FloatBits(got[at]), i / kN == bad ? kCanonicalNanBits : FloatBits(clean[at]))
            << ToString(plan) << ", row " << i / kN;
      }
    }
  }
}

// Launches that start early, each on the output of the one before: y = x W1 W2 W1 W2 ..., in a
// graph that is replayed, against the same launches one by one.
TEST_F(GemmGpuTest, DependentLaunchesWaitForTheirInput) {
  constexpr int64_t kWidth = 2048, kSteps = 12;
  for (int64_t rows : {1, 17, 64, 100, 200}) {
    TestWeight w[2] = {{kWidth, kWidth, false, InputKind::kNormal, 20},
                       {kWidth, kWidth, false, InputKind::kNormal, 21}};
    std::vector<std::unique_ptr<DeviceArray<Bf16>>> expected, got;
    for (int64_t i = 0; i <= kSteps; ++i) {
      expected.push_back(std::make_unique<DeviceArray<Bf16>>(rows * kWidth));
      got.push_back(std::make_unique<DeviceArray<Bf16>>(rows * kWidth));
    }
    Check(LaunchFill(InputKind::kNormal, 22, 1.0f, rows * kWidth, expected[0]->data(), nullptr));
    Check(LaunchFill(InputKind::kNormal, 22, 1.0f, rows * kWidth, got[0]->data(), nullptr));
    const GemmPlan plan = PlanGemm(w[0].matrix().layout, rows, Multiprocessors());
    cudaStream_t stream;
    Check(cudaStreamCreate(&stream));
    const auto step = [&](auto& arrays, int64_t i, bool early) {
      Gemm op;
      op.rows = rows;
      op.x = arrays[static_cast<size_t>(i)]->data();
      op.out_bf16 = arrays[static_cast<size_t>(i + 1)]->data();
      GemmLaunch launch;
      launch.early_start = early;
      Check(LaunchGemm(op, w[i % 2].matrix(), plan, launch, stream));
    };
    for (int64_t i = 0; i < kSteps; ++i) {
      step(expected, i, false);
      Check(cudaStreamSynchronize(stream));
    }
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int64_t i = 0; i < kSteps; ++i) step(got, i, true);
    Check(cudaStreamEndCapture(stream, &graph));
    Check(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 50; ++replay) {
      for (int64_t i = 1; i <= kSteps; ++i) got[static_cast<size_t>(i)]->Poison();
      Check(cudaGraphLaunch(exec, stream));
      Check(cudaStreamSynchronize(stream));
      for (int64_t i = 1; i <= kSteps; ++i) {
        BitDifference difference;
        Check(CompareBits(expected[static_cast<size_t>(i)]->data(),
                          got[static_cast<size_t>(i)]->data(), rows * kWidth, sizeof(Bf16),
                          &difference, stream));
        ASSERT_EQ(difference.count, 0u) << rows << " rows, replay " << replay << ", step " << i
                                        << ": " << Describe(difference, rows * kWidth, kWidth);
      }
    }
    Check(cudaGraphExecDestroy(exec));
    Check(cudaGraphDestroy(graph));
    Check(cudaStreamDestroy(stream));
  }
}

// ---- Loading

TEST_F(GemmGpuTest, LoadedWeightsAreThePackedMatrix) {
  struct Parts {
    std::vector<int64_t> rows;
    int64_t cols;
    WeightLayout layout;
  };
  for (const Parts& parts : {Parts{{40, 33, 96}, 200, WeightLayout::kConcatenated},
                             Parts{{70, 70}, 72, WeightLayout::kGateUp},
                             Parts{{3000}, 4096, WeightLayout::kConcatenated}}) {
    int64_t n = 0;
    for (int64_t rows : parts.rows) n += rows;
    const TestWeight expected(n, parts.cols, parts.layout == WeightLayout::kGateUp,
                              InputKind::kNormal, 30);
    const std::vector<Bf16> all = RowsOnHost(expected.rows(), n * parts.cols);
    std::vector<MatrixSource> sources;
    int64_t first = 0;
    for (int64_t rows : parts.rows) {
      sources.push_back({rows, parts.cols, [&all, &parts, first](int64_t b, int64_t e, Bf16* out) {
                           std::copy_n(&all[static_cast<size_t>((first + b) * parts.cols)],
                                       (e - b) * parts.cols, out);
                         }});
      first += rows;
    }
    const auto loaded = PackedWeight::Load(sources, parts.layout, 3);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    BitDifference difference;
    Check(CompareBits(expected.matrix().data, (*loaded)->matrix().data,
                      expected.matrix().layout.Bytes() / 2, 2, &difference, nullptr));
    EXPECT_EQ(difference.count, 0u);
  }
}

TEST_F(GemmGpuTest, WeightsThatDoNotFitAreRefused) {
  const MatrixSource source = {int64_t{1} << 30, 1 << 16, [](int64_t, int64_t, Bf16*) { FAIL(); }};
  const auto loaded = PackedWeight::Load(std::span(&source, 1), WeightLayout::kConcatenated, 1);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kResourceExhausted) << loaded.status();
}

}  // namespace
}  // namespace isobit::cuda
