// The oracle itself is held against definitions in double here: that it computes the right thing,
// within rounding. That it does so in the right order is what kernels/numerics is tested for.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "kernels/numerics/scalar.h"
#include "kernels/reference/backend.h"

namespace isobit {
namespace {

// Small numbers without pattern: a linear congruence of Knuth's, upper bits.
class Numbers {
 public:
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 40) - (1 << 23)) * 0x1p-22f;
  }
  std::vector<Bf16> Bf16s(int64_t n) {
    std::vector<Bf16> x(n);
    for (Bf16& value : x) value = RoundToBf16(Next());
    return x;
  }

 private:
  uint64_t state_ = 1;
};

class ReferenceOperations : public testing::Test {
 protected:
  std::unique_ptr<Weight> Load(const std::vector<std::vector<Bf16>>& parts, int64_t cols,
                               WeightLayout layout) {
    std::vector<MatrixSource> sources;
    for (const std::vector<Bf16>& part : parts) {
      sources.push_back({static_cast<int64_t>(part.size()) / cols, cols,
                         [&part, cols](int64_t begin, int64_t end, Bf16* out) {
                           std::copy(part.begin() + begin * cols, part.begin() + end * cols, out);
                         }});
    }
    return *backend_->LoadWeight(sources, layout);
  }
  static double Dot(const Bf16* a, const Bf16* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double{ToFloat(a[i])} * ToFloat(b[i]);
    return sum;
  }
  std::unique_ptr<Backend> backend_ = CreateReferenceBackend();
  Numbers numbers_;
};

TEST_F(ReferenceOperations, EmbedPicksRows) {
  const std::vector<Bf16> table = numbers_.Bf16s(40 * 3);
  const auto weight = Load({table}, 3, WeightLayout::kConcatenated);
  const std::vector<int32_t> tokens = {39, 0, 39};
  std::vector<Bf16> out(9);
  Embed op;
  op.rows = 3;
  op.table = weight.get();
  op.token_ids = tokens.data();
  op.out = out.data();
  backend_->Run(op);
  for (int r = 0; r < 3; ++r) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(out[r * 3 + i], table[tokens[r] * 3 + i]);
  }
}

TEST_F(ReferenceOperations, NormDividesByTheRootMeanSquare) {
  constexpr int64_t kWidth = 200;
  const std::vector<Bf16> x = numbers_.Bf16s(4 * kWidth), weight = numbers_.Bf16s(kWidth);
  const std::vector<int32_t> row_index = {3, 1};
  std::vector<Bf16> out(2 * kWidth);
  RmsNorm op;
  op.rows = 2;
  op.width = kWidth;
  op.eps = 0.01f;
  op.x = x.data();
  op.row_index = row_index.data();
  op.weight = weight.data();
  op.out = out.data();
  backend_->Run(op);
  for (int r = 0; r < 2; ++r) {
    const Bf16* row = x.data() + row_index[r] * kWidth;
    const double scale = 1 / std::sqrt(Dot(row, row, kWidth) / kWidth + 0.01f);
    for (int64_t i = 0; i < kWidth; ++i) {
      const double want = ToFloat(row[i]) * scale * ToFloat(weight[i]);
      EXPECT_NEAR(ToFloat(out[r * kWidth + i]), want, std::abs(want) * 0x1p-7) << r << ", " << i;
    }
  }
}

TEST_F(ReferenceOperations, GemmAddsBiasThenResidual) {
  constexpr int64_t kRows = 3, kN = 37, kK = 53;
  const std::vector<Bf16> w = numbers_.Bf16s(kN * kK), x = numbers_.Bf16s(kRows * kK);
  const std::vector<Bf16> residual = numbers_.Bf16s(kRows * kN);
  std::vector<float> bias(kN);
  for (float& b : bias) b = numbers_.Next();
  const auto weight = Load({w}, kK, WeightLayout::kConcatenated);
  Gemm op;
  op.rows = kRows;
  op.weight = weight.get();
  op.x = x.data();
  for (bool with_bias : {false, true}) {
    op.bias = with_bias ? bias.data() : nullptr;
    std::vector<float> fp32(kRows * kN);
    op.epilogue = Gemm::Epilogue::kFp32;
    op.residual = nullptr;
    op.out_fp32 = fp32.data();
    backend_->Run(op);
    std::vector<Bf16> bf16 = residual;  // in place
    op.epilogue = Gemm::Epilogue::kBf16;
    op.residual = bf16.data();
    op.out_bf16 = bf16.data();
    backend_->Run(op);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < kN; ++i) {
        const double dot = Dot(x.data() + r * kK, w.data() + i * kK, kK);
        const double want = dot + (with_bias ? bias[i] : 0.0f);
        EXPECT_NEAR(fp32[r * kN + i], want, 1e-4);
        const float sum = fp32[r * kN + i] + ToFloat(residual[r * kN + i]);
        EXPECT_EQ(bf16[r * kN + i], RoundToBf16(sum));  // one rounding, at the end
      }
    }
  }
}

TEST_F(ReferenceOperations, GemmGatesTheUpHalfByTheGateHalf) {
  constexpr int64_t kRows = 2, kHalf = 5, kK = 40;
  const std::vector<Bf16> gate = numbers_.Bf16s(kHalf * kK), up = numbers_.Bf16s(kHalf * kK);
  const std::vector<Bf16> x = numbers_.Bf16s(kRows * kK);
  const auto weight = Load({gate, up}, kK, WeightLayout::kGateUp);
  std::vector<Bf16> out(kRows * kHalf);
  Gemm op;
  op.rows = kRows;
  op.weight = weight.get();
  op.x = x.data();
  op.epilogue = Gemm::Epilogue::kSiluGate;
  op.out_bf16 = out.data();
  backend_->Run(op);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < kHalf; ++i) {
      const double g = Dot(x.data() + r * kK, gate.data() + i * kK, kK);
      const double u = Dot(x.data() + r * kK, up.data() + i * kK, kK);
      const double want = g / (1 + std::exp(-g)) * u;
      EXPECT_NEAR(ToFloat(out[r * kHalf + i]), want, 0x1p-6 * std::abs(want) + 5e-5);
    }
  }
}

TEST_F(ReferenceOperations, AnOddKLosesNothing) {
  for (int64_t k : {1, 15, 17, 513}) {
    const std::vector<Bf16> ones(k, kOneBf16);
    const auto weight = Load({ones}, k, WeightLayout::kConcatenated);
    float out = 0;
    Gemm op;
    op.rows = 1;
    op.weight = weight.get();
    op.x = ones.data();
    op.epilogue = Gemm::Epilogue::kFp32;
    op.out_fp32 = &out;
    backend_->Run(op);
    EXPECT_EQ(out, static_cast<float>(k));
  }
}

// Two sequences in scattered pages: keys and values written by RopeKvWrite are what Attention
// reads, and pages that nobody owns may hold NaN.
class ReferenceAttention : public ReferenceOperations {
 protected:
  static constexpr int kHeads = 4, kKvHeads = 2, kDim = 8, kPage = 16;
  static constexpr int64_t kWidth = (kHeads + 2 * kKvHeads) * kDim;

  ReferenceAttention() {
    for (int32_t p = 0; p < 20; ++p) {
      position_.push_back(p);
      sequence_.push_back(0);
    }
    for (int32_t p = 0; p < 3; ++p) {
      position_.push_back(p);
      sequence_.push_back(1);
    }
    batch_.rows = 23;
    batch_.sequences = 2;
    batch_.position = position_.data();
    batch_.sequence = sequence_.data();
    batch_.first_row = first_row_;
    batch_.page_table = page_table_;
    batch_.page_table_stride = 2;
    batch_.max_context = 20;
    cache_ = *backend_->CreateKvCache({/*layers=*/2, kKvHeads, kDim, kPage, /*pages=*/6});
    backend_->FillPages(*cache_, std::vector<int32_t>{0, 1, 2, 3, 4, 5}, kCanonicalNanBf16);
  }

  std::vector<Bf16> Write(const std::vector<Bf16>& qkv, int rotary_dim, const float* cos,
                          const float* sin) {
    std::vector<Bf16> q(batch_.rows * kHeads * kDim);
    RopeKvWrite op;
    op.batch = &batch_;
    op.heads = kHeads;
    op.kv_heads = kKvHeads;
    op.head_dim = kDim;
    op.qkv = qkv.data();
    op.rotary_dim = rotary_dim;
    op.cos = cos;
    op.sin = sin;
    op.q = q.data();
    op.cache = cache_.get();
    op.layer = 1;
    backend_->Run(op);
    return q;
  }

  std::vector<int32_t> position_, sequence_;
  const int32_t first_row_[3] = {0, 20, 23};
  const int32_t page_table_[4] = {4, 1, 2, 0};
  RowBatch batch_;
  std::unique_ptr<KvCache> cache_;
};

TEST_F(ReferenceAttention, WeighsValuesByTheSoftmaxOfScores) {
  const std::vector<Bf16> qkv = numbers_.Bf16s(batch_.rows * kWidth);
  const std::vector<Bf16> q = Write(qkv, /*rotary_dim=*/0, nullptr, nullptr);
  const double scale = 1 / std::sqrt(double{kDim});
  for (int window : {0, 5}) {
    std::vector<Bf16> out(q.size());
    Attention op;
    op.batch = &batch_;
    op.heads = kHeads;
    op.kv_heads = kKvHeads;
    op.head_dim = kDim;
    op.softmax_scale = scale;
    op.window = window;
    op.q = q.data();
    op.cache = cache_.get();
    op.layer = 1;
    op.out = out.data();
    backend_->Run(op);
    for (int64_t r = 0; r < batch_.rows; ++r) {
      for (int h = 0; h < kHeads; ++h) {
        const int kv = h / (kHeads / kKvHeads);
        const int64_t first_row = first_row_[sequence_[r]];
        const int first = window > 0 ? std::max(0, position_[r] - window + 1) : 0;
        double sum = 0;
        std::vector<double> want(kDim, 0);
        for (int p = first; p <= position_[r]; ++p) {
          const Bf16* key = qkv.data() + (first_row + p) * kWidth + (kHeads + kv) * kDim;
          const Bf16* value = key + kKvHeads * kDim;
          const double e = std::exp(scale * Dot(q.data() + (r * kHeads + h) * kDim, key, kDim));
          sum += e;
          for (int i = 0; i < kDim; ++i) want[i] += e * ToFloat(value[i]);
        }
        for (int i = 0; i < kDim; ++i) {
          EXPECT_NEAR(ToFloat(out[(r * kHeads + h) * kDim + i]), want[i] / sum, 0.02)
              << "row " << r << ", head " << h << ", window " << window;
        }
      }
    }
  }
}

TEST_F(ReferenceAttention, RotatesHalvesByThePosition) {
  const std::vector<Bf16> qkv = numbers_.Bf16s(batch_.rows * kWidth);
  constexpr int kPairs = 3;  // two dimensions are left alone
  std::vector<float> cos(20 * kPairs), sin(20 * kPairs);
  for (int p = 0; p < 20; ++p) {
    for (int i = 0; i < kPairs; ++i) {
      cos[p * kPairs + i] = std::cos(p / (i + 1.0f));
      sin[p * kPairs + i] = std::sin(p / (i + 1.0f));
    }
  }
  const std::vector<Bf16> q = Write(qkv, 2 * kPairs, cos.data(), sin.data());
  const auto& kv = static_cast<const reference::ReferenceKvCache&>(*cache_);
  for (int64_t r = 0; r < batch_.rows; ++r) {
    const int p = position_[r];
    const int32_t page = page_table_[sequence_[r] * 2 + p / kPage];
    for (int h = 0; h < kHeads + kKvHeads; ++h) {
      const Bf16* x = qkv.data() + r * kWidth + h * kDim;
      const Bf16* y =
          h < kHeads ? q.data() + (r * kHeads + h) * kDim : kv.Key(1, page, h - kHeads, p % kPage);
      for (int i = 0; i < kPairs; ++i) {
        const double c = cos[p * kPairs + i], s = sin[p * kPairs + i];
        const double x1 = ToFloat(x[i]), x2 = ToFloat(x[i + kPairs]);
        EXPECT_NEAR(ToFloat(y[i]), x1 * c - x2 * s, 0.02);
        EXPECT_NEAR(ToFloat(y[i + kPairs]), x2 * c + x1 * s, 0.02);
      }
      for (int i = 2 * kPairs; i < kDim; ++i) EXPECT_EQ(y[i], x[i]);
    }
    for (int h = 0; h < kKvHeads; ++h) {
      const Bf16* value = qkv.data() + r * kWidth + (kHeads + kKvHeads + h) * kDim;
      EXPECT_TRUE(std::equal(value, value + kDim, kv.Value(1, page, h, p % kPage)));
    }
  }
}

}  // namespace
}  // namespace isobit
