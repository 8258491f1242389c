// Whole models on the GPU: every bit of theirs is the CPU's, full logits of prefill and of every
// decoded token included.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "invariance/random_checkpoint.h"
#include "invariance/request_sweep.h"
#include "invariance/workload.h"
#include "kernels/backends.h"
#include "tests/invariance/tiny_engine.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

// Skips where there is no GPU; fails where the backend can't be made for another reason.
class CudaModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto backend = CreateCudaBackend({});
    if (absl::IsUnavailable(backend.status()) || absl::IsUnimplemented(backend.status())) {
      GTEST_SKIP() << backend.status();
    }
    ASSERT_TRUE(backend.ok()) << backend.status();
  }

  static std::unique_ptr<Backend> CpuOfAllThreads() { return CreateCpuBackend({}).value(); }

  using LoadModel =
      std::function<absl::StatusOr<std::unique_ptr<Model>>(std::unique_ptr<Backend> backend)>;
  using MakeRequests = std::function<std::vector<PreparedRequest>(const Model& model)>;

  // Runs the requests together on both and compares everything. Returns the GPU's statistics.
  EngineStats Compare(const LoadModel& load, const MakeRequests& make_requests,
                      const EngineOptions& options) {
    std::vector<Outcome> of_cpu, of_gpu;
    EngineStats stats;
    for (const bool gpu : {false, true}) {
      auto model = load(gpu ? MakeBackend("cuda") : CpuOfAllThreads());
      EXPECT_TRUE(model.ok()) << model.status();
      if (!model.ok()) return stats;
      const std::vector<PreparedRequest> requests = make_requests(**model);
      auto engine = EngineCore::Create(*std::move(model), options);
      EXPECT_TRUE(engine.ok()) << engine.status();
      if (!engine.ok()) return stats;
      (gpu ? of_gpu : of_cpu) = RunTogether(**engine, requests);
      if (gpu) stats = (*engine)->Stats();
    }
    EXPECT_FALSE(of_cpu.empty());
    EXPECT_EQ(Difference(of_cpu, of_gpu), "");
    return stats;
  }

  // Prompts of random tokens, whose logits are all looked at, and what is decoded after them.
  static std::vector<PreparedRequest> RandomRequests(const Model& model,
                                                     const std::vector<int64_t>& lengths,
                                                     int64_t output) {
    std::vector<PreparedRequest> requests;
    for (const int64_t length : lengths) {
      SplitMix random(static_cast<uint64_t>(length));
      PreparedRequest request = MakeRequest(absl::StrCat("of ", length),
                                            RandomTokens(random, length, model.config().vocab));
      request.sampling.max_tokens = output;
      request.sampling.prompt_logprobs = 1;
      requests.push_back(std::move(request));
    }
    return requests;
  }

  void CompareRandomModel(const ModelConfig& config, const std::vector<int64_t>& lengths) {
    const RandomCheckpoint checkpoint(config, 11);
    const EngineStats stats = Compare(
        [&](std::unique_ptr<Backend> backend) {
          return Model::Load(checkpoint, config.name, std::move(backend));
        },
        [&](const Model& model) { return RandomRequests(model, lengths, 12); },
        {.max_num_seqs = 16, .max_num_batched_tokens = 512, .kv_cache_tokens = 8192});
    EXPECT_GT(stats.replayed_steps, 0);
  }
};

// Prompts as people write them, one of them longer than a split of 1024 keys.
TEST_F(CudaModelTest, SmolLm2OnRealPrompts) {
  const auto make_requests = [](const Model& model) {
    const std::string tale =
        "Once upon a time there was a lighthouse keeper who counted the ships that passed. ";
    std::vector<std::string> texts = {
        "The capital of France is",
        "def quicksort(xs):\n    if len(xs) <= 1:\n        return xs\n",
        "Explain why the sky is blue to a child.",
        "\u4eca\u5929\u5929\u6c14\u5f88\u597d na\u00efve caf\u00e9",
        "1, 1, 2, 3, 5, 8, 13, 21,",
        ""};
    for (int i = 0; i < 70; ++i) texts.back() += tale;
    std::vector<PreparedRequest> requests;
    for (const std::string& text : texts) {
      PreparedRequest request = MakeRequest(text.substr(0, 20), *model.tokenizer().Encode(text));
      request.sampling.max_tokens = 64;
      request.sampling.prompt_logprobs = 2;
      if (requests.size() % 2 == 1) request.sampling.temperature = 0.8f;
      request.seed = requests.size();
      requests.push_back(std::move(request));
    }
    EXPECT_GT(requests.back().prompt.size(), 1024u);
    return requests;
  };
  const EngineStats stats = Compare(
      [](std::unique_ptr<Backend> backend) {
        return Model::Load(TestModelPath(), std::move(backend));
      },
      make_requests, {.max_num_seqs = 16, .max_num_batched_tokens = 400, .kv_cache_tokens = 8192});
  EXPECT_GT(stats.replayed_steps, 0);
}

// Also steps that are issued one by one beside such as come from recordings.
TEST_F(CudaModelTest, OneRequestInEverySituation) {
  auto model = LoadTiny({}, "cuda");
  const auto rows = SweepRequest(model, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 9u);
  EXPECT_EQ(rows->back().name, "steps eager and from recordings");
  for (const CheckRow& row : *rows) {
    EXPECT_EQ(row.first_difference, "") << row.name;
    EXPECT_GT(row.compared, row.name.starts_with("steps issued") ? 80 : 20'000) << row.name;
  }
}

// The widths of Llama-3.1-8B, two layers of it.
TEST_F(CudaModelTest, WidthsOfLlama8B) {
  CompareRandomModel({.family = "llama",
                      .name = "two layers of Llama-3.1-8B's widths",
                      .layers = 2,
                      .width = 4096,
                      .ffn_width = 14336,
                      .heads = 32,
                      .kv_heads = 8,
                      .head_dim = 128,
                      .vocab = 4096,
                      .context_length = 4096,
                      .norm_eps = 1e-5f,
                      .rotary_dim = 128,
                      .rotary = {{.theta = 500000}}},
                     {1, 17, 64, 130, 300});
}

// Norms of query and key heads, which together are wider than the model, as in Qwen3-0.6B, with its
// output matrix tied.
TEST_F(CudaModelTest, WidthsOfQwen3) {
  CompareRandomModel({.family = "qwen3",
                      .name = "two layers of Qwen3-0.6B's widths",
                      .layers = 2,
                      .width = 1024,
                      .ffn_width = 3072,
                      .heads = 16,
                      .kv_heads = 8,
                      .head_dim = 128,
                      .vocab = 4096,
                      .context_length = 4096,
                      .norm_eps = 1e-6f,
                      .rotary_dim = 128,
                      .rotary = {{.theta = 1000000}},
                      .tied_embedding = true,
                      .query_key_norm = QueryKeyNorm::kPerHead},
                     {5, 33, 200, 1100});
}

// Sandwich norms, GELU, caps, a scaled embedding, windows in every other layer.
TEST_F(CudaModelTest, WidthsOfGemma2) {
  CompareRandomModel({.family = "gemma2",
                      .name = "two layers of Gemma 2 2B's widths",
                      .layers = 2,
                      .width = 2304,
                      .ffn_width = 9216,
                      .heads = 8,
                      .kv_heads = 4,
                      .head_dim = 256,
                      .vocab = 4096,
                      .context_length = 4096,
                      .norm_eps = 1e-6f,
                      .rotary_dim = 256,
                      .tied_embedding = true,
                      .attention = {{.window = 100}, {}},
                      .norm_placement = NormPlacement::kSandwich,
                      .wide_norms = true,
                      .activation = Activation::kGeluTanh,
                      .score_cap = 50,
                      .logit_cap = 30,
                      .embedding_scale = 48},
                     {5, 64, 200, 1100});
}

// Norms of heads that round once, a rotation for each kind of layer.
TEST_F(CudaModelTest, WidthsOfGemma3) {
  CompareRandomModel({.family = "gemma3",
                      .name = "two layers of Gemma 3 1B's widths",
                      .layers = 2,
                      .width = 1152,
                      .ffn_width = 6912,
                      .heads = 4,
                      .kv_heads = 1,
                      .head_dim = 256,
                      .vocab = 4096,
                      .context_length = 4096,
                      .norm_eps = 1e-6f,
                      .rotary_dim = 256,
                      .rotary = {{.theta = 1000000}, {.theta = 10000}},
                      .tied_embedding = true,
                      .attention = {{.window = 100, .rotary = 1}, {}},
                      .norm_placement = NormPlacement::kSandwich,
                      .wide_norms = true,
                      .query_key_norm = QueryKeyNorm::kPerHead,
                      .activation = Activation::kGeluTanh,
                      .embedding_scale = 34},
                     {5, 64, 200, 1100});
}

// Norms after layers and of whole rows of heads.
TEST_F(CudaModelTest, WidthsOfOlmo2) {
  CompareRandomModel({.family = "olmo2",
                      .name = "two layers of OLMo 2 1B's widths",
                      .layers = 2,
                      .width = 2048,
                      .ffn_width = 8192,
                      .heads = 16,
                      .kv_heads = 16,
                      .head_dim = 128,
                      .vocab = 4096,
                      .context_length = 4096,
                      .norm_eps = 1e-6f,
                      .rotary_dim = 128,
                      .rotary = {{.theta = 500000}},
                      .norm_placement = NormPlacement::kAfter,
                      .wide_norms = true,
                      .query_key_norm = QueryKeyNorm::kFull},
                     {5, 64, 200, 1100});
}

// Four multipliers.
TEST_F(CudaModelTest, WidthsOfGranite) {
  CompareRandomModel({.family = "granite",
                      .name = "two layers of Granite 3 2B's widths",
                      .layers = 2,
                      .width = 2048,
                      .ffn_width = 8192,
                      .heads = 32,
                      .kv_heads = 8,
                      .head_dim = 64,
                      .vocab = 4096,
                      .context_length = 4096,
                      .norm_eps = 1e-5f,
                      .rotary_dim = 64,
                      .rotary = {{.theta = 10000}},
                      .tied_embedding = true,
                      .softmax_scale = 0.015625,
                      .embedding_scale = 12,
                      .residual_scale = 0.22f,
                      .logit_scale = 0.125f},
                     {5, 64, 200, 1100});
}

// Other head sizes, no power of two among them.
TEST_F(CudaModelTest, OtherHeadSizes) {
  for (const int head_dim : {64, 80, 96, 256}) {
    CompareRandomModel({.family = "llama",
                        .name = absl::StrCat("heads of ", head_dim),
                        .layers = 2,
                        .width = 512,
                        .ffn_width = 1408,
                        .heads = 6,
                        .kv_heads = 2,
                        .head_dim = head_dim,
                        .vocab = 1000,
                        .context_length = 4096,
                        .norm_eps = 1e-5f,
                        .rotary_dim = head_dim,
                        .rotary = {{.theta = 10000}}},
                       {1, 40, 1050});
  }
}

// Case 14: steps replayed from recordings and run operation by operation, with every number of
// sequences from 30 down to 1, twice so that each shape is replayed.
TEST_F(CudaModelTest, RecordedStepsAreEager) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 30; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(100 + i, 3 + i * 5)));
    requests.back().sampling.max_tokens = 4 + 4 * i;
    if (i % 3 == 0) requests.back().sampling.temperature = 1;
  }
  std::vector<Outcome> eager, recorded;
  for (const bool is_eager : {true, false}) {
    const auto engine = MakeCore({.max_num_seqs = 64,
                                  .kv_cache_tokens = 16384,
                                  .prefix_cache = false,
                                  .enforce_eager = is_eager},
                                 {}, "cuda");
    for (int run = 0; run < 2; ++run) {
      (is_eager ? eager : recorded) = RunTogether(*engine, requests);
    }
    if (is_eager) {
      EXPECT_EQ(engine->Stats().replayed_steps, 0);
    } else {
      EXPECT_GT(engine->Stats().replayed_steps, 60);
    }
  }
  EXPECT_EQ(Difference(eager, recorded), "");
  EXPECT_EQ(Difference(RunAlone(requests), recorded), "");
}

}  // namespace
}  // namespace isobit
