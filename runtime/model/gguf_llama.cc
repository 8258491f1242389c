#include "runtime/model/gguf_llama.h"

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/widen.h"

namespace isobit {
namespace {

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// Reads the numbers of one architecture; keeps the first error.
class KeyReader {
 public:
  KeyReader(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  bool Has(const char* key) const { return file_.Has(prefix_ + key); }

  template <typename T>
  T Required(const char* key) {
    return Take(file_.Get<T>(prefix_ + key), T{});
  }

  template <typename T>
  T Optional(const char* key, T fallback) {
    return Has(key) ? Take(file_.Get<T>(prefix_ + key), fallback) : fallback;
  }

  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  T Take(absl::StatusOr<T> value, T fallback) {
    if (value.ok()) return *value;
    if (status_.ok()) status_ = value.status();
    return fallback;
  }

  const GgufFile& file_;
  std::string prefix_;
  absl::Status status_;
};

absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file) {
  KeyReader keys(file, "llama.");
  ModelConfig config;
  config.family = "llama";
  if (const auto name = file.GetOr<std::string_view>("general.name", ""); name.ok()) {
    config.name = *name;
  }
  config.layers = keys.Required<uint32_t>("block_count");
  config.width = keys.Required<uint32_t>("embedding_length");
  config.ffn_width = keys.Required<uint32_t>("feed_forward_length");
  config.context_length = keys.Required<uint32_t>("context_length");
  const uint32_t heads = keys.Required<uint32_t>("attention.head_count");
  const uint32_t kv_heads = keys.Optional<uint32_t>("attention.head_count_kv", heads);
  config.norm_eps = keys.Required<float>("attention.layer_norm_rms_epsilon");
  config.rope_theta = keys.Optional<float>("rope.freq_base", 10000.0f);
  if (!keys.status().ok()) return keys.status();
  if (heads == 0 || heads > 4096 || kv_heads > heads) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": llama.attention.head_count must be in [1, 4096] and at least ",
                     "head_count_kv, got ", heads, " and ", kv_heads));
  }
  config.heads = static_cast<int>(heads);
  config.kv_heads = static_cast<int>(kv_heads);
  const auto default_head = static_cast<uint32_t>(config.width / heads);
  const uint32_t head_dim = keys.Optional<uint32_t>("attention.key_length", default_head);
  const uint32_t value_dim = keys.Optional<uint32_t>("attention.value_length", head_dim);
  const uint32_t rotary = keys.Optional<uint32_t>("rope.dimension_count", head_dim);
  const uint32_t experts = keys.Optional<uint32_t>("expert_count", 0);
  const auto scaling = keys.Optional<std::string_view>("rope.scaling.type", "none");
  if (!keys.status().ok()) return keys.status();
  if (head_dim > 1024 || rotary > head_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": head size must be at most 1024 and at least the rotary size, got ",
        head_dim, " and ", rotary));
  }
  if (value_dim != head_dim) {
    return absl::UnimplementedError(absl::StrCat(
        file.path(), ": value heads of another size than key heads are not supported, got ",
        value_dim, " and ", head_dim));
  }
  if (experts != 0) {
    return absl::UnimplementedError(absl::StrCat(
        file.path(), ": mixture of experts is not supported (expert_count ", experts, ")"));
  }
  if (scaling != "none") {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": rope scaling '", Abseil(scaling), "' is not supported"));
  }
  config.head_dim = static_cast<int>(head_dim);
  config.rotary_dim = static_cast<int>(rotary);
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor token_embd.weight is missing or not a matrix"));
  }
  config.vocab = embedding->shape[0];
  config.tied_embedding = file.FindTensor("output.weight") == nullptr;
  if (absl::Status s = config.Validate(); !s.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", s.message()));
  }
  return config;
}

// How the rows of a tensor are stored.
enum class RowOrder {
  kPlain,
  // Within each head, rotary partners lie side by side: dimension i of the first half is row 2 i,
  // of the second half row 2 i + 1. Hugging Face, and so we, have the halves one after the other.
  kInterleavedHeads,
};

struct StoredTensor {
  std::string name;  // in the file
  RowOrder order = RowOrder::kPlain;
};

// Hugging Face's name to the file's. Nullopt if the architecture has no such tensor.
std::optional<StoredTensor> Stored(std::string_view name) {
  if (name == "model.embed_tokens.weight") return StoredTensor{"token_embd.weight"};
  if (name == "model.norm.weight") return StoredTensor{"output_norm.weight"};
  if (name == "lm_head.weight") return StoredTensor{"output.weight"};
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  const size_t dot = name.find('.');
  int layer;
  if (dot == name.npos || !absl::SimpleAtoi(Abseil(name.substr(0, dot)), &layer)) {
    return std::nullopt;
  }
  static const std::map<std::string_view, StoredTensor> kOfLayer = {
      {"input_layernorm.weight", {"attn_norm.weight"}},
      {"self_attn.q_proj.weight", {"attn_q.weight", RowOrder::kInterleavedHeads}},
      {"self_attn.k_proj.weight", {"attn_k.weight", RowOrder::kInterleavedHeads}},
      {"self_attn.v_proj.weight", {"attn_v.weight"}},
      {"self_attn.o_proj.weight", {"attn_output.weight"}},
      {"post_attention_layernorm.weight", {"ffn_norm.weight"}},
      {"mlp.gate_proj.weight", {"ffn_gate.weight"}},
      {"mlp.up_proj.weight", {"ffn_up.weight"}},
      {"mlp.down_proj.weight", {"ffn_down.weight"}},
  };
  const auto it = kOfLayer.find(name.substr(dot + 1));
  if (it == kOfLayer.end()) return std::nullopt;
  return StoredTensor{absl::StrCat("blk.", layer, ".", it->second.name), it->second.order};
}

constexpr std::string_view kLayerTensors[] = {
    "attn_norm.weight", "attn_q.weight",   "attn_k.weight", "attn_v.weight",  "attn_output.weight",
    "ffn_norm.weight",  "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"};

// A tensor that nothing reads would be a deviation that we don't know: a bias, a scaling of the
// rotation, another norm.
absl::Status CheckNoUnknownTensor(const GgufFile& file, int64_t layers) {
  for (const GgufTensor& tensor : file.tensors()) {
    std::string_view name = tensor.name;
    if (name == "token_embd.weight" || name == "output_norm.weight" || name == "output.weight") {
      continue;
    }
    bool known = false;
    if (name.starts_with("blk.")) {
      name.remove_prefix(4);
      const size_t dot = name.find('.');
      int64_t layer;
      if (dot != name.npos && absl::SimpleAtoi(Abseil(name.substr(0, dot)), &layer) && layer >= 0 &&
          layer < layers) {
        for (std::string_view expected : kLayerTensors) known |= name.substr(dot + 1) == expected;
      }
    }
    if (!known) {
      return absl::UnimplementedError(absl::StrCat(file.path(), ": tensor '", Abseil(tensor.name),
                                                   "' is not one of the llama architecture"));
    }
  }
  return absl::OkStatus();
}

class GgufLlama : public Checkpoint {
 public:
  GgufLlama(std::unique_ptr<GgufFile> file, ModelConfig config)
      : file_(std::move(file)), config_(std::move(config)) {}

  const ModelConfig& config() const override { return config_; }

  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return Tokenizer::FromGguf(*file_);
  }

  absl::StatusOr<MatrixSource> Matrix(std::string_view name, int64_t rows,
                                      int64_t cols) const override {
    absl::StatusOr<const GgufTensor*> found = Find(name, {rows, cols});
    if (!found.ok()) return found.status();
    const GgufTensor* tensor = *found;
    const size_t row_bytes = tensor->bytes / static_cast<size_t>(rows);
    const bool interleaved = Stored(name)->order == RowOrder::kInterleavedHeads;
    if (interleaved && rows % config_.head_dim != 0) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", Abseil(name), " has ",
                                                     rows,
                                                     " rows, not a multiple of the head size"));
    }
    const int64_t head = config_.head_dim, rotary_half = config_.rotary_dim / 2;
    auto stored_row = [=](int64_t row) {
      const int64_t i = row % head;
      if (!interleaved || i >= 2 * rotary_half) return row;
      return row - i + (i < rotary_half ? 2 * i : 2 * (i - rotary_half) + 1);
    };
    MatrixSource source{rows, cols, nullptr};
    source.read = [=](int64_t begin, int64_t end, Bf16* out) {
      for (int64_t row = begin; row < end; ++row) {
        WidenRow(tensor->type, tensor->data + static_cast<size_t>(stored_row(row)) * row_bytes,
                 cols, out + (row - begin) * cols);
      }
    };
    return source;
  }

  absl::StatusOr<std::vector<Bf16>> Vector(std::string_view name, int64_t size) const override {
    absl::StatusOr<const GgufTensor*> tensor = Find(name, {size});
    if (!tensor.ok()) return tensor.status();
    std::vector<Bf16> values(static_cast<size_t>(size));
    WidenRow((*tensor)->type, (*tensor)->data, size, values.data());
    return values;
  }

  void Release(std::string_view name) const override {
    const auto stored = Stored(name);
    if (!stored) return;
    if (const GgufTensor* tensor = file_->FindTensor(stored->name)) file_->Release(*tensor);
  }

  std::string Describe() const override {
    std::map<std::string_view, int> count;
    for (const GgufTensor& tensor : file_->tensors()) ++count[NameOf(tensor.type)];
    std::string text =
        absl::StrCat("GGUF v", file_->version(), ", ", file_->tensors().size(), " tensors:");
    const char* separator = " ";
    for (const auto& [type, n] : count) {
      absl::StrAppend(&text, separator, n, " ", Abseil(type));
      separator = ", ";
    }
    return absl::StrCat(text, "; weights widened to bf16");
  }

 private:
  absl::StatusOr<const GgufTensor*> Find(std::string_view name,
                                         const std::vector<int64_t>& shape) const {
    const auto stored = Stored(name);
    const GgufTensor* tensor = stored ? file_->FindTensor(stored->name) : nullptr;
    if (tensor == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          file_->path(), ": tensor ", stored ? stored->name : std::string(name), " is missing"));
    }
    if (tensor->shape != shape) {
      auto print = [](const std::vector<int64_t>& s) {
        std::string text;
        for (int64_t n : s) absl::StrAppend(&text, text.empty() ? "" : " x ", n);
        return text;
      };
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": tensor ", stored->name,
                                                     " is ", print(tensor->shape),
                                                     ", the configuration says ", print(shape)));
    }
    if (absl::Status s = CheckWidenable(tensor->type); !s.ok()) {
      return absl::Status(s.code(),
                          absl::StrCat(file_->path(), ": ", stored->name, ": ", s.message()));
    }
    return tensor;
  }

  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGgufLlama(std::unique_ptr<GgufFile> file) {
  absl::StatusOr<ModelConfig> config = ReadConfig(*file);
  if (!config.ok()) return config.status();
  if (absl::Status s = CheckNoUnknownTensor(*file, config->layers); !s.ok()) return s;
  return std::make_unique<GgufLlama>(std::move(file), *std::move(config));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  const auto architecture = (*file)->Get<std::string_view>("general.architecture");
  if (!architecture.ok()) return architecture.status();
  if (*architecture != "llama") {
    return absl::UnimplementedError(absl::StrCat(path, ": architecture '", Abseil(*architecture),
                                                 "' is not supported; supported: llama"));
  }
  return OpenGgufLlama(*std::move(file));
}

}  // namespace isobit
