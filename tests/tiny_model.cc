#include "tests/tiny_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "kernels/numerics/bf16.h"

namespace isobit {
namespace {

constexpr uint32_t kTypeUint32 = 4, kTypeFloat32 = 6, kTypeBool = 7, kTypeString = 8,
                   kTypeArray = 9, kTypeInt32 = 5;
constexpr uint32_t kTensorF32 = 0, kTensorBf16 = 30;
constexpr size_t kAlignment = 32;

// GPT-2's mapping of bytes to printable characters.
std::string ByteToken(int byte) {
  int code = byte;
  const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  if (!printable) {
    int rank = 0;
    for (int b = 0; b < byte; ++b) {
      rank += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    }
    code = 256 + rank;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

class Writer {
 public:
  void Key(const std::string& key, uint32_t value) { Header(key, kTypeUint32), Raw(value); }
  void Key(const std::string& key, bool value) { Header(key, kTypeBool), Raw(uint8_t{value}); }
  void Key(const std::string& key, float value) { Header(key, kTypeFloat32), Raw(value); }
  void Key(const std::string& key, const std::string& value) {
    Header(key, kTypeString), Text(value);
  }
  void Key(const std::string& key, const std::vector<std::string>& values) {
    Header(key, kTypeArray), Raw(kTypeString), Raw(uint64_t{values.size()});
    for (const std::string& value : values) Text(value);
  }
  void Key(const std::string& key, const std::vector<int32_t>& values) {
    Header(key, kTypeArray), Raw(kTypeInt32), Raw(uint64_t{values.size()});
    for (int32_t value : values) Raw(value);
  }

  // Normal values of the given deviation around `mean`; matrices in bf16, vectors in F32.
  void Tensor(const std::string& name, const std::vector<int64_t>& shape, float mean,
              float deviation) {
    std::seed_seq seed(name.begin(), name.end());
    std::mt19937_64 generator(seed);
    generator.discard(seed_ % 1000);
    const bool matrix = shape.size() == 2;
    std::ostringstream data;
    int64_t count = 1;
    for (int64_t n : shape) count *= n;
    for (int64_t i = 0; i < count; ++i) {
      // Sum of uniform integers: no libm, so every machine writes the same file.
      int64_t sum = 0;
      for (int k = 0; k < 12; ++k) sum += static_cast<int64_t>(generator() >> 40);
      const auto normal = static_cast<float>(static_cast<double>(sum) / (1 << 24) - 6.0);
      const float value = mean + deviation * normal;
      const Bf16 rounded = RoundToBf16(value);
      const float as_float = ToFloat(rounded);
      data.write(matrix ? reinterpret_cast<const char*>(&rounded)
                        : reinterpret_cast<const char*>(&as_float),
                 matrix ? sizeof(rounded) : sizeof(as_float));
    }
    tensors_.push_back({name, shape, matrix ? kTensorBf16 : kTensorF32, data.str()});
  }

  void set_seed(uint64_t seed) { seed_ = seed; }

  std::string Finish() {
    std::ostringstream file;
    auto raw = [&file](auto value) {
      file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    file << "GGUF";
    raw(uint32_t{3});
    raw(uint64_t{tensors_.size()});
    raw(keys_);
    file << body_.str();
    uint64_t offset = 0;
    for (const auto& t : tensors_) {
      raw(uint64_t{t.name.size()});
      file << t.name;
      raw(static_cast<uint32_t>(t.shape.size()));
      for (size_t i = t.shape.size(); i-- > 0;) raw(t.shape[i]);
      raw(t.type);
      raw(offset);
      offset += (t.data.size() + kAlignment - 1) / kAlignment * kAlignment;
    }
    auto pad = [&file] {
      while (static_cast<size_t>(file.tellp()) % kAlignment != 0) file.put('\0');
    };
    pad();
    for (const auto& t : tensors_) {
      file << t.data;
      pad();
    }
    return file.str();
  }

 private:
  struct StoredTensor {
    std::string name;
    std::vector<int64_t> shape;
    uint32_t type;
    std::string data;
  };
  template <typename T>
  void Raw(T value) {
    body_.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(const std::string& text) {
    Raw(uint64_t{text.size()});
    body_ << text;
  }
  void Header(const std::string& key, uint32_t type) {
    Text(key);
    Raw(type);
    ++keys_;
  }

  std::ostringstream body_;
  uint64_t keys_ = 0;
  uint64_t seed_ = 0;
  std::vector<StoredTensor> tensors_;
};

void WriteVocabulary(const TinyModelOptions& o, Writer& writer) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(ByteToken(b));
  const std::vector<std::string> merges = {"t h", "h e",  "i n", "th e",
                                           "a n", "an d", "e r", "o u"};
  for (const std::string& merge : merges) {
    std::string merged;
    for (char c : merge) {
      if (c != ' ') merged += c;
    }
    tokens.push_back(merged);
  }
  for (const char* special : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"})
    tokens.push_back(special);
  std::vector<int32_t> types(tokens.size(), 1);
  for (size_t i = tokens.size() - 3; i < tokens.size(); ++i) types[i] = 3;  // control
  writer.Key("tokenizer.ggml.model", std::string("gpt2"));
  writer.Key("tokenizer.ggml.pre", std::string("smollm"));
  writer.Key("tokenizer.ggml.tokens", tokens);
  writer.Key("tokenizer.ggml.token_type", types);
  writer.Key("tokenizer.ggml.merges", merges);
  writer.Key("tokenizer.ggml.bos_token_id", uint32_t{kTinyEos});
  writer.Key("tokenizer.ggml.eos_token_id", uint32_t{kTinyEos});
  if (o.add_bos) writer.Key("tokenizer.ggml.add_bos_token", true);
  writer.Key("tokenizer.chat_template", std::string(o.chat_template));
}

void WriteWeights(const TinyModelOptions& o, Writer& writer) {
  auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
    writer.Tensor(name, {rows, cols}, 0.0f, o.weight_scale / std::sqrt(static_cast<float>(cols)));
  };
  auto norm = [&](const std::string& name) { writer.Tensor(name, {o.width}, 1.0f, 0.1f); };
  matrix("token_embd.weight", kTinyVocab, o.width);
  if (!o.tied) matrix("output.weight", kTinyVocab, o.width);
  norm("output_norm.weight");
  const int64_t q_width = int64_t{o.heads} * o.head_dim,
                kv_width = int64_t{o.kv_heads} * o.head_dim;
  for (int i = 0; i < o.layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    norm(blk + "attn_norm.weight");
    matrix(blk + "attn_q.weight", q_width, o.width);
    matrix(blk + "attn_k.weight", kv_width, o.width);
    matrix(blk + "attn_v.weight", kv_width, o.width);
    matrix(blk + "attn_output.weight", o.width, q_width);
    norm(blk + "ffn_norm.weight");
    matrix(blk + "ffn_gate.weight", o.ffn_width, o.width);
    matrix(blk + "ffn_up.weight", o.ffn_width, o.width);
    matrix(blk + "ffn_down.weight", o.width, o.ffn_width);
  }
}

}  // namespace

std::string WriteTinyModel(const TinyModelOptions& o) {
  Writer writer;
  writer.set_seed(o.seed);
  writer.Key("general.architecture", std::string("llama"));
  writer.Key("general.name", std::string("tiny"));
  writer.Key("llama.block_count", static_cast<uint32_t>(o.layers));
  writer.Key("llama.context_length", static_cast<uint32_t>(o.context_length));
  writer.Key("llama.embedding_length", static_cast<uint32_t>(o.width));
  writer.Key("llama.feed_forward_length", static_cast<uint32_t>(o.ffn_width));
  writer.Key("llama.attention.head_count", static_cast<uint32_t>(o.heads));
  writer.Key("llama.attention.head_count_kv", static_cast<uint32_t>(o.kv_heads));
  writer.Key("llama.attention.key_length", static_cast<uint32_t>(o.head_dim));
  writer.Key("llama.attention.value_length", static_cast<uint32_t>(o.head_dim));
  writer.Key("llama.rope.dimension_count", static_cast<uint32_t>(o.head_dim));
  writer.Key("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.Key("llama.rope.freq_base", 10000.0f);
  WriteVocabulary(o, writer);
  WriteWeights(o, writer);
  const std::string bytes = writer.Finish();
  // Written aside and renamed: another test, or a model that is loaded at this moment, may be
  // reading the file of the same options.
  static std::atomic<int> count{0};
  std::ostringstream name, draft;
  name << testing::TempDir() << "isobit-tiny-" << std::hash<std::string>{}(bytes) << "-" << getpid()
       << ".gguf";
  draft << name.str() << "." << ++count;
  std::ofstream(draft.str(), std::ios::binary) << bytes;
  std::filesystem::rename(draft.str(), name.str());
  return name.str();
}

}  // namespace isobit
