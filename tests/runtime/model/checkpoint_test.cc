// Files whose configuration and tensors contradict each other, and what is not supported: each is
// refused by name, with the values at odds.

#include "runtime/model/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/model/hf_config.h"
#include "tests/runtime/model/family_files.h"
#include "tests/runtime/model/gguf_builder.h"
#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  // The model `name` with `change` made to its description before it is written.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFolder(const std::string& name,
                                                         const std::function<void(json&)>& change) {
    json entry = FamilyGoldens()[name];
    change(entry);
    WriteFolder(entry, folder_.path());
    return Checkpoint::Open(folder_.path());
  }
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(const std::string& name,
                                                       const std::function<void(json&)>& change) {
    json entry = FamilyGoldens()[name];
    change(entry);
    return Checkpoint::Open(WriteGguf(entry, folder_.Path("model")));
  }

  static void ExpectError(const absl::StatusOr<std::unique_ptr<Checkpoint>>& opened,
                          const std::vector<std::string>& parts) {
    ASSERT_FALSE(opened.ok()) << parts[0];
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(opened.status().message()), HasSubstr(part));
    }
  }
  void ExpectConfigError(const std::string& name, const std::string& key, const json& value,
                         const std::vector<std::string>& parts) {
    const auto opened = OpenFolder(name, [&](json& entry) { entry["config"][key] = value; });
    ExpectError(opened, parts);
    if (!opened.ok()) {
      EXPECT_THAT(std::string(opened.status().message()), HasSubstr(folder_.path()));
    }
  }

  const TempFolder folder_;
};

TEST_F(CheckpointTest, ContradictionsOfConfigAndTensorsAreNamed) {
  ExpectConfigError("llama", "hidden_size", 80,
                    {"model.embed_tokens.weight is 160 x 64", "says 160 x 80"});
  ExpectConfigError("llama", "vocab_size", 161, {"is 160 x 64", "says 161 x 64"});
  ExpectConfigError("llama", "intermediate_size", 95,
                    {"mlp.gate_proj.weight is 96 x 64", "says 95 x 64"});
  ExpectConfigError("llama", "num_hidden_layers", 5,
                    {"model.layers.4.input_layernorm.weight is missing"});
  ExpectConfigError("llama", "num_hidden_layers", 3,
                    {"'model.layers.3.", "is not one of a llama model", "3 layers"});
  ExpectConfigError("llama", "num_attention_heads", 2,
                    {"self_attn.q_proj.weight is 64 x 64", "says 32 x 64"});
  ExpectConfigError("llama", "num_key_value_heads", 4, {"is 32 x 64", "says 64 x 64"});
  ExpectConfigError("llama", "head_dim", 32, {"q_proj.weight is 64 x 64", "says 128 x 64"});
  ExpectConfigError("llama_tied", "tie_word_embeddings", false, {"lm_head.weight is missing"});
  ExpectConfigError("llama", "attention_bias", true, {"q_proj.bias is missing"});
  ExpectConfigError("llama_bias", "attention_bias", false, {"_proj.bias", "is not one of"});
  ExpectConfigError("phi3", "num_key_value_heads", 1,
                    {"qkv_proj.weight is 128 x 64", "says 96 x 64"});
  ExpectConfigError("phi3", "intermediate_size", 95,
                    {"gate_up_proj.weight is 192 x 64", "says 190 x 64"});
  ExpectConfigError("olmo2", "num_key_value_heads", 1, {"k_proj.weight is 32 x 64", "16 x 64"});
  ExpectConfigError("smollm3", "no_rope_layers", {1, 0}, {"has 2 entries for 4 layers"});
  ExpectConfigError("gemma2", "layer_types", {"full_attention"}, {"has 1 entries for 4 layers"});
  ExpectConfigError("qwen2", "layer_types", {"full_attention"}, {"has 1 entries for 4 layers"});
  ExpectConfigError("qwen2_window", "use_sliding_window", false,
                    {"'sliding_attention' for layer 2", "no sliding_window is in use"});
}

// Files with the head beside the embedding that it is tied to are common; the two must be equal.
TEST_F(CheckpointTest, ATiedHeadIsTheEmbedding) {
  const auto with_head = [this](const char* weights_of, int64_t rows) {
    return OpenFolder("llama_tied", [&](json& entry) {
      entry["tensors"].push_back({{"name", "lm_head.weight"},
                                  {"weights_of", weights_of},
                                  {"shape", {rows, 64}},
                                  {"mean", entry["tensors"][0]["mean"]},
                                  {"deviation", entry["tensors"][0]["deviation"]}});
    });
  };
  EXPECT_TRUE(with_head("model.embed_tokens.weight", 160).ok());
  ExpectError(with_head("lm_head.weight", 160), {"ties the head to the embedding", "lm_head.weight",
                                                 "differs from model.embed_tokens.weight"});
  ExpectError(with_head("model.embed_tokens.weight", 80), {"80 x 64 in BF16", "160 x 64 in BF16"});
}

TEST_F(CheckpointTest, NumbersOutOfRangeAreNamed) {
  ExpectConfigError("llama", "hidden_size", "64", {"hidden_size must be an integer", "\"64\""});
  ExpectConfigError("llama", "hidden_size", nullptr, {"hidden_size is missing"});
  ExpectConfigError("llama", "hidden_size", -1, {"hidden width must be in", "-1"});
  ExpectConfigError("llama", "num_hidden_layers", 0, {"num_hidden_layers must be in [1, 1024]"});
  ExpectConfigError("llama", "num_hidden_layers", 1e30, {"num_hidden_layers must be an integer"});
  ExpectConfigError("llama", "num_attention_heads", 0, {"query heads must be in"});
  ExpectConfigError("llama", "num_attention_heads", int64_t{1} << 40, {"[0, 65536]"});
  ExpectConfigError("llama", "num_key_value_heads", 3, {"multiple of key heads, got 4 and 3"});
  ExpectConfigError("llama", "rms_norm_eps", 0.0, {"norm epsilon must be in (0, 1), got 0"});
  ExpectConfigError("llama", "max_position_embeddings", int64_t{1} << 30, {"context length"});
  ExpectConfigError("granite", "logits_scaling", 0.0, {"logits_scaling must be positive, got 0"});
  ExpectConfigError("gemma2", "query_pre_attn_scalar", -1, {"query_pre_attn_scalar", "-1"});
  ExpectConfigError("mistral", "sliding_window", -4, {"sliding_window must be positive, got -4"});
  ExpectConfigError("llama", "rope_parameters", {1.0}, {"rope_parameters must be an object"});
  ExpectConfigError("llama", "rope_scaling", "linear",
                    {"rope_scaling must be an object, got \"linear\""});
  ExpectConfigError("llama", "rope_parameters", {{"rope_type", "linear"}},
                    {"rope_scaling.factor is missing"});
  ExpectConfigError("llama", "rope_parameters", {{"rope_type", "linear"}, {"factor", -2.0}},
                    {"scaling factor must be in", "-2"});
}

TEST_F(CheckpointTest, WhatIsNotSupportedIsNamed) {
  ExpectConfigError("llama", "model_type", "mamba2",
                    {"model_type 'mamba2' is not supported", "llama, mistral, qwen2"});
  ExpectConfigError("llama", "model_type", nullptr, {"model_type is missing"});
  ExpectConfigError("llama", "hidden_act", "relu2", {"hidden_act is 'relu2'", "'silu'"});
  ExpectConfigError("llama", "mlp_bias", true, {"mlp_bias true is not supported"});
  ExpectConfigError("llama", "num_local_experts", 8, {"mixture of experts"});
  ExpectConfigError("llama", "quantization_config", {{"quant_method", "awq"}},
                    {"quantization_config", "not supported"});
  ExpectConfigError("llama", "rope_parameters", {{"rope_type", "ntk"}, {"factor", 2.0}},
                    {"is 'ntk'", "linear, llama3, dynamic, yarn, longrope"});
  ExpectConfigError("llama", "rope_parameters",
                    {{"rope_type", "yarn"}, {"factor", 2.0}, {"mscale", 1.0}},
                    {"rope_scaling.mscale is not supported"});
  ExpectError(OpenFolder("llama",
                         [](json& entry) {
                           entry["tensors"].push_back({{"name", "model.layers.0.self_attn.sinks"},
                                                       {"shape", {4}},
                                                       {"mean", 0},
                                                       {"deviation", 1}});
                         }),
              {"'model.layers.0.self_attn.sinks' is not one of a llama model"});
}

TEST_F(CheckpointTest, GgufFilesAreRefusedByTheirOwnNames) {
  const auto with_key = [this](const char* key, const json& value) {
    return OpenGguf("llama", [&](json& entry) { entry["gguf"]["keys"][key] = value; });
  };
  ExpectError(with_key("block_count", 5), {"blk.4.attn_norm.weight is missing"});
  ExpectError(with_key("embedding_length", 80), {"token_embd.weight is 160 x 64", "160 x 80"});
  ExpectError(with_key("expert_count", 8), {"llama.expert_count is 8", "mixture of experts"});
  ExpectError(with_key("attention.value_length", 32), {"attention.value_length is 32", "have 16"});
  ExpectError(with_key("rope.scaling.type", "dynamic"), {"rope.scaling.type is 'dynamic'"});
  ExpectError(with_key("attention.head_count", "four"), {"llama.attention.head_count is STRING"});
  ExpectError(OpenGguf("llama", [](json& e) { e["gguf"]["architecture"] = "mamba"; }),
              {"architecture 'mamba' is not supported", "supported: llama, qwen2, qwen3"});
}

TEST_F(CheckpointTest, PartsOfASplitFileMustFit) {
  const json entry = FamilyGoldens()["llama"];
  const std::string first = WriteGguf(entry, folder_.Path("model"), 2);
  EXPECT_TRUE(Checkpoint::Open(first).ok());
  const std::string second = folder_.Path("model-00002-of-00002.gguf");
  ExpectError(Checkpoint::Open(second), {"part 2 of 2", "give the first part", "-00001-of-00002"});
  std::filesystem::copy_file(first, folder_.Path("renamed.gguf"));
  ExpectError(Checkpoint::Open(folder_.Path("renamed.gguf")), {"must end in -00001-of-00002.gguf"});
  std::filesystem::remove(second);
  ExpectError(Checkpoint::Open(first), {second, "can't open"});
  std::filesystem::copy_file(first, second);
  ExpectError(Checkpoint::Open(first), {second, "says that it is part 1 of 2, its name part 2"});
  WriteFile(second, GgufBuilder().U32("split.no", 1).U32("split.count", 2).Build());
  ExpectError(Checkpoint::Open(first), {"split.tensors.count is", "2 parts have"});
}

// A window as long as the context is no window: the same function, so the same digest.
TEST_F(CheckpointTest, AWindowThatCannotBindIsNone) {
  const auto checkpoint =
      OpenFolder("mistral", [](json& entry) { entry["config"]["sliding_window"] = 256; });
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  const auto config = (*checkpoint)->config().For(0);
  ASSERT_TRUE(config.ok());
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(config->AttentionOf(i), LayerAttention{});
}

// Which of Phi-3's two tables holds is told from the longest text that was asked for, from either
// format (GGUF files have the tables as tensors and do not name the scheme).
TEST_F(CheckpointTest, LongRopeHasATableForEachContext) {
  const auto from_folder = OpenFolder("phi3_short", [](json&) {});
  const auto from_file = OpenGguf("phi3_short", [](json&) {});
  for (const auto* checkpoint : {&from_folder, &from_file}) {
    ASSERT_TRUE(checkpoint->ok()) << checkpoint->status().ToString();
    const ModelConfig& config = (**checkpoint)->config();
    EXPECT_EQ(config.long_context_length, 1024);
    for (const int64_t positions : {0, 1, 256}) {
      const auto original = config.For(positions);
      ASSERT_TRUE(original.ok());
      EXPECT_EQ(original->context_length, 256);
      EXPECT_FLOAT_EQ(original->rotary[0].scaling.attention_factor, 1.1180340f);
      const std::vector<double> inv_freq = original->rotary[0].InverseFrequencies(16);
      EXPECT_DOUBLE_EQ(inv_freq[7], std::pow(10000.0, -14.0 / 16) / 2.5);
      EXPECT_EQ(original->DescribeDeviations(), "rope frequencies divided by a table");
    }
    for (const int64_t positions : {257, 1024}) {
      const auto longer = config.For(positions);
      ASSERT_TRUE(longer.ok());
      EXPECT_EQ(longer->context_length, 1024);
      EXPECT_FLOAT_EQ(longer->rotary[0].scaling.attention_factor, 1.1180340f);
      EXPECT_EQ(longer->rotary[0].divisors[7], 16.0f);
    }
    EXPECT_THAT(std::string(config.For(1025).status().message()),
                HasSubstr("max-model-len must be in [1, 1024], the model's context length, got"));
  }
}

TEST_F(CheckpointTest, LongRopeWithoutItsTablesIsNamed) {
  const auto with = [this](const char* key, const json& value) {
    return OpenFolder("phi3_short",
                      [&](json& entry) { entry["config"]["rope_parameters"][key] = value; });
  };
  ExpectError(with("short_factor", nullptr), {"longrope without short factors"});
  ExpectError(with("long_factor", nullptr),
              {"longrope without long factors", "1024 exceeds the original one of 256"});
  ExpectError(with("long_factor", {1.0, 2.0}), {"2 rope divisors for 8 rotated pairs"});
  ExpectError(with("long_mscale", 1.1), {"rope_scaling.long_mscale is not supported"});
  ExpectError(OpenFolder("phi3_short",
                         [](json& e) { e["config"]["original_max_position_embeddings"] = 1; }),
              {"original_max_position_embeddings must be at least 2, got 1"});
  ExpectError(OpenGguf("phi3", [&](json& entry) { entry["gguf"]["rope_factors_short"] = {1.0}; }),
              {"phi3.rope.scaling.original_context_length is missing"});
  ExpectError(OpenGguf("phi3_short", [&](json& e) { e["gguf"].erase("rope_factors_long"); }),
              {"longrope without long factors"});
}

// The base of long texts is that of the longest one; short ones have the model's own.
TEST_F(CheckpointTest, DynamicScalingHasABaseForEachContext) {
  const auto checkpoint = OpenFolder("llama_dynamic", [](json&) {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.For(64)->rotary[0].theta, 10000.0);
  EXPECT_EQ(config.For(64)->DescribeDeviations(), "");
  EXPECT_DOUBLE_EQ(config.For(65)->rotary[0].theta, 10000.0 * std::pow(7.0, 16.0 / 14.0));
  EXPECT_EQ(config.For(192)->context_length, 192);
  EXPECT_FALSE(config.For(193).ok());
  const auto with = [this](double factor) {
    return OpenFolder("llama_dynamic",
                      [&](json& entry) { entry["config"]["rope_parameters"]["factor"] = factor; });
  };
  EXPECT_EQ((*with(1.0))->config().long_context_length, 0);
  ExpectError(with(0.5), {"rope_scaling.factor must be in [1, 1024], got 0.5"});
  ExpectError(with(1e9), {"rope_scaling.factor must be in [1, 1024]"});
}

// Files that are to be used with YaRN often leave max_position_embeddings as it was.
TEST_F(CheckpointTest, YarnReachesItsStretchedContext) {
  const auto checkpoint = OpenFolder(
      "llama_yarn", [](json& entry) { entry["config"]["max_position_embeddings"] = 64; });
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_EQ((*checkpoint)->config().context_length, 256);
}

// The first release of Gemma says "gelu" and means the tanh form.
TEST_F(CheckpointTest, GeluOfGemma1IsTheTanhForm) {
  const auto with = [this](const char* model, const char* key) {
    return OpenFolder(model, [&](json& entry) { entry["config"][key] = "gelu"; });
  };
  const auto checkpoint = with("gemma", "hidden_act");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  EXPECT_EQ((*checkpoint)->config().activation, Activation::kGeluTanh);
  ExpectError(with("gemma", "hidden_activation"), {"hidden_activation is 'gelu'"});
  ExpectError(with("gemma2", "hidden_act"), {"hidden_act is 'gelu'", "'gelu_pytorch_tanh'"});
}

TEST_F(CheckpointTest, GenerationDefaultsAreRead) {
  WriteFile(folder_.Path("generation_config.json"),
            R"({"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":null,
                "repetition_penalty":1.1,"eos_token_id":[2,7],"transformers_version":"5"})");
  const auto checkpoint = OpenFolder("llama", [](json&) {});
  ASSERT_TRUE(checkpoint.ok());
  const GenerationDefaults& defaults = (*checkpoint)->generation_defaults();
  EXPECT_EQ(defaults.temperature, 0.6);
  EXPECT_EQ(defaults.top_p, 0.95);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.min_p, std::nullopt);
  EXPECT_EQ(defaults.repetition_penalty, 1.1);
  EXPECT_THAT(defaults.eos_ids, testing::ElementsAre(2, 7));
}

TEST(GenerationDefaultsTest, OddFiles) {
  const auto parse = [](const char* text) { return ParseGenerationDefaults(text, "g.json"); };
  EXPECT_EQ(*parse("{}"), GenerationDefaults{});
  EXPECT_EQ(parse(R"({"do_sample":false})")->temperature, 0.0);
  EXPECT_EQ(parse(R"({"do_sample":false,"temperature":0.7})")->temperature, 0.7);
  EXPECT_THAT(parse(R"({"eos_token_id":5})")->eos_ids, testing::ElementsAre(5));
  for (const char* bad : {"", "[]", R"({"temperature":"hot"})", R"({"eos_token_id":[1,"x"]})"}) {
    const auto parsed = parse(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("g.json: "));
  }
}

// transformers 4 and 5 write the rotation in different places.
TEST(HfConfigTest, RopeParametersOfBothVersions) {
  const auto parse = [](const char* text) { return *ParseHfConfig(text, "config.json"); };
  const json v5 =
      parse(R"({"rope_parameters":{"rope_type":"linear","factor":2.0,"rope_theta":5.0}})");
  EXPECT_EQ(v5["rope_theta"], 5.0);
  EXPECT_EQ(v5["rope_scaling"]["factor"], 2.0);
  const json v4 = parse(R"({"rope_theta":7.0,"rope_scaling":{"type":"linear","factor":3.0}})");
  EXPECT_EQ(v4["rope_theta"], 7.0);
  EXPECT_EQ(v4["rope_scaling"]["factor"], 3.0);
  const json by_layer = parse(R"({"rope_parameters":{"full_attention":{"rope_theta":5.0}}})");
  EXPECT_FALSE(by_layer.contains("rope_theta"));
}

}  // namespace
}  // namespace isobit
