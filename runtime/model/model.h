#ifndef ISOBIT_RUNTIME_MODEL_MODEL_H_
#define ISOBIT_RUNTIME_MODEL_MODEL_H_

// A loaded model: configuration, tokenizer, and weights in a backend's memory.
//
// Thread safety: immutable once loaded; the const methods may be called from any thread, the
// backend by one thread only.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/model/checkpoint.h"
#include "runtime/model/config.h"
#include "runtime/model/generation_defaults.h"
#include "runtime/receipt/digest.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

// What a configuration does not have is null. Norms are bf16, or fp32 if they are wide.
struct LayerWeights {
  std::unique_ptr<Buffer> attention_norm;       // [width]
  std::unique_ptr<Weight> qkv;                  // [(heads + 2 kv_heads) head_dim][width]
  std::unique_ptr<Buffer> qkv_bias;             // fp32 [(heads + 2 kv_heads) head_dim]
  std::unique_ptr<Buffer> query_norm;           // [head_dim], or of all heads
  std::unique_ptr<Buffer> key_norm;             // [head_dim], or of all heads
  std::unique_ptr<Weight> attention_out;        // [width][heads head_dim]
  std::unique_ptr<Buffer> attention_out_bias;   // fp32 [width]
  std::unique_ptr<Buffer> attention_post_norm;  // [width]
  std::unique_ptr<Buffer> ffn_norm;             // [width]
  std::unique_ptr<Weight> gate_up;              // kGateUp, [2 ffn_width][width]
  std::unique_ptr<Weight> down;                 // [width][ffn_width]
  std::unique_ptr<Buffer> ffn_post_norm;        // [width]
};

// One of ModelConfig::rotary, for every position.
struct RotaryTable {
  std::unique_ptr<Buffer> cos;  // fp32 [max_position][rotary_dim / 2]
  std::unique_ptr<Buffer> sin;
};

struct ModelWeights {
  std::unique_ptr<Weight> embedding;  // [vocab][width]
  std::vector<LayerWeights> layers;
  std::unique_ptr<Buffer> final_norm;  // [width]
  std::unique_ptr<Weight> lm_head;     // [vocab][width]; null if tied to the embedding
  std::vector<RotaryTable> rotary;     // as ModelConfig::rotary; empty if nothing rotates
};

class Model {
 public:
  // Reads a GGUF file or a Hugging Face folder. Errors name the file, what is wrong in it and the
  // limit: NotFound, InvalidArgument (a lying or unsupported file), ResourceExhausted (does not
  // fit). Positions beyond `max_positions` (0: the model's own context length) are not prepared
  // for; OutOfRange if it is more than the model is made for. What is loaded is
  // ModelConfig::For(max_positions): for more than the context length, it may be another function.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& path,
                                                     std::unique_ptr<Backend> backend,
                                                     int64_t max_positions = 0);
  // The same from an open checkpoint, which may go afterwards. `path` is for messages.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const Checkpoint& checkpoint,
                                                     const std::string& path,
                                                     std::unique_ptr<Backend> backend,
                                                     int64_t max_positions = 0);
  // With another tokenizer than the checkpoint's own.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const Checkpoint& checkpoint,
                                                     std::unique_ptr<Tokenizer> tokenizer,
                                                     const std::string& path,
                                                     std::unique_ptr<Backend> backend,
                                                     int64_t max_positions = 0);

  ~Model();

  // The prompt text of a conversation, by the chat template in the model file. `tools` and `kwargs`
  // are JSON, as in ChatTemplateOptions. FailedPrecondition if there is no template.
  absl::StatusOr<std::string> ApplyChatTemplate(std::span<const ChatMessage> messages,
                                                bool add_generation_prompt,
                                                const std::string& tools = {},
                                                const std::string& kwargs = {}) const;

  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return config_; }
  const GenerationDefaults& generation_defaults() const { return generation_defaults_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Backend& backend() const { return *backend_; }
  const ModelWeights& weights() const { return weights_; }
  // Of the weights as used, the configuration and the tokenizer (contract 7).
  const Digest& digest() const { return digest_; }
  int64_t weight_bytes() const { return weight_bytes_; }  // of bf16 weights
  int64_t max_positions() const { return max_positions_; }
  // What was rounded or converted on loading, for people: "271 tensors, Q4_1 widened to bf16".
  const std::string& load_note() const { return load_note_; }

 private:
  friend class ModelLoader;
  Model() = default;

  // Declared first, destroyed last: weights live in its memory.
  std::unique_ptr<Backend> backend_;
  std::string path_;
  ModelConfig config_;
  GenerationDefaults generation_defaults_;
  std::unique_ptr<Tokenizer> tokenizer_;
  absl::StatusOr<ChatTemplate> chat_template_ =
      absl::FailedPreconditionError("the model file has no chat template");
  ModelWeights weights_;
  Digest digest_;
  int64_t weight_bytes_ = 0;
  int64_t max_positions_ = 0;
  std::string load_note_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_MODEL_H_
