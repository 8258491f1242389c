// isobit inspect: what a model is and how it would run here.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "invariance/guarantee.h"
#include "kernels/numerics/contract_version.h"
#include "runtime/api/json_writer.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/output_file.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

struct InspectOptions {
  ModelOptions model;
  bool json = false;
};

int64_t KvPoolBytes(const Engine& engine) {
  return engine.options().kv_cache_tokens * engine.model().config().KvBytesPerToken();
}

// What the model's makers recommend for sampling, as far as they say.
void WriteRecommended(const GenerationDefaults& defaults, JsonWriter& out) {
  out.Key("recommended").BeginObject();
  const auto write = [&out](const char* name, const auto& value) {
    if (value.has_value()) out.Field(name, *value);
  };
  write("temperature", defaults.temperature);
  write("top_k", defaults.top_k);
  write("top_p", defaults.top_p);
  write("min_p", defaults.min_p);
  write("repetition_penalty", defaults.repetition_penalty);
  out.EndObject();
}

void WriteModel(const Model& model, JsonWriter& out) {
  const ModelConfig& c = model.config();
  out.Key("model").BeginObject();
  out.Field("path", model.path()).Field("name", c.name).Field("family", c.family);
  out.Field("layers", c.layers).Field("width", c.width).Field("ffn_width", c.ffn_width);
  out.Field("heads", c.heads).Field("kv_heads", c.kv_heads).Field("head_dim", c.head_dim);
  out.Field("vocab", c.vocab).Field("context_length", c.context_length);
  out.Field("long_context_length", c.long_context_length);
  out.Field("norm_eps", c.norm_eps).Field("rope_theta", c.rotary[0].theta);
  out.Field("rotary_dim", c.rotary_dim).Field("tied_embedding", c.tied_embedding);
  out.Field("deviations", c.DescribeDeviations());
  out.Field("loaded", model.load_note());
  WriteRecommended(model.generation_defaults(), out);
  out.EndObject();
}

void WriteTokenizer(const Tokenizer& tokenizer, JsonWriter& out) {
  const Tokenizer::Digest fingerprint = tokenizer.Fingerprint();
  out.Key("tokenizer").BeginObject();
  out.Field("pre_tokenizer", tokenizer.pre_tokenizer());
  out.Field("vocab", tokenizer.vocab_size());
  out.Field("bos_id", tokenizer.bos_id()).Field("eos_id", tokenizer.eos_id());
  out.Field("adds_bos", tokenizer.adds_bos());
  out.Key("stop_ids").BeginArray();
  for (const int32_t id : tokenizer.stop_ids()) out.Value(id);
  out.EndArray();
  out.Field("chat_template", tokenizer.chat_template().has_value());
  out.Field("bytes_without_token", tokenizer.bytes_without_token().size());
  out.Field("digest", Digest{fingerprint.high, fingerprint.low}.ToHex());
  out.EndObject();
}

std::string AsJson(const Engine& engine, const DeviceInfo& device) {
  const Model& model = engine.model();
  const EngineOptions& options = engine.options();
  JsonWriter out;
  out.BeginObject();
  out.Field("build", kBuildName).Field("contract", kContractVersion);
  out.Field("model_digest", model.digest().ToHex());
  out.Field("guarantee", GuaranteeName(LevelOf(device)));
  WriteModel(model, out);
  WriteTokenizer(model.tokenizer(), out);
  out.Key("memory").BeginObject();
  out.Field("weight_bytes", model.weight_bytes()).Field("kv_pool_bytes", KvPoolBytes(engine));
  out.Field("kv_pool_tokens", options.kv_cache_tokens);
  out.Field("kv_pages", engine.Stats().kv_pages).Field("block_size", options.block_size);
  out.Field("max_model_len", options.max_model_len).Field("max_num_seqs", options.max_num_seqs);
  out.Field("max_num_batched_tokens", options.max_num_batched_tokens);
  out.Field("prefix_cache", options.prefix_cache);
  out.EndObject();
  out.Key("device").BeginObject();
  out.Field("kind", device.kind).Field("name", device.name);
  out.Field("instructions", device.instructions).Field("threads", device.threads);
  out.Field("memory_bytes", device.memory_bytes);
  out.Field("available_bytes", device.available_bytes);
  out.EndObject();
  return out.EndObject().Take() + "\n";
}

std::string Id(std::optional<int32_t> id) {
  return id.has_value() ? absl::StrCat(*id) : std::string("none");
}

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string Recommended(const GenerationDefaults& defaults) {
  std::string text;
  const auto add = [&text](const char* name, const auto& value) {
    if (value) absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", *value);
  };
  add("temperature", defaults.temperature);
  add("top-k", defaults.top_k);
  add("top-p", defaults.top_p);
  add("min-p", defaults.min_p);
  add("repetition penalty", defaults.repetition_penalty);
  return text.empty() ? "nothing for sampling" : text;
}

std::string Context(const ModelConfig& c, int64_t used) {
  std::string text = absl::StrCat(c.context_length, " tokens, ", used, " used");
  if (c.long_context_length > c.context_length) {
    absl::StrAppend(&text, "; --max-model-len up to ", c.long_context_length,
                    " takes another rotation for all texts");
  }
  return text;
}

std::string AsText(const Engine& engine, const DeviceInfo& device) {
  const Model& model = engine.model();
  const ModelConfig& c = model.config();
  const EngineOptions& o = engine.options();
  const Tokenizer& t = model.tokenizer();
  const std::vector<int32_t> stop_ids(t.stop_ids().begin(), t.stop_ids().end());
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"model", absl::StrCat(c.name, " (", c.family, "), ", model.path())},
      {"loaded", model.load_note()},
      {"shape", absl::StrCat(c.layers, " layers of width ", c.width, ", FFN ", c.ffn_width, ", ",
                             c.heads, " heads over ", c.kv_heads, " KV heads of ", c.head_dim,
                             ", vocabulary ", c.vocab, c.tied_embedding ? ", tied" : "")},
      {"deviations",
       c.DescribeDeviations().empty() ? "none from the plain decoder" : c.DescribeDeviations()},
      {"recommended", Recommended(model.generation_defaults())},
      {"context", Context(c, o.max_model_len)},
      {"tokenizer",
       absl::StrCat(t.vocab_size(), " tokens, pre-tokenizer ", std::string(t.pre_tokenizer()),
                    ", BOS ", Id(t.bos_id()), t.adds_bos() ? " (added)" : "", ", EOS ",
                    Id(t.eos_id()), ", stops at ", absl::StrJoin(stop_ids, " "),
                    t.chat_template() ? ", with chat template" : ", no chat template")},
      {"model digest", model.digest().ToHex()},
      {"contract", absl::StrCat("version ", kContractVersion)},
      {"guarantee", GuaranteeName(LevelOf(device))},
      {"device", absl::StrCat(device.kind, ": ", device.name, ", ", device.instructions, ", ",
                              device.threads, device.threads == 1 ? " thread" : " threads")},
      {"weights", absl::StrCat(Mebibytes(model.weight_bytes()), " in bf16")},
      {"KV pool",
       absl::StrCat(Mebibytes(KvPoolBytes(engine)), ": ", engine.Stats().kv_pages, " pages of ",
                    o.block_size, " tokens, prefix cache ", o.prefix_cache ? "on" : "off")},
      {"a step", absl::StrCat("at most ", o.max_num_seqs, " sequences and ",
                              o.max_num_batched_tokens, " tokens")},
      {"build", kBuildName},
  };
  std::string text;
  for (const auto& [name, value] : rows) absl::StrAppendFormat(&text, "%-13s %s\n", name, value);
  return text;
}

ExitCode RunInspect(const InspectOptions& options) {
  ExitCode exit_code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, exit_code);
  if (engine == nullptr) return exit_code;
  const DeviceInfo device = engine->model().backend().Info();
  absl::StatusOr<OutputFile> output = OutputFile::Open("-");
  absl::Status status = output.status();
  if (status.ok()) {
    status = output->Append(options.json ? AsJson(*engine, device) : AsText(*engine, device));
  }
  if (status.ok()) return kExitOk;
  LogError(status);
  return kExitUnusable;
}

}  // namespace

Command AddInspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "inspect",
      "The model, its tokenizer, contract version, model digest, memory plan, device and guarantee "
      "level.");
  const auto options = std::make_shared<InspectOptions>();
  command->add_flag("--json", options->json, "As one JSON object");
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunInspect(*options); }};
}

}  // namespace isobit
