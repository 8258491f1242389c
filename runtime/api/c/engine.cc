// Handles of engines, and text.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/api/c/handles.h"
#include "runtime/api/c/isobit.h"
#include "runtime/api/c/marshal.h"
#include "runtime/api/c/parameters.h"
#include "runtime/api/c/status.h"

namespace isobit::c {
namespace {

isobit_engine_info InfoOf(const Model& model, const EngineOptions& options) {
  const Tokenizer& tokenizer = model.tokenizer();
  isobit_engine_info info = {};
  WriteDigest(model.digest().ToHex(), info.model_digest);
  model.backend().Info().kind.copy(info.device, sizeof(info.device) - 1);
  info.vocab_size = model.config().vocab;
  info.max_model_len = options.max_model_len;
  info.max_num_seqs = options.max_num_seqs;
  info.max_num_batched_tokens = options.max_num_batched_tokens;
  info.kv_cache_tokens = options.kv_cache_tokens;
  info.weight_bytes = model.weight_bytes();
  info.bos_token_id = tokenizer.bos_id().value_or(-1);
  info.eos_token_id = tokenizer.eos_id().value_or(-1);
  return info;
}

isobit_engine_stats StatsOf(const EngineStats& stats) {
  isobit_engine_stats out = {};
  out.steps = stats.steps;
  out.waiting = stats.waiting;
  out.running = stats.running;
  out.preemptions = stats.preemptions;
  out.prompt_tokens = stats.prompt_tokens;
  out.cached_tokens = stats.cached_tokens;
  out.generated_tokens = stats.generated_tokens;
  return out;
}

// A model with its weights on the device.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const char* path, const DeviceOptions& device,
                                                 int64_t max_model_len) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateDevice(device);
  if (!backend.ok()) return backend.status();
  return Model::Load(path, *std::move(backend), max_model_len);
}

absl::Status CheckFlags(int32_t flags, int32_t known) {
  if ((flags & ~known) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("flags has unknown bits: ", flags & ~known));
}

}  // namespace
}  // namespace isobit::c

using namespace isobit::c;  // NOLINT(build/namespaces)

void isobit_engine_params_init(isobit_engine_params* params, size_t struct_size) {
  WriteStruct(DefaultEngineParams(), params, struct_size);
}

isobit_status isobit_engine_load(const char* path, const isobit_engine_params* params,
                                 isobit_engine** engine) {
  return Guard([&]() -> absl::Status {
    if (absl::Status s = NotNull(path, "path"); !s.ok()) return s;
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return s;
    auto handle = std::make_unique<isobit_engine>();
    isobit::EngineOptions options;
    if (absl::Status s = ReadEngineParams(params, handle->device, options); !s.ok()) return s;
    auto model = LoadModel(path, handle->device, options.max_model_len);
    if (!model.ok()) return model.status();
    auto created = isobit::Engine::Create(*std::move(model), options);
    if (!created.ok()) return created.status();
    handle->engine = *std::move(created);
    handle->gate = std::make_shared<EngineGate>();
    handle->gate->engine = handle->engine.get();
    *engine = handle.release();
    return absl::OkStatus();
  });
}

void isobit_engine_free(isobit_engine* engine) {
  if (engine == nullptr) return;
  {
    const std::unique_lock lock(engine->gate->mutex);
    engine->gate->engine = nullptr;
  }
  delete engine;
}

isobit_status isobit_engine_update_weights(isobit_engine* engine, const char* path) {
  return Guard([&]() -> absl::Status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return s;
    if (absl::Status s = NotNull(path, "path"); !s.ok()) return s;
    auto model = LoadModel(path, engine->device, engine->engine->options().max_model_len);
    if (!model.ok()) return model.status();
    return engine->engine->ReplaceModel(*std::move(model));
  });
}

isobit_status isobit_engine_get_info(isobit_engine* engine, isobit_engine_info* info,
                                     size_t struct_size) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return Report(s);
    return WriteResult(InfoOf(*engine->engine->shared_model(), engine->engine->options()), info,
                       struct_size);
  });
}

isobit_status isobit_engine_get_stats(isobit_engine* engine, isobit_engine_stats* stats,
                                      size_t struct_size) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return Report(s);
    return WriteResult(StatsOf(engine->engine->Stats()), stats, struct_size);
  });
}

isobit_status isobit_tokenize(isobit_engine* engine, const char* text, size_t text_length,
                              int32_t flags, int32_t* token_ids, size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return Report(s);
    if (absl::Status s = CheckFlags(flags, ISOBIT_ADD_SPECIAL | ISOBIT_PARSE_SPECIAL); !s.ok()) {
      return Report(s);
    }
    std::string copy;
    if (absl::Status s = ReadText(text, text_length, "text", copy); !s.ok()) return Report(s);
    const isobit::EncodeOptions options = {.add_special = (flags & ISOBIT_ADD_SPECIAL) != 0,
                                           .parse_special = (flags & ISOBIT_PARSE_SPECIAL) != 0};
    const auto ids = engine->engine->shared_model()->tokenizer().Encode(copy, options);
    if (!ids.ok()) return Report(ids.status());
    return WriteArray(
        ids->size(), [&](size_t i) { return (*ids)[i]; }, token_ids, capacity, count);
  });
}

isobit_status isobit_detokenize(isobit_engine* engine, const int32_t* token_ids, size_t token_count,
                                int32_t flags, char* text, size_t capacity, size_t* text_length) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return Report(s);
    if (absl::Status s = CheckFlags(flags, ISOBIT_KEEP_SPECIAL); !s.ok()) return Report(s);
    std::vector<int32_t> ids;
    if (absl::Status s = ReadIds(token_ids, token_count, "token_ids", ids); !s.ok()) {
      return Report(s);
    }
    const bool skip_special = (flags & ISOBIT_KEEP_SPECIAL) == 0;
    const auto model = engine->engine->shared_model();
    return WriteText(model->tokenizer().Decode(ids, skip_special), text, capacity, text_length);
  });
}
