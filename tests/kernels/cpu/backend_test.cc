#include "kernels/cpu/backend.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "kernels/host.h"
#include "kernels/numerics/rope.h"
#include "kernels/numerics/sampling.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {
namespace {

using testing::HasSubstr;

// ---- One step of a small model through every operation

constexpr int kHeads = 6, kKvHeads = 2, kDim = 64, kPage = 16, kPositions = 96;
constexpr int64_t kWidth = kHeads * kDim, kFfn = 200, kVocab = 333;

struct Matrices {
  explicit Matrices(uint64_t seed) {
    Random random(seed);
    const auto matrix = [&](int64_t rows, int64_t cols) {
      std::vector<Bf16> w(rows * cols);
      for (Bf16& x : w) x = RoundToBf16(random.Normal(0.0f, 0.06f));
      return w;
    };
    embedding = matrix(kVocab, kWidth);
    q = matrix(kWidth, kWidth);
    k = matrix(kKvHeads * kDim, kWidth);
    v = matrix(kKvHeads * kDim, kWidth);
    o = matrix(kWidth, kWidth);
    gate = matrix(kFfn, kWidth);
    up = matrix(kFfn, kWidth);
    down = matrix(kWidth, kFfn);
    norm.resize(kWidth);
    for (Bf16& x : norm) x = RoundToBf16(random.Normal(1.0f, 0.1f));
    bias.resize((kHeads + 2 * kKvHeads) * kDim);
    for (float& x : bias) x = random.Normal(0.0f, 0.1f);
  }
  std::vector<Bf16> embedding, q, k, v, o, gate, up, down, norm;
  std::vector<float> bias;
};

// What a step leaves: everything that a next operation or a user could see.
struct StepResult {
  std::vector<Bf16> hidden;
  std::vector<float> logits;
  std::vector<float> logprob;
  std::vector<SampledToken> sampled;
};

testing::AssertionResult SameResult(const StepResult& got, const StepResult& want) {
  if (auto same = SameBits(got.hidden, want.hidden, kWidth); !same) return same << " (hidden)";
  if (auto same = SameBits(got.logits, want.logits, kVocab); !same) return same << " (logits)";
  if (auto same = SameBits(got.logprob, want.logprob); !same) return same << " (logprob)";
  return SameBits(got.sampled, want.sampled) << " (sampled)";
}

// A model of one layer on one backend.
class TinyModel {
 public:
  TinyModel(Backend& backend, const Matrices& m) : backend_(backend) {
    embedding_ = Load({&m.embedding}, kWidth, WeightLayout::kConcatenated);
    qkv_ = Load({&m.q, &m.k, &m.v}, kWidth, WeightLayout::kConcatenated);
    o_ = Load({&m.o}, kWidth, WeightLayout::kConcatenated);
    gate_up_ = Load({&m.gate, &m.up}, kWidth, WeightLayout::kGateUp);
    down_ = Load({&m.down}, kFfn, WeightLayout::kConcatenated);
    norm_ = Put(m.norm);
    bias_ = Put(m.bias);
    std::vector<double> inv_freq(kDim / 2);
    RopeInvFreq(kDim, 10000.0, inv_freq.data());
    std::vector<float> cos(kPositions * kDim / 2), sin(cos.size());
    for (int64_t p = 0; p < kPositions; ++p) {
      RopeTableRow(p, inv_freq.data(), kDim / 2, &cos[p * kDim / 2], &sin[p * kDim / 2]);
    }
    cos_ = Put(cos);
    sin_ = Put(sin);
    cache_ = *backend.CreateKvCache({/*layers=*/1, kKvHeads, kDim, kPage, /*pages=*/16});
    std::vector<int32_t> pages(16);
    for (int32_t p = 0; p < 16; ++p) pages[p] = p;
    backend.FillPages(*cache_, pages, kCanonicalNanBf16);
  }

  // Rows of sequences, (first position, rows) each; pages are dealt in a scattered order.
  StepResult Step(const std::vector<std::pair<int, int>>& chunks) {
    std::vector<int32_t> position, sequence, first_row, page_table, token, last_row, target;
    for (size_t s = 0; s < chunks.size(); ++s) {
      first_row.push_back(static_cast<int32_t>(position.size()));
      for (int i = 0; i < chunks[s].second; ++i) {
        position.push_back(chunks[s].first + i);
        sequence.push_back(static_cast<int32_t>(s));
        token.push_back((position.back() * 7 + static_cast<int32_t>(s) * 31) % kVocab);
      }
      last_row.push_back(static_cast<int32_t>(position.size()) - 1);
      target.push_back(static_cast<int32_t>(s));
      for (int p = 0; p < 6; ++p) {
        page_table.push_back((static_cast<int32_t>(page_table.size()) * 5 + 3) % 16);
      }
    }
    first_row.push_back(static_cast<int32_t>(position.size()));
    const int64_t rows = static_cast<int64_t>(position.size());
    const int64_t sequences = static_cast<int64_t>(chunks.size());
    const auto position_b = Put(position), sequence_b = Put(sequence), first_row_b = Put(first_row);
    const auto page_table_b = Put(page_table), token_b = Put(token), last_row_b = Put(last_row);
    const auto target_b = Put(target);
    RowBatch batch;
    batch.rows = rows;
    batch.sequences = sequences;
    batch.position = position_b->As<int32_t>();
    batch.sequence = sequence_b->As<int32_t>();
    batch.first_row = first_row_b->As<int32_t>();
    batch.page_table = page_table_b->As<int32_t>();
    batch.page_table_stride = 6;
    batch.max_context = *std::max_element(position.begin(), position.end()) + 1;

    const auto x = Space<Bf16>(rows * kWidth), normed = Space<Bf16>(rows * kWidth);
    Embed embed;
    embed.rows = rows;
    embed.table = embedding_.get();
    embed.token_ids = token_b->As<int32_t>();
    embed.out = x->As<Bf16>();
    backend_.Run(embed);
    Norm(rows, x->As<Bf16>(), nullptr, normed->As<Bf16>());
    Attend(batch, normed->As<Bf16>(), x->As<Bf16>());
    Norm(rows, x->As<Bf16>(), nullptr, normed->As<Bf16>());
    FeedForward(rows, normed->As<Bf16>(), x->As<Bf16>());
    Norm(sequences, x->As<Bf16>(), last_row_b->As<int32_t>(), normed->As<Bf16>());
    return Finish(rows, sequences, x->As<Bf16>(), normed->As<Bf16>(), target_b->As<int32_t>());
  }

 private:
  std::unique_ptr<Weight> Load(const std::vector<const std::vector<Bf16>*>& parts, int64_t cols,
                               WeightLayout layout) {
    std::vector<MatrixSource> sources;
    for (const std::vector<Bf16>* part : parts) {
      sources.push_back({static_cast<int64_t>(part->size()) / cols, cols,
                         [part, cols](int64_t begin, int64_t end, Bf16* out) {
                           std::copy(part->begin() + begin * cols, part->begin() + end * cols, out);
                         }});
    }
    return *backend_.LoadWeight(sources, layout);
  }
  template <typename T>
  std::unique_ptr<Buffer> Space(int64_t n) {
    return *backend_.Allocate(n * sizeof(T));
  }
  template <typename T>
  std::unique_ptr<Buffer> Put(const std::vector<T>& values) {
    auto buffer = Space<T>(static_cast<int64_t>(values.size()));
    backend_.Upload(values.data(), values.size() * sizeof(T), buffer->data());
    return buffer;
  }
  template <typename T>
  std::vector<T> Get(const T* from, int64_t n) {
    std::vector<T> values(n);
    backend_.Download(from, n * sizeof(T), values.data());
    EXPECT_TRUE(backend_.Synchronize().ok());
    return values;
  }

  void Norm(int64_t rows, const Bf16* x, const int32_t* row_index, Bf16* out) {
    RmsNorm op;
    op.rows = rows;
    op.width = kWidth;
    op.eps = 1e-5f;
    op.x = x;
    op.row_index = row_index;
    op.weight = norm_->As<Bf16>();
    op.out = out;
    backend_.Run(op);
  }

  void Linear(int64_t rows, const Weight& weight, const Bf16* x, const float* bias,
              const Bf16* residual, Bf16* out) {
    Gemm op;
    op.rows = rows;
    op.weight = &weight;
    op.x = x;
    op.bias = bias;
    op.residual = residual;
    op.out_bf16 = out;
    backend_.Run(op);
  }

  void Attend(const RowBatch& batch, const Bf16* normed, Bf16* x) {
    const auto qkv = Space<Bf16>(batch.rows * (kHeads + 2 * kKvHeads) * kDim);
    const auto q = Space<Bf16>(batch.rows * kWidth), out = Space<Bf16>(batch.rows * kWidth);
    Linear(batch.rows, *qkv_, normed, bias_->As<float>(), nullptr, qkv->As<Bf16>());
    RopeKvWrite rope;
    rope.batch = &batch;
    rope.heads = kHeads;
    rope.kv_heads = kKvHeads;
    rope.head_dim = kDim;
    rope.qkv = qkv->As<Bf16>();
    rope.rotary_dim = kDim;
    rope.cos = cos_->As<float>();
    rope.sin = sin_->As<float>();
    rope.q = q->As<Bf16>();
    rope.cache = cache_.get();
    backend_.Run(rope);
    Attention attention;
    attention.batch = &batch;
    attention.heads = kHeads;
    attention.kv_heads = kKvHeads;
    attention.head_dim = kDim;
    attention.softmax_scale = 0.125;
    attention.q = q->As<Bf16>();
    attention.cache = cache_.get();
    attention.out = out->As<Bf16>();
    backend_.Run(attention);
    Linear(batch.rows, *o_, out->As<Bf16>(), nullptr, x, x);
  }

  void FeedForward(int64_t rows, const Bf16* normed, Bf16* x) {
    const auto gated = Space<Bf16>(rows * kFfn);
    Gemm op;
    op.rows = rows;
    op.weight = gate_up_.get();
    op.x = normed;
    op.epilogue = Gemm::Epilogue::kSiluGate;
    op.out_bf16 = gated->As<Bf16>();
    backend_.Run(op);
    Linear(rows, *down_, gated->As<Bf16>(), nullptr, x, x);
  }

  StepResult Finish(int64_t rows, int64_t sequences, const Bf16* x, const Bf16* normed,
                    const int32_t* target) {
    const auto logits = Space<float>(sequences * kVocab), logprob = Space<float>(sequences);
    Gemm op;
    op.rows = sequences;
    op.weight = embedding_.get();  // tied
    op.x = normed;
    op.epilogue = Gemm::Epilogue::kFp32;
    op.out_fp32 = logits->As<float>();
    backend_.Run(op);
    ScoreTokens score;
    score.rows = sequences;
    score.vocab = kVocab;
    score.logits = logits->As<float>();
    score.token = target;
    score.logprob = logprob->As<float>();
    backend_.Run(score);
    std::vector<SamplingRow> params(sequences);
    for (int64_t s = 0; s < sequences; ++s) {
      params[s].temperature = static_cast<float>(s);
      params[s].seed = 5;
      params[s].top_p_q32 = ProbabilityQ32(0.9);
    }
    const auto params_b = Put(params);
    const auto sampled = Space<SampledToken>(sequences);
    SampleTokens sample;
    sample.rows = sequences;
    sample.vocab = kVocab;
    sample.logits = logits->As<float>();
    sample.params = params_b->As<SamplingRow>();
    sample.sampled = sampled->As<SampledToken>();
    backend_.Run(sample);
    return {Get(x, rows * kWidth), Get(logits->As<float>(), sequences * kVocab),
            Get(logprob->As<float>(), sequences), Get(sampled->As<SampledToken>(), sequences)};
  }

  Backend& backend_;
  std::unique_ptr<Weight> embedding_, qkv_, o_, gate_up_, down_;
  std::unique_ptr<Buffer> norm_, bias_, cos_, sin_;
  std::unique_ptr<KvCache> cache_;
};

// Two prefills, then a chunk beside a decode.
std::vector<StepResult> Steps(Backend& backend, const Matrices& matrices) {
  TinyModel model(backend, matrices);
  return {model.Step({{0, 33}, {0, 9}}), model.Step({{33, 20}, {9, 1}}),
          model.Step({{53, 1}, {10, 1}})};
}

std::unique_ptr<Backend> Cpu(int threads, const std::string& instructions) {
  auto backend = CreateCpuBackend({threads, instructions});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

TEST(CpuBackend, StepsOfAModelEqualTheReference) {
  const Matrices matrices(1);
  const std::vector<StepResult> want = Steps(*CreateReferenceBackend(), matrices);
  for (const CpuVariant& variant : CpuVariants()) {
    auto backend = Cpu(variant.threads, variant.instructions.name);
    const std::vector<StepResult> got = Steps(*backend, matrices);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(SameResult(got[i], want[i])) << variant.Name() << ", step " << i;
    }
    EXPECT_GT(backend->Counters().gemm_tiles, 0u);
    EXPECT_GT(backend->Counters().attention_tiles, 0u);
  }
}

// A sequence has the same bits alone and in company, however it was cut into chunks.
TEST(CpuBackend, CompanyAndChunksChangeNothing) {
  const Matrices matrices(2);
  auto backend = Cpu(2, "auto");
  TinyModel whole(*backend, matrices), chunked(*backend, matrices);
  const StepResult alone = whole.Step({{0, 50}});
  chunked.Step({{0, 7}, {0, 30}});
  chunked.Step({{7, 42}, {30, 1}});
  const StepResult last = chunked.Step({{49, 1}, {31, 4}});
  EXPECT_TRUE(SameBits<Bf16>({last.hidden.begin(), last.hidden.begin() + kWidth},
                             {alone.hidden.end() - kWidth, alone.hidden.end()}, kWidth));
  EXPECT_TRUE(
      SameBits<float>({last.logits.begin(), last.logits.begin() + kVocab}, alone.logits, kVocab));
}

TEST(CpuBackend, BackendsAreIndependent) {
  const Matrices matrices(3);
  const std::vector<StepResult> want = Steps(*CreateReferenceBackend(), matrices);
  std::vector<std::thread> threads;
  std::vector<int> differ(4, 1);
  for (size_t i = 0; i < differ.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::vector<InstructionSet> sets = AvailableInstructionSets();
      auto backend = Cpu(2, sets[i % sets.size()].name);
      const std::vector<StepResult> got = Steps(*backend, matrices);
      differ[i] = 0;
      for (size_t s = 0; s < want.size(); ++s) differ[i] += !SameResult(got[s], want[s]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differ, std::vector<int>(4, 0));
}

// ---- What a backend says and refuses

TEST(CpuBackend, ForcesInstructionsByName) {
  for (const InstructionSet& set : AvailableInstructionSets()) {
    EXPECT_EQ(Cpu(1, set.name)->Info().instructions, set.name);
  }
  EXPECT_EQ(AvailableInstructionSets().back().name, "scalar");
  EXPECT_EQ(Cpu(1, "auto")->Info().instructions, AvailableInstructionSets().front().name);
  for (const std::string name : {"sse9", "", "AVX2", "neon", "avx512"}) {
    bool available = false;
    for (const InstructionSet& set : AvailableInstructionSets()) available |= set.name == name;
    if (available) continue;
    const auto backend = CreateCpuBackend({1, name});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(backend.status().message()),
                testing::AllOf(HasSubstr("\"" + name + "\""), HasSubstr("scalar")));
  }
}

TEST(CpuBackend, CountsThreads) {
  EXPECT_EQ(Cpu(3, "auto")->Info().threads, 3);
  EXPECT_EQ(Cpu(0, "auto")->Info().threads, ReadHostLimits().processors);
  for (int threads : {-1, 1025}) {
    const auto backend = CreateCpuBackend({threads, "auto"});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(backend.status().message()), HasSubstr(std::to_string(threads)));
  }
}

TEST(CpuBackend, SaysWhatItIs) {
  const DeviceInfo info = Cpu(1, "auto")->Info();
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.available_bytes, 0);
  EXPECT_GE(info.memory_bytes, info.available_bytes);
}

TEST(CpuBackend, RefusesWithAStatus) {
  auto backend = Cpu(1, "auto");
  EXPECT_EQ(backend->Allocate(std::numeric_limits<size_t>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->LoadWeight({}, WeightLayout::kConcatenated).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->CreateKvCache({1, 1, 64, 15, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->CreateKvCache({80, 8, 128, 16, int64_t{1} << 40}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(backend->CheckModel({576, 1536, 49152, 9, 3, 64, 16}).ok());
  EXPECT_FALSE(backend->CheckModel({576, 1536, 49152, 9, 2, 64, 16}).ok());
  EXPECT_FALSE(backend->CheckModel({576, 1536, 49152, 9, 3, 63, 16}).ok());
}

// Copies take their place among operations: what is uploaded after an operation does not reach it,
// and what is downloaded before one does not see it.
TEST(CpuBackend, CopiesAndOperationsKeepTheirOrder) {
  auto backend = Cpu(2, "auto");
  constexpr int64_t kN = 2000;
  const std::vector<Bf16> ones(kN, kOneBf16), twos(kN, RoundToBf16(2.0f));
  auto x = *backend->Allocate(kN * sizeof(Bf16)), weight = *backend->Allocate(kN * sizeof(Bf16));
  auto out = *backend->Allocate(kN * sizeof(Bf16));
  backend->Upload(ones.data(), kN * sizeof(Bf16), x->data());
  backend->Upload(twos.data(), kN * sizeof(Bf16), weight->data());
  RmsNorm op;
  op.rows = 1;
  op.width = kN;
  op.x = x->As<Bf16>();
  op.weight = weight->As<Bf16>();
  op.out = out->As<Bf16>();
  std::vector<Bf16> first(kN), second(kN);
  backend->Run(op);
  backend->Upload(ones.data(), kN * sizeof(Bf16), weight->data());
  backend->Download(out->data(), kN * sizeof(Bf16), first.data());
  backend->Run(op);
  backend->Download(out->data(), kN * sizeof(Bf16), second.data());
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_TRUE(SameBits(first, twos));
  EXPECT_TRUE(SameBits(second, ones));
  std::vector<Bf16> source = ones;
  backend->Upload(source.data(), kN * sizeof(Bf16), x->data());
  std::fill(source.begin(), source.end(), kCanonicalNanBf16);  // was read when Upload returned
  backend->Download(x->data(), kN * sizeof(Bf16), first.data());
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_TRUE(SameBits(first, ones));
}

}  // namespace
}  // namespace isobit
