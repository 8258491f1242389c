#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/kv_cache.h"
#include "kernels/numerics/grid_exp.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {
namespace {

// Queries, keys and values of one sequence, made from its seed alone: element i of a head at a
// position is the same whatever else is in the batch.
struct Sequence {
  int64_t context;  // tokens in the cache
  int64_t queries;  // of them, the last ones that are queried
};

struct Shape {
  int heads = 3;
  int kv_heads = 1;
  int head_dim = 64;
  int page_tokens = 16;
  int window = 0;
};

// Makes element d of a query (what = 0), key (1) or value (2) at a position.
using MakeElement = std::function<Bf16(Random&, int what, int64_t position, int d)>;

Bf16 Plain(Random& random, int, int64_t, int) { return RoundToBf16(random.Normal(0.0f, 1.0f)); }

// A batch, with caches for both backends that hold the same tokens in differently shuffled pages.
// Everything that no row may look at is poison.
class Batch {
 public:
  static constexpr int kLayers = 2;
  static constexpr int kLayer = 1;

  Batch(const Shape& shape, std::vector<Sequence> sequences, const MakeElement& make, uint64_t seed)
      : shape_(shape), sequences_(std::move(sequences)) {
    Random random(seed);
    int64_t pages = 1;  // page 0 belongs to nobody
    for (const Sequence& s : sequences_) {
      stride_ = std::max(stride_, (s.context + shape.page_tokens - 1) / shape.page_tokens + 2);
      pages += (s.context + shape.page_tokens - 1) / shape.page_tokens;
    }
    KvCacheShape cache_shape;
    cache_shape.layers = kLayers;
    cache_shape.kv_heads = shape.kv_heads;
    cache_shape.head_dim = shape.head_dim;
    cache_shape.page_tokens = shape.page_tokens;
    cache_shape.pages = pages;
    reference_cache_ = *backend_.CreateKvCache(cache_shape);
    cpu_cache_ = *CpuKvCache::Create(cache_shape);

    std::vector<int32_t> all(static_cast<size_t>(pages));
    std::iota(all.begin(), all.end(), 0);
    backend_.FillPages(*reference_cache_, all, Bf16{0x7fc1});
    cpu_cache_->Fill(all, Bf16{0x7fc1});
    for (size_t i = all.size() - 1; i > 1; --i) {
      std::swap(all[i], all[1 + static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
    }
    // Beyond a sequence's context the table points at the page of nobody.
    table_.assign(sequences_.size() * static_cast<size_t>(stride_), 0);
    size_t next = 1;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      for (int64_t p = 0; p * shape.page_tokens < sequences_[s].context; ++p) {
        table_[s * static_cast<size_t>(stride_) + static_cast<size_t>(p)] = all[next++];
      }
    }
    first_row_.push_back(0);
    for (size_t s = 0; s < sequences_.size(); ++s) AddSequence(s, make, random);
  }

  Attention Op(std::vector<Bf16>& out) {
    batch_.rows = static_cast<int64_t>(position_.size());
    batch_.sequences = static_cast<int64_t>(sequences_.size());
    batch_.position = position_.data();
    batch_.sequence = sequence_.data();
    batch_.first_row = first_row_.data();
    batch_.page_table = table_.data();
    batch_.page_table_stride = stride_;
    batch_.max_context = 0;
    for (const Sequence& s : sequences_) {
      batch_.max_context = std::max(batch_.max_context, s.context);
    }
    out.assign(q_.size(), Bf16{0x7fab});
    Attention op;
    op.batch = &batch_;
    op.heads = shape_.heads;
    op.kv_heads = shape_.kv_heads;
    op.head_dim = shape_.head_dim;
    op.softmax_scale = softmax_scale;
    op.soft_cap = soft_cap;
    op.window = shape_.window;
    op.q = q_.data();
    op.layer = kLayer;
    op.out = out.data();
    return op;
  }

  std::vector<Bf16> RunReference() {
    std::vector<Bf16> out;
    Attention op = Op(out);
    op.cache = reference_cache_.get();
    backend_.Run(op);
    return out;
  }

  std::vector<Bf16> RunCpu(CpuContext& context) {
    std::vector<Bf16> out;
    Attention op = Op(out);
    op.cache = cpu_cache_.get();
    AttentionRunner runner(context);
    runner.Run(op);
    return out;
  }

  const Shape& shape() const { return shape_; }
  double softmax_scale = 0.125;
  float soft_cap = 0.0f;

 private:
  void AddSequence(size_t s, const MakeElement& make, Random& random) {
    const auto& sequence = sequences_[s];
    std::vector<Bf16> element(static_cast<size_t>(shape_.head_dim));
    for (int64_t position = 0; position < sequence.context; ++position) {
      const int32_t page = table_[s * static_cast<size_t>(stride_) +
                                  static_cast<size_t>(position / shape_.page_tokens)];
      const int slot = static_cast<int>(position % shape_.page_tokens);
      for (int head = 0; head < shape_.kv_heads; ++head) {
        auto& reference = static_cast<reference::ReferenceKvCache&>(*reference_cache_);
        for (int d = 0; d < shape_.head_dim; ++d) {
          element[static_cast<size_t>(d)] = make(random, 1, position, d);
        }
        std::copy(element.begin(), element.end(), reference.Key(kLayer, page, head, slot));
        cpu_cache_->WriteKey(kLayer, page, head, slot, element.data());
        for (int d = 0; d < shape_.head_dim; ++d) {
          element[static_cast<size_t>(d)] = make(random, 2, position, d);
        }
        std::copy(element.begin(), element.end(), reference.Value(kLayer, page, head, slot));
        cpu_cache_->WriteValue(kLayer, page, head, slot, element.data());
      }
    }
    for (int64_t i = 0; i < sequence.queries; ++i) {
      const int64_t position = sequence.context - sequence.queries + i;
      position_.push_back(static_cast<int32_t>(position));
      sequence_.push_back(static_cast<int32_t>(s));
      for (int e = 0; e < shape_.heads * shape_.head_dim; ++e) {
        q_.push_back(make(random, 0, position, e % shape_.head_dim));
      }
    }
    first_row_.push_back(static_cast<int32_t>(position_.size()));
  }

  Shape shape_;
  std::vector<Sequence> sequences_;
  reference::ReferenceBackend backend_;
  std::unique_ptr<KvCache> reference_cache_;
  std::unique_ptr<CpuKvCache> cpu_cache_;
  int64_t stride_ = 0;
  std::vector<int32_t> table_, position_, sequence_, first_row_;
  std::vector<Bf16> q_;
  RowBatch batch_;
};

// Runs every variant, compares with the reference and returns the share of tiles that the vector
// variants computed literally.
double ExpectEqual(Batch& batch, const std::string& name) {
  const std::vector<Bf16> want = batch.RunReference();
  uint64_t tiles = 0, exact = 0;
  for (const CpuVariant& variant : CpuVariants()) {
    CpuContext context(variant.threads, variant.instructions.targets);
    const std::vector<Bf16> got = batch.RunCpu(context);
    EXPECT_TRUE(SameBits(got, want, batch.shape().heads * batch.shape().head_dim))
        << name << " on " << variant.Name();
    EXPECT_GT(context.attention_tiles, 0u);
    if (variant.instructions.name == "scalar") continue;
    tiles += context.attention_tiles;
    exact += context.attention_tiles_exact;
  }
  return tiles == 0 ? 1.0 : static_cast<double>(exact) / static_cast<double>(tiles);
}

TEST(AttentionTest, Decode) {
  for (int64_t context : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2100}) {
    Batch batch({}, {{context, 1}}, Plain, static_cast<uint64_t>(context));
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat("context ", context)), 0.0);
  }
}

TEST(AttentionTest, Prefill) {
  for (int64_t tokens : {2, 11, 33, 64, 70, 150}) {
    Batch batch({}, {{tokens, tokens}}, Plain, static_cast<uint64_t>(tokens));
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat(tokens, " tokens")), 0.0);
  }
}

TEST(AttentionTest, ChunksAcrossASplit) {
  for (const auto& [context, queries] :
       std::initializer_list<std::pair<int64_t, int64_t>>{{1030, 12}, {1024, 3}, {2050, 5}}) {
    Batch batch({}, {{context, queries}}, Plain, 5);
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat(queries, " of ", context)), 0.0);
  }
}

// One batch of everything: long and short, decoding and prefilling.
TEST(AttentionTest, RaggedBatch) {
  for (int page_tokens : {16, 32, 64, 128}) {
    Shape shape;
    shape.page_tokens = page_tokens;
    shape.heads = 6;
    shape.kv_heads = 2;
    Batch batch(shape, {{300, 1}, {1, 1}, {40, 40}, {65, 1}, {200, 21}, {17, 2}}, Plain, 6);
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat("pages of ", page_tokens)), 0.0);
  }
}

TEST(AttentionTest, HeadSizes) {
  for (int head_dim : {16, 48, 64, 80, 96, 112, 128, 256, 512}) {
    Shape shape;
    shape.head_dim = head_dim;
    shape.heads = 2;
    Batch batch(shape, {{90, 3}, {20, 1}}, Plain, 7);
    batch.softmax_scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat("head size ", head_dim)), 0.0);
  }
}

TEST(AttentionTest, HeadGroups) {
  for (const auto& [heads, kv_heads] : std::initializer_list<std::pair<int, int>>{
           {1, 1}, {2, 2}, {3, 1}, {8, 2}, {8, 1}, {40, 1}, {9, 3}}) {
    Shape shape;
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    Batch batch(shape, {{70, 1}, {35, 35}}, Plain, 8);
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat(heads, " heads of ", kv_heads)), 0.0);
  }
}

TEST(AttentionTest, Windows) {
  for (int window : {1, 2, 16, 63, 64, 65, 100, 1000, 5000}) {
    Shape shape;
    shape.window = window;
    Batch batch(shape, {{1300, 2}, {150, 40}}, Plain, 9);
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat("window ", window)), 0.0);
  }
}

// Caps far above, around and below the scores, up to where capped scores pass the threshold of the
// fast path.
TEST(AttentionTest, SoftCaps) {
  const MakeElement large = [](Random& random, int what, int64_t, int) {
    return RoundToBf16(random.Normal(0.0f, what == 2 ? 1.0f : 4.0f));
  };
  for (float cap : {0.5f, 5.0f, 50.0f, 1000.0f}) {
    for (const MakeElement& make : {MakeElement(Plain), large}) {
      Shape shape;
      shape.window = cap == 5.0f ? 100 : 0;
      Batch batch(shape, {{1100, 2}, {150, 40}}, make, 10);
      batch.soft_cap = cap;
      ExpectEqual(batch, absl::StrCat("cap ", cap));
    }
  }
  // A cap that no score comes near changes next to nothing; one that binds, a lot.
  Batch plain({}, {{200, 3}}, Plain, 10), loose({}, {{200, 3}}, Plain, 10),
      tight({}, {{200, 3}}, Plain, 10);
  loose.soft_cap = 1000.0f;
  tight.soft_cap = 0.5f;
  const auto distance = [](const std::vector<Bf16>& a, const std::vector<Bf16>& b) {
    float sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::fabs(ToFloat(a[i]) - ToFloat(b[i]));
    return sum / static_cast<float>(a.size());
  };
  EXPECT_LT(distance(plain.RunReference(), loose.RunReference()), 1e-3f);
  EXPECT_GT(distance(plain.RunReference(), tight.RunReference()), 1e-2f);
}

// Scores that rise or fall with the position, from a little to beyond what fp32 can exponentiate:
// every way through the buckets.
TEST(AttentionTest, ScoresThatGrowAndFall) {
  for (float slope : {0.02f, -0.02f, 1.0f, -1.0f, 30.0f, -30.0f, 3000.0f, -3000.0f}) {
    const auto make = [slope](Random& random, int what, int64_t position, int) {
      if (what == 0) return RoundToBf16(1.0f);
      if (what == 1) return RoundToBf16(slope * static_cast<float>(position) * 0.1f);
      return RoundToBf16(random.Normal(0.0f, 1.0f));
    };
    Batch batch({}, {{300, 1}, {80, 80}, {1200, 2}}, make, 10);
    ExpectEqual(batch, absl::StrCat("slope ", slope));
  }
}

// Peaked, as attention sinks are: a few keys carry all the weight.
TEST(AttentionTest, HugeScores) {
  for (float size : {4.0f, 16.0f, 100.0f, 1e4f, 1e10f, 1e18f}) {
    const auto make = [size](Random& random, int what, int64_t, int) {
      return RoundToBf16(random.Normal(0.0f, what == 2 ? 1.0f : size));
    };
    Batch batch({}, {{200, 3}, {1100, 1}}, make, 11);
    ExpectEqual(batch, absl::StrCat("size ", size));
  }
}

// Equal keys give equal probabilities. If their significands and those of the values are near 2,
// and the keys before leave a sum of the same exponent, the next 16 take an int32 beyond its range.
TEST(AttentionTest, EqualKeysAfterFaintOnes) {
  for (int step = 18; step < 26; ++step) {
    for (int faint = 26; faint < 32; ++faint) {
      const auto make = [=](Random&, int what, int64_t position, int d) {
        if (what == 0) return d == 0 ? kOneBf16 : Bf16{0};
        if (what == 2) return Bf16{static_cast<uint16_t>(0x3fff - d % 3)};
        const float score = 0.25f * static_cast<float>(step);
        return RoundToBf16(position < 16 ? score - static_cast<float>(faint) : score);
      };
      Batch batch({}, {{70, 2}}, make, 12);
      ExpectEqual(batch, absl::StrCat("step ", step, ", faint ", faint));
    }
  }
}

// The same in scores: the first 16 dimensions leave a sum in [1, 2), the next 16 products are all
// near 4.
TEST(AttentionTest, ScoresThatWrap) {
  for (int q_first = 0x3d60; q_first < 0x3d80; q_first += 4) {
    const auto make = [q_first](Random& random, int what, int64_t position, int d) {
      if (what == 2) return Plain(random, what, position, d);
      if (what == 0 && d < 16) return Bf16{static_cast<uint16_t>(q_first)};
      if (what == 1 && position % 2 == 1) return RoundToBf16(0.5f);
      return Bf16{0x3fff};
    };
    Batch batch({}, {{70, 2}}, make, 21);
    batch.softmax_scale = 0.01;
    ExpectEqual(batch, absl::StrCat("first ", q_first));
  }
}

// A split whose first keys have probabilities at the lower end of fp32: their sum is what begins
// below the kernels' limit, not that of the values, which are large.
TEST(AttentionTest, FaintFirstKeys) {
  for (float log2_p = -108.0f; log2_p < -95.0f; log2_p += 0.5f) {
    const auto make = [log2_p](Random& random, int what, int64_t position, int d) {
      if (what == 0) return d == 0 ? kOneBf16 : Bf16{0};
      if (what == 2) return RoundToBf16(random.Uniform(4000.0f, 5000.0f));
      // 0.125 * log2(e) is 0.18 a unit of the score.
      return RoundToBf16(position < 16 ? log2_p / 0.18f : 0.0f);
    };
    Batch batch({}, {{40, 2}}, make, 20);
    ExpectEqual(batch, absl::StrCat("2^", log2_p));
  }
}

TEST(AttentionTest, ZeroAndTinyInputs) {
  for (int zero = 0; zero < 3; ++zero) {
    const auto make = [zero](Random& random, int what, int64_t position, int d) {
      return what == zero && (d % 3 != 0 || position < 40) ? Bf16{0} : Plain(random, what, 0, 0);
    };
    Batch batch({}, {{150, 2}, {64, 64}}, make, 13);
    EXPECT_EQ(ExpectEqual(batch, absl::StrCat("zeros in ", zero)), 0.0);
    const auto tiny = [zero](Random& random, int what, int64_t, int) {
      const Bf16 x = Plain(random, what, 0, 0);
      return what == zero ? Bf16{static_cast<uint16_t>(x.bits & 0x807f)} : x;
    };
    Batch subnormal({}, {{150, 2}}, tiny, 14);
    ExpectEqual(subnormal, absl::StrCat("subnormals in ", zero));
  }
}

TEST(AttentionTest, AnyBits) {
  for (Values values : {Values::kWide, Values::kAdversarial}) {
    for (int wild = 0; wild < 4; ++wild) {
      const auto make = [=](Random& random, int what, int64_t position, int d) {
        if (wild == 3 || (what == wild && random.Below(5) == 0)) {
          return RandomBf16(random, values);
        }
        return Plain(random, what, position, d);
      };
      Batch batch({}, {{140, 2}, {30, 30}}, make, 15);
      ExpectEqual(batch, absl::StrCat("any bits in ", wild));
    }
  }
}

// A first block whose sums come near fp32's limit or beyond, or to the subnormals, leaves them to
// blocks that are harmless by themselves.
TEST(AttentionTest, SumsOfAllSizesAtTheStartOfABlock) {
  for (int exponent : {-133, -126, -100, -60, 100, 110, 116, 120, 125, 127}) {
    for (bool zeros_follow : {false, true}) {
      const auto make = [=](Random& random, int what, int64_t position, int d) {
        if (what != 2) return RoundToBf16(random.Normal(0.0f, 0.5f));
        if (position < 64) {
          return RoundToBf16(std::ldexp(random.Uniform(1.0f, 1.9f), exponent));
        }
        return zeros_follow && d % 2 == 0 ? Bf16{0} : Plain(random, what, position, d);
      };
      Batch batch({}, {{200, 2}}, make, 19);
      ExpectEqual(batch, absl::StrCat("2^", exponent, zeros_follow ? ", then zeros" : ""));
    }
  }
}

// A query that is not finite is alone with it; a key or value that is not, reaches only the rows
// that see it.
TEST(AttentionTest, NotFiniteInputsReachOnlyWhoSeesThem) {
  for (int what = 0; what < 3; ++what) {
    for (uint16_t bits : {0x7fc0, 0x7f80, 0xff80}) {
      const auto make = [=](Random& random, int w, int64_t position, int d) {
        if (w == what && position == 37 && d == 5) return Bf16{bits};
        return Plain(random, w, position, d);
      };
      Batch batch({}, {{60, 60}}, make, 16);
      ExpectEqual(batch, absl::StrCat("bits ", bits, " in ", what));
    }
  }
}

// Chunked or whole, alone or in company: the same rows give the same bits.
TEST(AttentionTest, ChunksEqualTheWhole) {
  constexpr int64_t kTokens = 1100;
  Shape shape;
  shape.page_tokens = 32;
  const auto element = [](Random&, int what, int64_t position, int d) {
    Random own(static_cast<uint64_t>(what) << 40 ^ static_cast<uint64_t>(position) << 12 ^
               static_cast<uint64_t>(d));
    return Plain(own, what, position, d);
  };
  const std::vector<InstructionSet> sets = AvailableInstructionSets();
  CpuContext context(3, sets.front().targets);
  Batch whole(shape, {{kTokens, kTokens}}, element, 17);
  const std::vector<Bf16> want = whole.RunCpu(context);
  const int64_t width = shape.heads * shape.head_dim;
  for (const auto& [tokens, queries] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {1, 1}, {64, 7}, {65, 64}, {500, 1}, {1024, 128}, {1025, 1}, {1100, 300}}) {
    Batch chunk(shape, {{33, 1}, {tokens, queries}, {90, 90}}, element, 18);
    const std::vector<Bf16> got = chunk.RunCpu(context);
    const std::vector<Bf16> got_rows(got.begin() + width, got.begin() + (1 + queries) * width);
    const std::vector<Bf16> want_rows(want.begin() + (tokens - queries) * width,
                                      want.begin() + tokens * width);
    EXPECT_TRUE(SameBits(got_rows, want_rows, width)) << queries << " of " << tokens;
  }
}

// Every point of the grid through the kernel that makes probabilities, with c = 1 and no bucket.
TEST(AttentionKernelTest, ExponentialOfEveryGridPoint) {
  constexpr float kLowest = -130.0f, kHighest = 128.5f;
  for (const InstructionSet& set : AvailableInstructionSets()) {
    CpuContext context(1, set.targets);
    const AttentionKernels kernels = SelectAttentionKernels(context);
    alignas(64) float o[kTileLanes], l = 0.0f, bucket = 0.0f;
    alignas(64) float scores[kBlockKeys];
    bool empty = false;
    ActivationStep p[kBlockSteps];
    StepKind kinds[kBlockSteps];
    ExponentRange exponents;
    const VisibleKeys visible = {0, kBlockKeys - 1};
    int64_t different = 0;
    for (float x = kLowest; x < kHighest; x += kBlockKeys / static_cast<float>(kGridSize)) {
      for (int j = 0; j < kBlockKeys; ++j) {
        scores[j] = x + static_cast<float>(j) / static_cast<float>(kGridSize);
      }
      kernels.probabilities({scores, &visible, AttentionScale{1.0f, 1024.0f},
                             AttentionRows{1, kTileLanes, o, &l, &bucket, &empty}, p, kinds,
                             &exponents});
      for (int j = 0; j < kBlockKeys; ++j) {
        const float want = ToFloat(GridExp2(scores[j]));
        different += FloatBits(p[j / kDotTerms].value[j % kDotTerms]) != FloatBits(want);
      }
    }
    EXPECT_EQ(different, 0) << set.name;
  }
}

TEST(AttentionTest, HeadSizesThatAreRefused) {
  for (int head_dim : {16, 64, 80, 512}) EXPECT_TRUE(CheckCpuHeadDim(head_dim).ok());
  for (int head_dim : {-16, 0, 1, 63, 65, 528}) {
    EXPECT_EQ(CheckCpuHeadDim(head_dim).code(), absl::StatusCode::kInvalidArgument) << head_dim;
  }
}

}  // namespace
}  // namespace isobit
