#include "kernels/cpu/gemm.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {
namespace {

// A matrix in memory, as a source of weights.
struct Matrix {
  int64_t rows;
  int64_t cols;
  std::vector<Bf16> elements;

  MatrixSource Source() const {
    return {rows, cols, [this](int64_t begin, int64_t end, Bf16* out) {
              std::copy(elements.begin() + begin * cols, elements.begin() + end * cols, out);
            }};
  }
};

using MakeElement = std::function<Bf16(Random&)>;

Matrix MakeMatrix(Random& random, int64_t rows, int64_t cols, const MakeElement& make) {
  Matrix matrix{rows, cols, std::vector<Bf16>(static_cast<size_t>(rows * cols))};
  for (Bf16& x : matrix.elements) x = make(random);
  return matrix;
}

Bf16 Normal(Random& random) { return RoundToBf16(random.Normal(0.0f, 1.0f)); }

// (-1)^s * 1.fff * 2^e with e in [-spread, spread].
MakeElement Wide(int spread) {
  return [spread](Random& random) {
    const auto fraction = static_cast<uint16_t>(random.Next() & 0x807f);
    const auto exponent = static_cast<uint16_t>(127 - spread + random.Below(2 * spread + 1));
    return Bf16{static_cast<uint16_t>(fraction | exponent << 7)};
  };
}

// One case, with everything that Gemm knows.
struct Case {
  std::vector<Matrix> parts;
  WeightLayout layout = WeightLayout::kConcatenated;
  std::vector<Bf16> x;
  Gemm::Epilogue epilogue = Gemm::Epilogue::kFp32;
  std::vector<float> bias;
  std::vector<Bf16> residual;
  float scale = 1.0f;
  float soft_cap = 0.0f;

  int64_t cols() const { return parts[0].cols; }
  int64_t rows() const { return static_cast<int64_t>(x.size()) / cols(); }
  int64_t outputs() const {
    int64_t n = 0;
    for (const Matrix& part : parts) n += part.rows;
    return IsGate(epilogue) ? n / 2 : n;
  }
};

struct Output {
  std::vector<Bf16> bf16;
  std::vector<float> fp32;
};

std::vector<MatrixSource> Sources(const Case& c) {
  std::vector<MatrixSource> sources;
  for (const Matrix& part : c.parts) sources.push_back(part.Source());
  return sources;
}

// Runs `run` on a Gemm of the case; outputs start as a pattern that no result has.
Output RunCase(const Case& c, const Weight& weight, const std::function<void(const Gemm&)>& run) {
  const size_t size = static_cast<size_t>(c.rows() * c.outputs());
  Output out{std::vector<Bf16>(size, Bf16{0x7fab}),
             std::vector<float>(size, BitsFloat(0x7fabcdefu))};
  Gemm op;
  op.rows = c.rows();
  op.weight = &weight;
  op.x = c.x.data();
  op.epilogue = c.epilogue;
  op.bias = c.bias.empty() ? nullptr : c.bias.data();
  op.residual = c.residual.empty() ? nullptr : c.residual.data();
  op.scale = c.scale;
  op.soft_cap = c.soft_cap;
  op.out_bf16 = out.bf16.data();
  op.out_fp32 = out.fp32.data();
  run(op);
  return out;
}

Output RunReference(const Case& c) {
  reference::ReferenceBackend backend;
  const auto weight = backend.LoadWeight(Sources(c), c.layout);
  EXPECT_TRUE(weight.ok()) << weight.status();
  return RunCase(c, **weight, [&](const Gemm& op) { backend.Run(op); });
}

// Runs the case on every variant of the CPU backend and compares with the reference. Returns the
// share of tiles that the vector variants computed literally.
double ExpectEqual(const Case& c, const std::string& name) {
  const Output want = RunReference(c);
  uint64_t tiles = 0, exact = 0;
  for (const CpuVariant& variant : CpuVariants()) {
    CpuContext context(variant.threads, variant.instructions.targets);
    WeightArena arena;
    const auto weight = PackedWeight::Load(Sources(c), c.layout, context.pool, arena);
    EXPECT_TRUE(weight.ok()) << weight.status();
    GemmRunner runner(context);
    const Output got = RunCase(c, **weight, [&](const Gemm& op) { runner.Run(op); });
    EXPECT_TRUE(SameBits(got.bf16, want.bf16, c.outputs())) << name << " on " << variant.Name();
    EXPECT_TRUE(SameBits(got.fp32, want.fp32, c.outputs())) << name << " on " << variant.Name();
    EXPECT_GT(context.gemm_tiles, 0u);
    if (variant.instructions.name == "scalar") continue;
    tiles += context.gemm_tiles;
    exact += context.gemm_tiles_exact;
  }
  return tiles == 0 ? 1.0 : static_cast<double>(exact) / static_cast<double>(tiles);
}

Case MakeCase(Random& random, int64_t rows, int64_t n, int64_t k, const MakeElement& x,
              const MakeElement& w) {
  Case c;
  c.parts = {MakeMatrix(random, n, k, w)};
  c.x = MakeMatrix(random, rows, k, x).elements;
  return c;
}

std::string ShapeName(int64_t rows, int64_t n, int64_t k) {
  return absl::StrCat(rows, "x", n, "x", k);
}

TEST(GemmTest, RaggedShapes) {
  Random random(1);
  for (const auto& [rows, n, k] : std::initializer_list<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                {1, 32, 16},
                                                                                {1, 33, 17},
                                                                                {2, 31, 15},
                                                                                {3, 64, 33},
                                                                                {5, 65, 100},
                                                                                {7, 95, 576},
                                                                                {8, 96, 576},
                                                                                {16, 97, 47},
                                                                                {31, 63, 160},
                                                                                {32, 129, 18},
                                                                                {33, 40, 64},
                                                                                {64, 64, 48},
                                                                                {65, 70, 31},
                                                                                {70, 1, 3},
                                                                                {1, 257, 1536}}) {
    const Case c = MakeCase(random, rows, n, k, Normal, Normal);
    EXPECT_LT(ExpectEqual(c, ShapeName(rows, n, k)), 0.01);
  }
}

TEST(GemmTest, EveryNumberOfRows) {
  Random random(2);
  for (int64_t rows = 1; rows <= 70; ++rows) {
    ExpectEqual(MakeCase(random, rows, 40, 36, Normal, Normal), ShapeName(rows, 40, 36));
  }
}

// More rows than are prepared at once.
TEST(GemmTest, ManyRows) {
  Random random(3);
  EXPECT_EQ(ExpectEqual(MakeCase(random, 600, 33, 32, Normal, Normal), "600 rows"), 0.0);
}

// Case 17 of the field: no tail may be dropped.
TEST(GemmTest, OnesWithOddKGiveK) {
  for (int64_t k : {1, 15, 17, 255, 257, 575, 577, 1535}) {
    for (int64_t rows : {1, 2, 33}) {
      Case c;
      c.parts = {{70, k, std::vector<Bf16>(static_cast<size_t>(70 * k), kOneBf16)}};
      c.x.assign(static_cast<size_t>(rows * k), kOneBf16);
      for (const CpuVariant& variant : CpuVariants()) {
        CpuContext context(variant.threads, variant.instructions.targets);
        WeightArena arena;
        const auto weight = PackedWeight::Load(Sources(c), c.layout, context.pool, arena);
        ASSERT_TRUE(weight.ok());
        GemmRunner runner(context);
        const Output got = RunCase(c, **weight, [&](const Gemm& op) { runner.Run(op); });
        for (float y : got.fp32) ASSERT_EQ(y, static_cast<float>(k)) << variant.Name();
      }
    }
  }
}

TEST(GemmTest, WideExponents) {
  Random random(4);
  for (int spread : {4, 12, 20, 30, 60}) {
    for (int64_t rows : {1, 9}) {
      ExpectEqual(MakeCase(random, rows, 70, 200, Wide(spread), Wide(spread)),
                  absl::StrCat("spread ", spread, ", ", rows, " rows"));
    }
  }
  // Up to 2^20 either way the fast path answers.
  const Case c = MakeCase(random, 9, 70, 200, Wide(20), Wide(20));
  EXPECT_EQ(ExpectEqual(c, "spread 20"), 0.0);
}

// x times 2^exponent, if that is a normal number.
Bf16 Scaled(Bf16 x, int64_t exponent) {
  return Bf16{static_cast<uint16_t>(x.bits + exponent * 128)};
}

// Rows and weight rows of all sizes: products from 2^-240 to 2^200, some of which no fast path may
// touch, and some that it may if only it is careful.
TEST(GemmTest, ScaledRows) {
  Random random(5);
  // The last two go beyond what exponent bytes hold, of activations and of weights.
  for (const auto& [lowest_x, lowest_w] : std::initializer_list<std::pair<int, int>>{
           {-120, -120}, {-70, -60}, {-60, -10}, {0, 0}, {70, -60}, {-60, 45}}) {
    for (int64_t rows : {1, 3, 12}) {
      Case c = MakeCase(random, rows, 96, 64, Wide(3), Wide(3));
      for (size_t i = 0; i < c.x.size(); ++i) {
        c.x[i] = Scaled(c.x[i], lowest_x + static_cast<int64_t>(i / 64) * 8);
      }
      for (size_t i = 0; i < c.parts[0].elements.size(); ++i) {
        Bf16& w = c.parts[0].elements[i];
        w = Scaled(w, lowest_w + static_cast<int64_t>(i / 64 % 24) * 3);
      }
      ExpectEqual(c, absl::StrCat("from 2^", lowest_x, " and 2^", lowest_w));
    }
  }
}

// Inputs that exponent bytes hold, whose sums leave fp32: to infinity, not to the largest number,
// and nearly so.
TEST(GemmTest, SumsThatOverflow) {
  Random random(19);
  for (int64_t rows : {1, 4}) {
    for (int exponent : {52, 55, 57}) {
      Case c = MakeCase(random, rows, 64, 256, Wide(1), Wide(1));
      for (Bf16& x : c.x) x = Scaled(Bf16{static_cast<uint16_t>(x.bits & 0x7fff)}, 65);
      for (Bf16& w : c.parts[0].elements) {
        w = Scaled(Bf16{static_cast<uint16_t>(w.bits & 0x7fff)}, exponent);
      }
      ExpectEqual(c, absl::StrCat("2^65 and 2^", exponent));
    }
  }
}

// Products of zero with something huge, among products so small that the huge exponent would count
// if it were taken for that of a product.
TEST(GemmTest, HugeTimesZero) {
  Random random(18);
  for (int64_t rows : {1, 3}) {
    for (bool zero_weights : {true, false}) {
      Case c = MakeCase(random, rows, 64, 64, Wide(2), Wide(2));
      for (size_t i = 0; i < c.x.size(); ++i) {
        const bool first = i % 16 == 0;
        c.x[i] = first ? (zero_weights ? Scaled(c.x[i], 64) : Bf16{0}) : Scaled(c.x[i], -40);
      }
      for (size_t i = 0; i < c.parts[0].elements.size(); ++i) {
        Bf16& w = c.parts[0].elements[i];
        const bool first = i % 16 == 0;
        w = first ? (zero_weights ? Bf16{0} : Scaled(w, 56)) : Scaled(w, -39);
      }
      ExpectEqual(c, zero_weights ? "zero weights" : "zero activations");
    }
  }
}

TEST(GemmTest, AnyBits) {
  Random random(6);
  for (Values values : {Values::kWide, Values::kAdversarial}) {
    const auto make = [values](Random& r) { return RandomBf16(r, values); };
    for (int64_t rows : {1, 6}) {
      ExpectEqual(MakeCase(random, rows, 40, 50, make, make), "any bits");
      ExpectEqual(MakeCase(random, rows, 40, 50, make, Normal), "any activations");
      ExpectEqual(MakeCase(random, rows, 40, 50, Normal, make), "any weights");
    }
  }
}

// Sums that cancel exactly, nearly, and down to a last bit.
TEST(GemmTest, Cancellation) {
  Random random(7);
  for (int64_t rows : {1, 5}) {
    Case c = MakeCase(random, rows, 64, 96, Wide(6), Wide(6));
    for (Matrix& part : c.parts) {
      for (int64_t n = 0; n < part.rows; ++n) {
        for (int64_t k = 0; k + 1 < part.cols; k += 2) {
          Bf16* w = &part.elements[static_cast<size_t>(n * part.cols + k)];
          w[1].bits = w[0].bits ^ 0x8000;
          if (n % 3 == 1) w[1].bits ^= 1;
        }
      }
    }
    for (size_t i = 0; i + 1 < c.x.size(); i += 2) c.x[i + 1] = c.x[i];
    ExpectEqual(c, "cancellation");
  }
}

Bf16 SomeZeros(Random& random) {
  return random.Below(3) != 0 ? Bf16{static_cast<uint16_t>(random.Next() & 0x8000)}
                              : Normal(random);
}

TEST(GemmTest, Zeros) {
  Random random(8);
  for (int64_t rows : {1, 2, 34}) {
    ExpectEqual(MakeCase(random, rows, 65, 80, SomeZeros, SomeZeros), "zeros");
    // Whole steps of the activations are zero, and a whole row is.
    Case c = MakeCase(random, rows, 65, 80, Normal, Normal);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < 80; ++k) {
        if (r == 1 || (k / 16 + r) % 2 == 0) c.x[static_cast<size_t>(r * 80 + k)] = Bf16{0};
      }
    }
    EXPECT_EQ(ExpectEqual(c, "zero steps"), 0.0);
    // Rows of zero weights, as padded vocabularies have them.
    Case d = MakeCase(random, rows, 65, 80, Normal, Normal);
    std::fill(d.parts[0].elements.begin() + 80 * 10, d.parts[0].elements.begin() + 80 * 50,
              Bf16{0x8000});
    EXPECT_EQ(ExpectEqual(d, "zero weights"), 0.0);
  }
}

TEST(GemmTest, OneHot) {
  Random random(9);
  Case c = MakeCase(random, 50, 45, 50, Normal, Wide(30));
  for (size_t i = 0; i < c.x.size(); ++i) c.x[i] = i % 51 == 0 ? kOneBf16 : Bf16{0};
  ExpectEqual(c, "one-hot");
}

// All products near the maximum of their exponent: the aligned sum leaves an int32.
TEST(GemmTest, SumsThatWrap) {
  Random random(10);
  const auto near_two = [](Random& r) {
    return Bf16{static_cast<uint16_t>(0x3fff - (r.Below(8) == 0 ? 1 : 0))};
  };
  for (int64_t rows : {1, 4}) {
    EXPECT_GT(ExpectEqual(MakeCase(random, rows, 64, 64, near_two, near_two), "near two"), 0.0);
    const auto either_sign = [&](Random& r) {
      return Bf16{static_cast<uint16_t>(near_two(r).bits | (r.Below(2) << 15))};
    };
    ExpectEqual(MakeCase(random, rows, 64, 64, near_two, either_sign), "either sign");
  }
}

TEST(GemmTest, SubnormalsAndTinyValues) {
  Random random(11);
  const auto subnormal = [](Random& r) { return Bf16{static_cast<uint16_t>(r.Next() & 0x80ff)}; };
  const auto mixed = [&](Random& r) { return r.Below(2) == 0 ? subnormal(r) : Wide(60)(r); };
  for (int64_t rows : {1, 3}) {
    ExpectEqual(MakeCase(random, rows, 40, 64, subnormal, Wide(120)), "subnormal activations");
    ExpectEqual(MakeCase(random, rows, 40, 64, Wide(120), subnormal), "subnormal weights");
    ExpectEqual(MakeCase(random, rows, 40, 64, mixed, mixed), "mixed");
    EXPECT_EQ(ExpectEqual(
                  MakeCase(random, rows, 40, 64, Normal,
                           [&](Random& r) { return r.Below(20) == 0 ? subnormal(r) : Normal(r); }),
                  "a few subnormal weights"),
              0.0);
  }
}

// A row that is not finite changes no other row, and costs no other row its fast path.
TEST(GemmTest, RowsThatAreNotFinite) {
  Random random(12);
  Case c = MakeCase(random, 40, 64, 64, Normal, Normal);
  c.x[64 * 7 + 3] = Bf16{0x7fc0};
  c.x[64 * 9 + 60] = Bf16{0xff80};
  c.x[64 * 33] = Bf16{0x7f80};
  c.x[64 * 33 + 1] = Bf16{0x7f80};
  ExpectEqual(c, "not finite");
}

TEST(GemmTest, Epilogues) {
  Random random(13);
  for (int64_t rows : {1, 2, 35}) {
    for (int64_t n : {16, 96, 107}) {
      for (const MakeElement& make : {MakeElement(Normal), Wide(30)}) {
        Case c = MakeCase(random, rows, n, 80, make, make);
        for (Gemm::Epilogue epilogue : {Gemm::Epilogue::kFp32, Gemm::Epilogue::kBf16}) {
          c.epilogue = epilogue;
          c.bias.clear();
          c.residual.clear();
          ExpectEqual(c, "plain");
          for (int64_t i = 0; i < n; ++i) c.bias.push_back(random.Normal(0.0f, 1.0f));
          ExpectEqual(c, "bias");
          if (epilogue == Gemm::Epilogue::kFp32) continue;
          c.residual = RandomBf16s(random, rows * n, Values::kAdversarial);
          ExpectEqual(c, "bias and residual");
          c.bias.clear();
          ExpectEqual(c, "residual");
        }
      }
    }
  }
}

// Multipliers of branches and logits, and the cap on logits.
TEST(GemmTest, ScalesAndSoftCaps) {
  Random random(21);
  for (int64_t n : {16, 96, 107}) {
    for (const MakeElement& make : {MakeElement(Normal), Wide(30)}) {
      Case c = MakeCase(random, 5, n, 80, make, make);
      for (int64_t i = 0; i < n; ++i) c.bias.push_back(random.Normal(0.0f, 1.0f));
      c.scale = 0.22f;
      ExpectEqual(c, "scale");
      c.soft_cap = 30.0f;
      ExpectEqual(c, "scale and cap");
      c.scale = 1.0f;
      ExpectEqual(c, "cap");
      c.soft_cap = 0.0f;
      c.epilogue = Gemm::Epilogue::kBf16;
      c.scale = -1.7f;
      ExpectEqual(c, "scale, bf16");
      c.residual = RandomBf16s(random, 5 * n, Values::kAdversarial);
      ExpectEqual(c, "scale and residual");
    }
  }
}

TEST(GemmTest, ResidualInPlace) {
  Random random(14);
  Case c = MakeCase(random, 3, 50, 40, Normal, Normal);
  c.epilogue = Gemm::Epilogue::kBf16;
  c.residual = RandomBf16s(random, 3 * 50, Values::kNormal);
  const Output want = RunReference(c);
  CpuContext context(2, AvailableInstructionSets().front().targets);
  WeightArena arena;
  const auto weight = PackedWeight::Load(Sources(c), c.layout, context.pool, arena);
  ASSERT_TRUE(weight.ok());
  GemmRunner runner(context);
  std::vector<Bf16> in_place = c.residual;
  RunCase(c, **weight, [&](Gemm op) {
    op.residual = in_place.data();
    op.out_bf16 = in_place.data();
    runner.Run(op);
  });
  EXPECT_TRUE(SameBits(in_place, want.bf16, 50));
}

TEST(GemmTest, Gates) {
  Random random(15);
  for (int64_t rows : {1, 2, 33}) {
    for (int64_t n : {1, 15, 16, 17, 33, 48, 100}) {
      for (int spread : {2, 10, 40}) {
        Case c;
        c.layout = WeightLayout::kGateUp;
        c.epilogue = Gemm::Epilogue::kSiluGate;
        c.parts = {MakeMatrix(random, n, 48, Wide(spread)), MakeMatrix(random, n, 48, Wide(2))};
        c.x = MakeMatrix(random, rows, 48, Wide(2)).elements;
        ExpectEqual(c, absl::StrCat("SiLU, gate and up of ", n));
        c.epilogue = Gemm::Epilogue::kGeluGate;
        ExpectEqual(c, absl::StrCat("GELU, gate and up of ", n));
      }
    }
  }
}

// The gate runs over all bf16 that it can be, through a matrix that passes one value on.
TEST(GemmTest, GatesOfEveryBf16) {
  Case c;
  c.layout = WeightLayout::kGateUp;
  c.epilogue = Gemm::Epilogue::kSiluGate;
  std::vector<Bf16> gate(16 * 16, Bf16{0}), up(16 * 16, Bf16{0});
  for (size_t i = 0; i < 16; ++i) gate[i * 16 + i] = up[i * 16 + (i + 1) % 16] = kOneBf16;
  c.parts = {{16, 16, gate}, {16, 16, up}};
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    c.x.push_back(Bf16{static_cast<uint16_t>(bits * 40503u)});
  }
  ExpectEqual(c, "every gate");
  c.epilogue = Gemm::Epilogue::kGeluGate;
  ExpectEqual(c, "every GELU gate");
}

// Parts of any number of rows, laid below each other.
TEST(GemmTest, FusedParts) {
  Random random(16);
  for (int64_t rows : {1, 4}) {
    Case c;
    for (int64_t n : {50, 7, 64, 33}) c.parts.push_back(MakeMatrix(random, n, 70, Normal));
    c.x = MakeMatrix(random, rows, 70, Normal).elements;
    ExpectEqual(c, "four parts");
  }
}

TEST(PackedWeightTest, ReadsEachBlockOnce) {
  for (WeightLayout layout : {WeightLayout::kConcatenated, WeightLayout::kGateUp}) {
    std::array<std::array<std::atomic<int>, 4>, 2> reads{};
    std::vector<MatrixSource> sources;
    for (auto& part_reads : reads) {
      sources.push_back({100, 20, [&part_reads](int64_t begin, int64_t end, Bf16* out) {
                           EXPECT_EQ(begin % kWeightBlockRows, 0);
                           EXPECT_EQ(end, std::min<int64_t>(begin + kWeightBlockRows, 100));
                           ++part_reads[static_cast<size_t>(begin / kWeightBlockRows)];
                           std::fill(out, out + (end - begin) * 20, kOneBf16);
                         }});
    }
    CpuContext context(3, 0);
    WeightArena arena;
    ASSERT_TRUE(PackedWeight::Load(sources, layout, context.pool, arena).ok());
    for (const auto& part_reads : reads) {
      for (const auto& count : part_reads) EXPECT_EQ(count, 1);
    }
  }
}

TEST(PackedWeightTest, GivesRowsBack) {
  Random random(17);
  const Matrix a = MakeMatrix(random, 45, 37, Normal), b = MakeMatrix(random, 70, 37, Normal);
  CpuContext context(2, 0);
  WeightArena arena;
  const auto weight = PackedWeight::Load(std::vector<MatrixSource>{a.Source(), b.Source()},
                                         WeightLayout::kConcatenated, context.pool, arena);
  ASSERT_TRUE(weight.ok());
  EXPECT_EQ((*weight)->rows(), 115);
  EXPECT_EQ((*weight)->padded_cols(), 48);
  for (int64_t row = 0; row < 115; ++row) {
    std::vector<Bf16> got(37);
    (*weight)->CopyRow(row, got.data());
    const Matrix& part = row < 45 ? a : b;
    const int64_t first = (row < 45 ? row : row - 45) * 37;
    EXPECT_TRUE(SameBits(
        got, std::vector<Bf16>(part.elements.begin() + first, part.elements.begin() + first + 37)));
  }
}

TEST(PackedWeightTest, RefusesWhatCanNotBePacked) {
  CpuContext context(1, 0);
  WeightArena arena;
  const auto never = [](int64_t, int64_t, Bf16*) { FAIL() << "nothing may be read"; };
  constexpr int64_t kHuge = int64_t{1} << 61;
  for (const MatrixSource& source :
       {MatrixSource{kHuge, 1, never}, MatrixSource{1, kHuge, never}, MatrixSource{0, 5, never},
        MatrixSource{int64_t{1} << 40, 1000, never}}) {
    EXPECT_FALSE(PackedWeight::Load(std::vector<MatrixSource>{source}, WeightLayout::kConcatenated,
                                    context.pool, arena)
                     .ok());
  }
}

}  // namespace
}  // namespace isobit
