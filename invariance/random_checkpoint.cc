#include "invariance/random_checkpoint.h"

#include <cmath>

#include "invariance/random.h"
#include "kernels/numerics/bf16.h"
#include "runtime/receipt/digest.h"

namespace isobit {
namespace {

// Deviation of a weight, in units of 1 / sqrt(inputs): activations keep their size.
constexpr float kWeightScale = 1.5f;

// The byte's character in the alphabet of byte-level BPE, in UTF-8.
std::string ByteToken(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!is_printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += is_printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// Four numbers with mean 0 and deviation 1 from the bits of one: sums of two uniform ones.
void FillFour(uint64_t bits, float scale, Bf16* out, int count) {
  constexpr float kDeviation = 104.5f;  // of the sum of two uniform bytes
  for (int i = 0; i < count; ++i, bits >>= 16) {
    const auto sum = static_cast<int>((bits & 0xff) + (bits >> 8 & 0xff));
    out[i] = RoundToBf16(static_cast<float>(sum - 255) * (scale / kDeviation));
  }
}

}  // namespace

const std::map<std::string, ModelConfig>& KnownShapes() {
  static const auto* const kShapes = [] {
    const ModelConfig smollm2 = {.family = "llama",
                                 .name = "random weights, shape of SmolLM2-135M",
                                 .layers = 30,
                                 .width = 576,
                                 .ffn_width = 1536,
                                 .heads = 9,
                                 .kv_heads = 3,
                                 .head_dim = 64,
                                 .vocab = 49152,
                                 .context_length = 8192,
                                 .norm_eps = 1e-5f,
                                 .rotary_dim = 64,
                                 .rotary = {{.theta = 100000}},
                                 .tied_embedding = true};
    const ModelConfig llama_8b = {.family = "llama",
                                  .name = "random weights, shape of Llama-3.1-8B",
                                  .layers = 32,
                                  .width = 4096,
                                  .ffn_width = 14336,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .vocab = 128256,
                                  .context_length = 32768,
                                  .norm_eps = 1e-5f,
                                  .rotary_dim = 128,
                                  .rotary = {{.theta = 500000}}};
    ModelConfig llama_1b = llama_8b;
    llama_1b.name = "random weights, shape of Llama-3.2-1B";
    llama_1b.layers = 16;
    llama_1b.width = 2048;
    llama_1b.ffn_width = 8192;
    llama_1b.head_dim = llama_1b.rotary_dim = 64;
    llama_1b.tied_embedding = true;
    return new std::map<std::string, ModelConfig>{
        {"smollm2-135m", smollm2}, {"llama-3.2-1b", llama_1b}, {"llama-3.1-8b", llama_8b}};
  }();
  return *kShapes;
}

uint64_t RandomCheckpoint::SeedOf(Role role, int64_t layer) const {
  const std::string name = CanonicalName(role, layer);
  return DigestBytes(name.data(), name.size()).low ^ seed_;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> RandomCheckpoint::LoadTokenizer() const {
  std::vector<std::string> names;
  for (int byte = 0; byte < 256; ++byte) names.push_back(ByteToken(byte));
  TokenizerTables tables;
  tables.tokens.assign(names.begin(), names.end());
  tables.kinds.assign(names.size(), TokenKind::kNormal);
  tables.pre_tokenizer = "gpt-2";
  return Tokenizer::Create(tables);
}

MatrixSource RandomCheckpoint::Matrix(Role role, int64_t layer) const {
  const uint64_t seed = SeedOf(role, layer);
  const std::vector<int64_t> shape = ShapeOf(role, config_);
  const int64_t rows = shape[0], cols = shape[1];
  const float scale = kWeightScale / std::sqrt(static_cast<float>(cols));
  MatrixSource source{rows, cols, nullptr};
  source.read = [seed, scale, cols](int64_t begin, int64_t end, Bf16* out) {
    for (int64_t row = begin; row < end; ++row) {
      SplitMix random(seed ^ static_cast<uint64_t>(row) * 0xd1342543de82ef95u);
      for (int64_t i = 0; i < cols; i += 4) {
        FillFour(random.Next(), scale, out + (row - begin) * cols + i,
                 static_cast<int>(cols - i < 4 ? cols - i : 4));
      }
    }
  };
  return source;
}

std::vector<float> RandomCheckpoint::Vector(Role role, int64_t layer) const {
  std::vector<float> values(static_cast<size_t>(ShapeOf(role, config_)[0]));
  SplitMix random(SeedOf(role, layer));
  for (float& value : values) {
    value = 1.0f + 0.1f * static_cast<float>(random.Below(201) - 100) / 100.0f;
  }
  return values;
}

}  // namespace isobit
