#include "runtime/model/model.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/rope.h"
#include "runtime/model/checkpoint.h"
#include "runtime/model/error_text.h"

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
      : checkpoint_(checkpoint), model_(model), config_(model.config_) {
    for (const Role role : RolesOf(config_)) has_.insert(role);
  }

  absl::Status Load() {
    ModelWeights& weights = model_.weights_;
    layer_ = kNoLayer;
    ISOBIT_ASSIGN(weights.embedding, Matrix({Role::kEmbedding}));
    ISOBIT_ASSIGN(weights.final_norm, Norm(Role::kFinalNorm));
    ISOBIT_ASSIGN(weights.lm_head, Matrix({Role::kLmHead}));
    for (layer_ = 0; layer_ < config_.layers; ++layer_) {
      LayerWeights& layer = weights.layers.emplace_back();
      ISOBIT_ASSIGN(layer.attention_norm, Norm(Role::kAttentionNorm));
      ISOBIT_ASSIGN(layer.qkv, QueryKeyValue());
      ISOBIT_ASSIGN(layer.qkv_bias, Bias({Role::kQueryBias, Role::kKeyBias, Role::kValueBias}));
      ISOBIT_ASSIGN(layer.query_norm, Norm(Role::kQueryNorm));
      ISOBIT_ASSIGN(layer.key_norm, Norm(Role::kKeyNorm));
      ISOBIT_ASSIGN(layer.attention_out, Matrix({Role::kAttentionOut}));
      ISOBIT_ASSIGN(layer.attention_out_bias, Bias({Role::kAttentionOutBias}));
      ISOBIT_ASSIGN(layer.attention_post_norm, Norm(Role::kAttentionPostNorm));
      ISOBIT_ASSIGN(layer.ffn_norm, Norm(Role::kFfnNorm));
      ISOBIT_ASSIGN(layer.gate_up, Matrix({Role::kGate, Role::kUp}, WeightLayout::kGateUp));
      ISOBIT_ASSIGN(layer.down, Matrix({Role::kDown}));
      ISOBIT_ASSIGN(layer.ffn_post_norm, Norm(Role::kFfnPostNorm));
    }
    if (absl::Status s = LoadRotary(); !s.ok()) return s;
    model_.digest_ = FinishDigest();
    return model_.backend_->Synchronize();
  }

 private:
  // All below are of layer_, and null if the configuration has no such role.

  using LoadFunction =
      std::function<absl::StatusOr<std::unique_ptr<Weight>>(std::span<const MatrixSource>)>;

  absl::StatusOr<std::unique_ptr<Weight>> Matrix(
      const std::vector<Role>& roles, WeightLayout layout = WeightLayout::kConcatenated) {
    return Matrix(roles, [&](std::span<const MatrixSource> sources) {
      return model_.backend_->LoadWeight(sources, layout);
    });
  }

  absl::StatusOr<std::unique_ptr<Weight>> QueryKeyValue() {
    const std::vector<Role> roles = {Role::kQuery, Role::kKey, Role::kValue};
    if (!config_.ProjectsToCache()) return Matrix(roles);
    return Matrix(roles, [&](std::span<const MatrixSource> sources) {
      return model_.backend_->LoadQkvWeight(sources, {.heads = config_.heads,
                                                      .kv_heads = config_.kv_heads,
                                                      .head_dim = config_.head_dim,
                                                      .rotary_dim = config_.rotary_dim});
    });
  }

  // One weight of a backend from one or more tensors. Each block of rows is hashed as it is read,
  // by whichever thread reads it, so that the digest covers what is really used.
  absl::StatusOr<std::unique_ptr<Weight>> Matrix(const std::vector<Role>& roles,
                                                 const LoadFunction& load) {
    if (!has_.contains(roles[0])) return nullptr;
    std::vector<MatrixSource> sources;
    std::vector<std::vector<Digest>> blocks(roles.size());
    for (size_t i = 0; i < roles.size(); ++i) {
      const MatrixSource source = checkpoint_.Matrix(roles[i], layer_);
      blocks[i].resize(
          static_cast<size_t>((source.rows + kWeightBlockRows - 1) / kWeightBlockRows));
      Digest* digests = blocks[i].data();
      sources.push_back({source.rows, source.cols,
                         [read = source.read, cols = source.cols, digests](int64_t begin,
                                                                           int64_t end, Bf16* out) {
                           read(begin, end, out);
                           digests[begin / kWeightBlockRows] = DigestBytes(
                               out, static_cast<size_t>((end - begin) * cols) * sizeof(Bf16));
                         }});
      model_.weight_bytes_ += source.rows * source.cols * int64_t{sizeof(Bf16)};
    }
    absl::StatusOr<std::unique_ptr<Weight>> weight = load(sources);
    if (!weight.ok()) return weight.status();
    for (size_t i = 0; i < roles.size(); ++i) {
      DigestBuilder digest;
      digest.Add(sources[i].rows).Add(sources[i].cols);
      for (const Digest& block : blocks[i]) digest.Add(block);
      digests_[CanonicalName(roles[i], layer_)] = digest.Finish();
      checkpoint_.Release(roles[i], layer_);
    }
    return weight;
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Norm(Role role) {
    if (!has_.contains(role)) return nullptr;
    const std::vector<float> values = checkpoint_.Vector(role, layer_);
    if (config_.wide_norms) return Hashed(role, values.data(), values.size() * sizeof(float));
    std::vector<Bf16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), RoundToBf16);
    return Hashed(role, rounded.data(), rounded.size() * sizeof(Bf16));
  }

  // Biases of the parts of a fused weight, one after the other.
  absl::StatusOr<std::unique_ptr<Buffer>> Bias(const std::vector<Role>& roles) {
    if (!has_.contains(roles[0])) return nullptr;
    std::vector<float> all;
    for (const Role role : roles) {
      const std::vector<float> values = checkpoint_.Vector(role, layer_);
      all.insert(all.end(), values.begin(), values.end());
      digests_[CanonicalName(role, layer_)] =
          DigestBytes(values.data(), values.size() * sizeof(float));
    }
    model_.weight_bytes_ += static_cast<int64_t>(all.size() * sizeof(float));
    return ToDevice(all.data(), all.size() * sizeof(float));
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Hashed(Role role, const void* data, size_t bytes) {
    digests_[CanonicalName(role, layer_)] = DigestBytes(data, bytes);
    model_.weight_bytes_ += static_cast<int64_t>(bytes);
    return ToDevice(data, bytes);
  }

  absl::StatusOr<std::unique_ptr<Buffer>> ToDevice(const void* data, size_t bytes) {
    absl::StatusOr<std::unique_ptr<Buffer>> buffer = model_.backend_->Allocate(bytes);
    if (buffer.ok()) model_.backend_->Upload(data, bytes, (*buffer)->data());
    return buffer;
  }

  absl::Status LoadRotary() {
    if (config_.rotary_dim == 0) return absl::OkStatus();
    const int pairs = config_.rotary_dim / 2;
    const auto size = static_cast<size_t>(model_.max_positions_ * pairs);
    std::vector<float> cos(size), sin(size);
    for (const Rotary& rotary : config_.rotary) {
      const std::vector<double> inv_freq = rotary.InverseFrequencies(config_.rotary_dim);
      for (int64_t p = 0; p < model_.max_positions_; ++p) {
        RopeTableRow(p, inv_freq.data(), pairs, cos.data() + p * pairs, sin.data() + p * pairs,
                     rotary.scaling.attention_factor);
      }
      RotaryTable& table = model_.weights_.rotary.emplace_back();
      ISOBIT_ASSIGN(table.cos, ToDevice(cos.data(), cos.size() * sizeof(float)));
      ISOBIT_ASSIGN(table.sin, ToDevice(sin.data(), sin.size() * sizeof(float)));
    }
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
  std::set<Role> has_;
  int64_t layer_ = kNoLayer;
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
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = checkpoint.LoadTokenizer();
  if (!tokenizer.ok()) return tokenizer.status();
  return Load(checkpoint, *std::move(tokenizer), path, std::move(backend), max_positions);
}

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const Checkpoint& checkpoint,
                                                   std::unique_ptr<Tokenizer> tokenizer,
                                                   const std::string& path,
                                                   std::unique_ptr<Backend> backend,
                                                   int64_t max_positions) {
  absl::StatusOr<ModelConfig> for_positions = checkpoint.config().For(max_positions);
  if (!for_positions.ok()) return for_positions.status();
  const ModelConfig& config = *for_positions;
  const ModelShape shape = {.width = config.width,
                            .ffn_width = config.ffn_width,
                            .vocab = config.vocab,
                            .heads = config.heads,
                            .kv_heads = config.kv_heads,
                            .head_dim = config.head_dim,
                            .page_tokens = 16};  // The engine asks again with its own.
  if (absl::Status s = backend->CheckModel(shape); !s.ok()) return WithPath(s, path);

  std::unique_ptr<Model> model(new Model());
  model->backend_ = std::move(backend);
  model->path_ = path;
  model->config_ = config;
  model->max_positions_ = max_positions == 0 ? config.context_length : max_positions;
  model->generation_defaults_ = checkpoint.generation_defaults();
  model->load_note_ = checkpoint.Describe();
  model->tokenizer_ = std::move(tokenizer);
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
