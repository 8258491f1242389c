#include "tests/invariance/golden_digests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "invariance/schedule.h"
#include "kernels/numerics/contract_version.h"
#include "runtime/api/request_json.h"
#include "runtime/engine/engine_core.h"

namespace isobit {
namespace {

using nlohmann::json;

// In the file of requests: drawn at random, with penalties and a bias.
constexpr size_t kReceiptRequest = 7;

absl::StatusOr<PreparedRequest> Prepare(const Model& model, const Request& request) {
  PreparedRequest prepared;
  prepared.id = request.id;
  prepared.sampling = request.sampling;
  prepared.seed = request.sampling.seed.value_or(0);
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    prepared.prompt = *ids;
    return prepared;
  }
  std::string text;
  if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&request.prompt)) {
    auto applied = model.ApplyChatTemplate(*messages, true);
    if (!applied.ok()) return applied.status();
    text = *std::move(applied);
  } else {
    text = std::get<std::string>(request.prompt);
  }
  auto ids = model.tokenizer().Encode(text);
  if (!ids.ok()) return ids.status();
  prepared.prompt = *std::move(ids);
  return prepared;
}

absl::StatusOr<std::vector<ScheduledRequest>> ReadRequests(const Model& model,
                                                           const std::string& path) {
  std::ifstream file(path);
  std::vector<ScheduledRequest> requests;
  for (std::string line; std::getline(file, line);) {
    ParsedRequest parsed = ParseRequest(line);
    if (!parsed.request.ok()) return parsed.request.status();
    auto prepared = Prepare(model, *parsed.request);
    if (!prepared.ok()) return prepared.status();
    requests.push_back({.request = *std::move(prepared)});
  }
  if (requests.empty()) return absl::NotFoundError(absl::StrCat("no requests in ", path));
  return requests;
}

absl::StatusOr<json> ToJson(const Outcome& outcome) {
  if (!outcome.status.ok()) return outcome.status;
  DigestBuilder logits;
  for (const auto& [key, row] : outcome.logits) {
    logits.Add(int64_t{key.first}).Add(key.second);
    logits.Add(DigestBytes(row.data(), row.size() * sizeof(float)));
  }
  json choices = json::array();
  for (const Choice& choice : outcome.completion.choices) {
    choices.push_back({{"digest", choice.digest.ToHex()}, {"token_ids", choice.token_ids}});
  }
  return json{{"id", outcome.completion.id},
              {"digest", outcome.completion.digest.ToHex()},
              {"logits", logits.Finish().ToHex()},
              {"choices", choices}};
}

}  // namespace

std::vector<GoldenModel> GoldenTinyModels() {
  return {
      {"2 heads a key head, head size 16", {}},
      {"2 heads a key head, head size 16, two splits of keys", {}, "requests_long.jsonl"},
      {"1 head a key head, head size 32, untied",
       {.seed = 2, .heads = 3, .kv_heads = 3, .head_dim = 32, .tied = false}},
      {"3 heads a key head, head size 64",
       {.seed = 3, .width = 96, .ffn_width = 160, .heads = 3, .kv_heads = 1, .head_dim = 64}},
      {"1 head a key head, head size 80",
       {.seed = 4, .layers = 1, .heads = 2, .kv_heads = 2, .head_dim = 80}},
      {"4 heads a key head, head size 128, untied, 3 layers",
       {.seed = 5,
        .layers = 3,
        .width = 80,
        .ffn_width = 112,
        .heads = 4,
        .kv_heads = 1,
        .head_dim = 128,
        .tied = false}},
  };
}

std::string GoldenDigestsFolder() { return ISOBIT_SOURCE_DIR "/golden/digests/"; }

json ReadGolden(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<json> ComputeGolden(const std::string& name, const std::string& model_path,
                                   std::unique_ptr<Backend> backend,
                                   const std::string& requests_path) {
  auto model = Model::Load(model_path, std::move(backend));
  if (!model.ok()) return model.status();
  auto requests = ReadRequests(**model, requests_path);
  if (!requests.ok()) return requests.status();
  const std::string model_digest = (*model)->digest().ToHex();
  auto engine = EngineCore::Create(*std::move(model), {.kv_cache_tokens = 8192});
  if (!engine.ok()) return engine.status();
  auto outcomes = RunSchedule(**engine, *std::move(requests));
  if (!outcomes.ok()) return outcomes.status();
  json results = json::array();
  for (const Outcome& outcome : *outcomes) {
    auto result = ToJson(outcome);
    if (!result.ok()) return result.status();
    results.push_back(*std::move(result));
  }
  return json{{"name", name}, {"model_digest", model_digest}, {"requests", results}};
}

absl::StatusOr<json> ComputeTinyGoldens(
    const std::function<std::unique_ptr<Backend>()>& make_backend) {
  json models = json::array();
  for (const GoldenModel& model : GoldenTinyModels()) {
    auto golden = ComputeGolden(model.name, WriteTinyModel(model.options), make_backend(),
                                GoldenDigestsFolder() + model.requests);
    if (!golden.ok()) return golden.status();
    models.push_back(*std::move(golden));
  }
  return json{{"contract", kContractVersion}, {"models", models}};
}

absl::StatusOr<std::vector<Receipt>> ComputeTinyReceipts(
    const std::function<std::unique_ptr<Backend>()>& make_backend) {
  std::vector<Receipt> receipts;
  for (const GoldenModel& tiny : GoldenTinyModels()) {
    auto model = Model::Load(WriteTinyModel(tiny.options), make_backend());
    if (!model.ok()) return model.status();
    auto requests = ReadRequests(**model, GoldenDigestsFolder() + tiny.requests);
    if (!requests.ok()) return requests.status();
    // Of the file with one request, that one.
    const size_t index = std::min(kReceiptRequest, requests->size() - 1);
    ScheduledRequest request = std::move((*requests)[index]);
    AskForReceipt(request.request.sampling);
    const SamplingParams sampling = request.request.sampling;
    const Digest digest = (*model)->digest();
    auto engine = EngineCore::Create(*std::move(model), {.kv_cache_tokens = 8192});
    if (!engine.ok()) return engine.status();
    auto outcomes = RunSchedule(**engine, {std::move(request)});
    if (!outcomes.ok()) return outcomes.status();
    const Outcome& outcome = outcomes->front();
    if (!outcome.status.ok()) return outcome.status;
    auto receipt =
        MakeReceipt("isobit_make_goldens", tiny.name, digest, sampling, outcome.completion);
    if (!receipt.ok()) return receipt.status();
    receipts.push_back(*std::move(receipt));
  }
  return receipts;
}

std::string GoldenTinyReceiptPath(size_t index) {
  return absl::StrCat(ISOBIT_SOURCE_DIR "/golden/receipts/", "tiny_", index, ".json");
}

absl::StatusOr<json> ComputeModelGolden(const std::string& model_path,
                                        std::unique_ptr<Backend> backend) {
  auto golden = ComputeGolden("SmolLM2-135M-Instruct.Q4_1.gguf", model_path, std::move(backend),
                              GoldenDigestsFolder() + "requests_smollm2.jsonl");
  if (!golden.ok()) return golden.status();
  return json{{"contract", kContractVersion}, {"models", json::array({*std::move(golden)})}};
}

}  // namespace isobit
