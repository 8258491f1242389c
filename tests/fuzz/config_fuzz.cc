// config.json, generation_config.json and GGUF metadata of every family on any bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/model/family.h"
#include "runtime/model/gguf_config.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/tensor_map.h"

namespace isobit {
namespace {

// The tensors of a GGUF file, or none.
class Store : public TensorStore {
 public:
  explicit Store(const GgufFile* file) : file_(file) {}
  const std::string& path() const override { return path_; }
  const StoredTensor* FindTensor(std::string_view name) const override {
    return file_ == nullptr ? nullptr : file_->FindTensor(name);
  }
  std::vector<const StoredTensor*> AllTensors() const override {
    std::vector<const StoredTensor*> all;
    if (file_ == nullptr) return all;
    for (const StoredTensor& tensor : file_->tensors()) all.push_back(&tensor);
    return all;
  }
  void Release(const StoredTensor&) const override {}

 private:
  const GgufFile* file_;
  const std::string path_ = "fuzz";
};

// What Checkpoint does with a family's configuration. A valid one must bear all that is asked of
// it.
void Read(ConfigReader& in, const Family& family, const TensorStore& store) {
  ModelConfig config;
  family.read(in, config);
  if (!in.status().ok()) {
    if (in.status().message().empty()) std::abort();
    return;
  }
  if (!config.Validate().ok()) return;
  for (const int64_t positions : {int64_t{0}, config.long_context_length}) {
    const auto served = config.For(positions);
    if (!served.ok()) std::abort();
    DigestBuilder digest;
    served->AddTo(digest);
    for (const Rotary& rotary : served->rotary) {
      for (const double f : rotary.InverseFrequencies(config.rotary_dim)) {
        if (!(f > 0 && f < 1e12)) std::abort();
      }
    }
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int rotary = config.AttentionOf(layer).rotary;
    if (rotary != kNoRotation && static_cast<size_t>(rotary) >= config.rotary.size()) std::abort();
  }
  for (const Role role : RolesOf(config)) {
    for (const int64_t n : ShapeOf(role, config)) {
      if (n < 1) std::abort();
    }
  }
  const auto map = TensorMap::Create(store, family, in.is_gguf(), config);
  if (map.ok()) {
    std::vector<Bf16> row(static_cast<size_t>(config.width));
    map->Matrix(Role::kEmbedding, kNoLayer).read(0, 1, row.data());
    (void)map->Vector(Role::kFinalNorm, kNoLayer);
  }
}

void ReadGguf(std::span<const std::byte> bytes) {
  const auto file = GgufFile::FromMemory(bytes, "fuzz.gguf");
  if (!file.ok()) return;
  const Store store(file->get());
  for (const Family* family : AllFamilies()) {
    if (family->gguf.empty()) continue;
    GgufConfigReader reader(**file, std::string(family->gguf), store);
    Read(reader, *family, store);
  }
}

void ReadJson(std::string_view text) {
  (void)ParseGenerationDefaults(text, "generation_config.json");
  const auto config = ParseHfConfig(text, "config.json");
  if (!config.ok()) return;
  const Store store(nullptr);
  for (const Family* family : AllFamilies()) {
    if (family->hugging_face.empty()) continue;
    HfConfigReader reader(*config, "config.json", store);
    Read(reader, *family, store);
  }
}

}  // namespace
}  // namespace isobit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("GGUF")) {
    isobit::ReadGguf(std::as_bytes(std::span(data, size)));
  } else {
    isobit::ReadJson(text);
  }
  return 0;
}
