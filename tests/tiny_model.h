#ifndef ISOBIT_TESTS_TINY_MODEL_H_
#define ISOBIT_TESTS_TINY_MODEL_H_

// A small llama-shaped model with seeded random weights, written as a real GGUF file, so that tests
// of the engine go through the same loader as users do and take milliseconds.

#include <cstdint>
#include <string>

namespace isobit {

// ChatML without BOS.
inline constexpr char kTinyTemplate[] =
    "{% for m in messages %}<|im_start|>{{ m['role'] + '\n' + m['content'] }}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}";

// A template that shows all that one may be given: tools, tool calls, a variable "tone".
inline constexpr char kTinyToolTemplate[] =
    "{% if tools %}tools {{ tools | tojson }}\n{% endif %}{% if tone %}tone {{ tone }}\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}";

struct TinyModelOptions {
  uint64_t seed = 1;
  int layers = 2;
  int width = 64;
  int ffn_width = 96;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int context_length = 4096;
  bool tied = true;
  bool add_bos = false;  // texts begin with BOS
  // Standard deviation of weights, in units of 1 / sqrt(inputs). Larger: sharper distributions.
  float weight_scale = 1.5f;
  const char* chat_template = kTinyTemplate;
};

// Writes the file (vocabulary: 256 bytes, a few merges, three special tokens) and returns its path
// in the test's temporary folder. The same options give the same bytes.
std::string WriteTinyModel(const TinyModelOptions& options = {});

// What the file's vocabulary looks like.
inline constexpr int kTinyVocab = 256 + 8 + 3;
inline constexpr int kTinyEos = 256 + 8 + 2;

}  // namespace isobit

#endif  // ISOBIT_TESTS_TINY_MODEL_H_
