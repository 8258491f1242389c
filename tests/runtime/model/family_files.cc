#include "tests/runtime/model/family_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/str_format.h"
#include "invariance/random.h"
#include "kernels/numerics/bf16.h"
#include "tests/runtime/model/safetensors_builder.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr uint32_t kGgufF32 = 0, kGgufBf16 = 30;

uint64_t Fnv1a(const std::string& text) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return value;
}

// Sums of four 16-bit numbers: nearly normal, and exact in doubles on every machine.
std::vector<Bf16> Weights(const json& tensor) {
  const uint64_t seed = Fnv1a(tensor.value("weights_of", tensor["name"]));
  const double mean = tensor["mean"], deviation = tensor["deviation"];
  size_t count = 1;
  for (const json& n : tensor["shape"]) count *= n.get<size_t>();
  std::vector<Bf16> values(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = SplitMix(seed + i).Next();
    int64_t sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<int64_t>(bits >> (16 * k) & 0xFFFF);
    values[i] = RoundToBf16(
        static_cast<float>(mean + deviation * (static_cast<double>(sum - 131070) / 37837.0)));
  }
  return values;
}

template <typename T>
void Append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// fp16 of numbers in its normal range and zero; others become zero.
uint16_t ToHalf(float x) {
  const uint32_t bits = FloatBits(x);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 112;
  if (exponent < 1 || exponent > 30) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | static_cast<uint32_t>(exponent) << 10 |
                               (bits >> 13 & 0x3ff));
}

std::string Store(const std::vector<Bf16>& values, const FolderOptions& options) {
  const std::string& dtype = options.dtype;
  std::string bytes;
  for (Bf16 value : values) {
    if (options.only_normal_halves && ToHalf(ToFloat(value)) == 0) value = Bf16{};
    if (dtype == "F32") {
      Append(bytes, ToFloat(value));
    } else if (dtype == "F16") {
      Append(bytes, ToHalf(ToFloat(value)));
    } else {
      Append(bytes, value.bits);
    }
  }
  return bytes;
}

// As GGUF files have them: rotary partners of each head side by side.
template <typename T>
std::vector<T> Interleaved(const std::vector<T>& rows, int64_t row_elements, int64_t heads) {
  const auto count = static_cast<int64_t>(rows.size()) / row_elements;
  const int64_t head_dim = count / heads;
  std::vector<T> out(rows.size());
  for (int64_t row = 0; row < count; ++row) {
    const int64_t i = row % head_dim;
    const int64_t to = row - i + (i < head_dim / 2 ? 2 * i : 2 * (i - head_dim / 2) + 1);
    std::copy_n(rows.begin() + row * row_elements, row_elements, out.begin() + to * row_elements);
  }
  return out;
}

void AddGgufTensor(const json& tensor, const json& gguf, GgufBuilder& builder, uint64_t& offset) {
  std::vector<Bf16> values = Weights(tensor);
  std::vector<uint64_t> dims = tensor["shape"];
  const auto cols = dims.size() == 2 ? static_cast<int64_t>(dims[1]) : 1;
  std::reverse(dims.begin(), dims.end());
  if (gguf.contains("interleaved_heads")) {
    values = Interleaved(values, cols, gguf["interleaved_heads"]);
  }
  std::string data;
  const bool matrix = dims.size() == 2;
  const auto add = static_cast<float>(gguf.value("add", 0));
  for (const Bf16 value : values) {
    if (matrix) {
      Append(data, value.bits);
    } else {
      Append(data, ToFloat(value) + add);
    }
  }
  builder.Tensor(gguf["name"].get<std::string>(), dims, matrix ? kGgufBf16 : kGgufF32, offset,
                 data);
  offset += (data.size() + 31) / 32 * 32;
}

void AddKeys(const json& gguf, GgufBuilder& builder) {
  const std::string architecture = gguf["architecture"];
  builder.Text("general.architecture", architecture);
  for (const auto& [key, value] : gguf["keys"].items()) {
    const std::string name = architecture + "." + key;
    if (value.is_string()) {
      builder.Text(name, value.get<std::string>());
    } else if (value.is_number_float()) {
      builder.Field(name, GgufType::kFloat32, GgufBuilder::Raw(value.get<float>()));
    } else {
      builder.U32(name, value.get<uint32_t>());
    }
  }
}

}  // namespace

const json& FamilyGoldens() {
  static const auto* const kGoldens = [] {
    std::ifstream in(ISOBIT_SOURCE_DIR "/golden/model/families.json");
    return new json(json::parse(in));
  }();
  return *kGoldens;
}

std::vector<std::string> FamilyGoldenNames(bool with_gguf_only) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : FamilyGoldens().items()) {
    if (!with_gguf_only || entry.contains("gguf")) names.push_back(name);
  }
  return names;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  ASSERT_TRUE(out.flush()) << path;
}

void WriteFolder(const json& entry, const std::string& folder, const FolderOptions& options) {
  WriteFile(folder + "/config.json", entry["config"].dump());
  std::vector<SafetensorsBuilder> shards(static_cast<size_t>(options.shards));
  json weight_map = json::object();
  const auto file_name = [&](size_t shard) {
    return options.shards == 1
               ? std::string("model.safetensors")
               : absl::StrFormat("model-%05u-of-%05u.safetensors", shard + 1, shards.size());
  };
  size_t next = 0;
  for (const json& tensor : entry["tensors"]) {
    const size_t shard = next++ % shards.size();
    const std::string name = tensor["name"];
    shards[shard].Tensor(name, options.dtype, tensor["shape"], Store(Weights(tensor), options));
    weight_map[name] = file_name(shard);
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    WriteFile(folder + "/" + file_name(i), shards[i].Build());
  }
  if (options.shards > 1) {
    WriteFile(folder + "/model.safetensors.index.json",
              json{{"metadata", json::object()}, {"weight_map", weight_map}}.dump());
  }
}

std::string WriteGguf(const json& entry, const std::string& stem, int parts,
                      const std::function<void(GgufBuilder&)>& add) {
  const json& gguf = entry["gguf"];
  std::vector<GgufBuilder> builders(static_cast<size_t>(parts));
  std::vector<uint64_t> offsets(builders.size());
  AddKeys(gguf, builders[0]);
  if (add) add(builders[0]);
  size_t next = 0;
  for (const json& tensor : entry["tensors"]) {
    const size_t part = next++ % builders.size();
    AddGgufTensor(tensor, gguf["tensors"][tensor["name"].get<std::string>()], builders[part],
                  offsets[part]);
  }
  for (const char* table : {"rope_freqs", "rope_factors_short", "rope_factors_long"}) {
    if (!gguf.contains(table)) continue;
    std::string data;
    for (const json& factor : gguf[table]) Append(data, factor.get<float>());
    builders[0].Tensor(std::string(table) + ".weight", {gguf[table].size()}, kGgufF32, offsets[0],
                       data);
    offsets[0] += (data.size() + 31) / 32 * 32;
    ++next;
  }
  const auto path = [&](size_t part) {
    return parts == 1 ? stem + ".gguf"
                      : absl::StrFormat("%s-%05u-of-%05u.gguf", stem, part + 1, builders.size());
  };
  for (size_t i = 0; i < builders.size(); ++i) {
    if (parts > 1) {
      builders[i].Field("split.no", GgufType::kUint16, GgufBuilder::Raw<uint16_t>(i));
      builders[i].Field("split.count", GgufType::kUint16, GgufBuilder::Raw<uint16_t>(parts));
      builders[i].Field("split.tensors.count", GgufType::kInt32,
                        GgufBuilder::Raw(static_cast<int32_t>(next)));
    }
    WriteFile(path(i), builders[i].Build());
  }
  return path(0);
}

}  // namespace isobit
