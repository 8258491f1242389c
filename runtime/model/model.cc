#include "runtime/model/model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/rope.h"
#include "runtime/model/checkpoint.h"

namespace isobit {

#define ISOBIT_ASSIGN(lhs, expression)                     \
  do {                                                     \
    auto result_ = (expression);                           \
    if (!result_.ok()) return std::move(result_).status(); \
    lhs = *std::move(result_);                             \
  } while (false)

// Loads the parts of one model and gathers their digests.
class ModelLoader {
 public:
  ModelLoader(const Checkpoint& checkpoint, Model& model)
      : checkpoint_(checkpoint), model_(model), config_(checkpoint.config()) {}

  absl::Status Load() {
    const int64_t heads_width = int64_t{config_.heads} * config_.head_dim;
    const int64_t kv_width = int64_t{config_.kv_heads} * config_.head_dim;
    ModelWeights& weights = model_.weights_;
    ISOBIT_ASSIGN(weights.embedding,
                  Matrix({{"model.embed_tokens.weight", config_.vocab, config_.width}}));
    for (int64_t i = 0; i < config_.layers; ++i) {
      const std::string prefix = absl::StrCat("model.layers.", i, ".");
      LayerWeights& layer = weights.layers.emplace_back();
      ISOBIT_ASSIGN(layer.attention_norm, Vector(prefix + "input_layernorm.weight"));
      ISOBIT_ASSIGN(layer.qkv,
                    Matrix({{prefix + "self_attn.q_proj.weight", heads_width, config_.width},
                            {prefix + "self_attn.k_proj.weight", kv_width, config_.width},
                            {prefix + "self_attn.v_proj.weight", kv_width, config_.width}}));
      ISOBIT_ASSIGN(layer.attention_out,
                    Matrix({{prefix + "self_attn.o_proj.weight", config_.width, heads_width}}));
      ISOBIT_ASSIGN(layer.ffn_norm, Vector(prefix + "post_attention_layernorm.weight"));
      ISOBIT_ASSIGN(layer.gate_up,
                    Matrix({{prefix + "mlp.gate_proj.weight", config_.ffn_width, config_.width},
                            {prefix + "mlp.up_proj.weight", config_.ffn_width, config_.width}},
                           WeightLayout::kGateUp));
      ISOBIT_ASSIGN(layer.down,
                    Matrix({{prefix + "mlp.down_proj.weight", config_.width, config_.ffn_width}}));
    }
    ISOBIT_ASSIGN(weights.final_norm, Vector("model.norm.weight"));
    if (!config_.tied_embedding) {
      ISOBIT_ASSIGN(weights.lm_head, Matrix({{"lm_head.weight", config_.vocab, config_.width}}));
    }
    if (absl::Status s = LoadRope(); !s.ok()) return s;
    model_.digest_ = FinishDigest();
    return model_.backend_->Synchronize();
  }

 private:
  struct Part {
    std::string name;
    int64_t rows, cols;
  };

  // One weight of a backend from one or more tensors. Each block of rows is hashed as it is read,
  // by whichever thread reads it, so that the digest covers what is really used.
  absl::StatusOr<std::unique_ptr<Weight>> Matrix(
      const std::vector<Part>& parts, WeightLayout layout = WeightLayout::kConcatenated) {
    std::vector<MatrixSource> sources;
    std::vector<std::vector<Digest>> blocks(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      absl::StatusOr<MatrixSource> source = checkpoint_.Matrix(part.name, part.rows, part.cols);
      if (!source.ok()) return source.status();
      blocks[i].resize(static_cast<size_t>((part.rows + kWeightBlockRows - 1) / kWeightBlockRows));
      Digest* digests = blocks[i].data();
      sources.push_back(
          {part.rows, part.cols,
           [read = source->read, cols = part.cols, digests](int64_t begin, int64_t end, Bf16* out) {
             read(begin, end, out);
             digests[begin / kWeightBlockRows] =
                 DigestBytes(out, static_cast<size_t>((end - begin) * cols) * sizeof(Bf16));
           }});
      model_.weight_bytes_ += part.rows * part.cols * int64_t{sizeof(Bf16)};
    }
    absl::StatusOr<std::unique_ptr<Weight>> weight = model_.backend_->LoadWeight(sources, layout);
    if (!weight.ok()) return weight.status();
    for (size_t i = 0; i < parts.size(); ++i) {
      DigestBuilder digest;
      digest.Add(parts[i].rows).Add(parts[i].cols);
      for (const Digest& block : blocks[i]) digest.Add(block);
      digests_[parts[i].name] = digest.Finish();
      checkpoint_.Release(parts[i].name);
    }
    return weight;
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Vector(const std::string& name) {
    absl::StatusOr<std::vector<Bf16>> values = checkpoint_.Vector(name, config_.width);
    if (!values.ok()) return values.status();
    const size_t bytes = values->size() * sizeof(Bf16);
    digests_[name] = DigestBytes(values->data(), bytes);
    model_.weight_bytes_ += static_cast<int64_t>(bytes);
    return ToDevice(values->data(), bytes);
  }

  absl::StatusOr<std::unique_ptr<Buffer>> ToDevice(const void* data, size_t bytes) {
    absl::StatusOr<std::unique_ptr<Buffer>> buffer = model_.backend_->Allocate(bytes);
    if (buffer.ok()) model_.backend_->Upload(data, bytes, (*buffer)->data());
    return buffer;
  }

  absl::Status LoadRope() {
    if (config_.rotary_dim == 0) return absl::OkStatus();
    const int pairs = config_.rotary_dim / 2;
    std::vector<double> inv_freq(static_cast<size_t>(pairs));
    RopeInvFreq(config_.rotary_dim, config_.rope_theta, inv_freq.data());
    const auto size = static_cast<size_t>(model_.max_positions_ * pairs);
    std::vector<float> cos(size), sin(size);
    for (int64_t p = 0; p < model_.max_positions_; ++p) {
      RopeTableRow(p, inv_freq.data(), pairs, cos.data() + p * pairs, sin.data() + p * pairs);
    }
    ISOBIT_ASSIGN(model_.weights_.rope_cos, ToDevice(cos.data(), cos.size() * sizeof(float)));
    ISOBIT_ASSIGN(model_.weights_.rope_sin, ToDevice(sin.data(), sin.size() * sizeof(float)));
    return absl::OkStatus();
  }

  Digest FinishDigest() const {
    DigestBuilder digest;
    config_.AddTo(digest);
    const Tokenizer::Digest tokenizer = model_.tokenizer_->Fingerprint();
    digest.Add(Digest{tokenizer.high, tokenizer.low});
    for (const auto& [name, content] : digests_) digest.Add(name).Add(content);
    return digest.Finish();
  }

  const Checkpoint& checkpoint_;
  Model& model_;
  const ModelConfig& config_;
  std::map<std::string, Digest> digests_;  // by name, so that no order of loading shows
};

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& path,
                                                   std::unique_ptr<Backend> backend,
                                                   int64_t max_positions) {
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  return Load(**checkpoint, path, std::move(backend), max_positions);
}

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const Checkpoint& checkpoint,
                                                   const std::string& path,
                                                   std::unique_ptr<Backend> backend,
                                                   int64_t max_positions) {
  const ModelConfig& config = checkpoint.config();
  if (max_positions < 0 || max_positions > config.context_length) {
    return absl::OutOfRangeError(
        absl::StrCat("max-model-len must be in [1, ", config.context_length,
                     "], the model's context length, got ", max_positions));
  }
  const ModelShape shape = {.width = config.width,
                            .ffn_width = config.ffn_width,
                            .vocab = config.vocab,
                            .heads = config.heads,
                            .kv_heads = config.kv_heads,
                            .head_dim = config.head_dim,
                            .page_tokens = 16};  // The engine asks again with its own.
  if (absl::Status s = backend->CheckModel(shape); !s.ok()) {
    return absl::Status(s.code(), absl::StrCat(path, ": ", s.message()));
  }

  std::unique_ptr<Model> model(new Model());
  model->backend_ = std::move(backend);
  model->path_ = path;
  model->config_ = config;
  model->max_positions_ = max_positions == 0 ? config.context_length : max_positions;
  model->load_note_ = checkpoint.Describe();
  ISOBIT_ASSIGN(model->tokenizer_, checkpoint.LoadTokenizer());
  // A template that we can't read is no reason to refuse the model: plain prompts work.
  if (const auto source = model->tokenizer_->chat_template()) {
    model->chat_template_ = ChatTemplate::Parse(*source);
  }
  if (model->tokenizer_->vocab_size() > config.vocab) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the tokenizer has ", model->tokenizer_->vocab_size(),
                     " tokens, the embedding ", config.vocab, " rows"));
  }
  if (absl::Status s = ModelLoader(checkpoint, *model).Load(); !s.ok()) return s;
  return model;
}

#undef ISOBIT_ASSIGN

Model::~Model() = default;

absl::StatusOr<std::string> Model::ApplyChatTemplate(std::span<const ChatMessage> messages,
                                                     bool add_generation_prompt,
                                                     const std::string& tools,
                                                     const std::string& kwargs) const {
  if (!chat_template_.ok()) return chat_template_.status();
  auto text_of = [this](std::optional<int32_t> id) {
    return id ? std::string(tokenizer_->Piece(*id)) : std::string();
  };
  return chat_template_->Apply(messages, {.add_generation_prompt = add_generation_prompt,
                                          .bos_token = text_of(tokenizer_->bos_id()),
                                          .eos_token = text_of(tokenizer_->eos_id()),
                                          .tools = tools,
                                          .kwargs = kwargs});
}

}  // namespace isobit
