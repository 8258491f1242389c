#include "runtime/model/gguf.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/model/gguf_parse.h"

namespace isobit {
namespace {

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// The value as T if it is an integer that fits.
template <typename T>
bool LoadInteger(GgufType type, const std::byte* from, T* out) {
  const auto put = [out](auto value) {
    if (!std::in_range<T>(value)) return false;
    *out = static_cast<T>(value);
    return true;
  };
  switch (type) {
    case GgufType::kUint8:
      return put(Load<uint8_t>(from));
    case GgufType::kInt8:
      return put(int{Load<int8_t>(from)});
    case GgufType::kUint16:
      return put(Load<uint16_t>(from));
    case GgufType::kInt16:
      return put(Load<int16_t>(from));
    case GgufType::kUint32:
      return put(Load<uint32_t>(from));
    case GgufType::kInt32:
      return put(Load<int32_t>(from));
    case GgufType::kUint64:
      return put(Load<uint64_t>(from));
    case GgufType::kInt64:
      return put(Load<int64_t>(from));
    default:
      return false;
  }
}

// One overload a scalar type; false if the stored type or value does not serve.
template <typename T>
bool LoadScalar(GgufType type, const std::byte* from, T* out) {
  if constexpr (std::is_same_v<T, bool>) {
    const uint8_t value = Load<uint8_t>(from);
    *out = value != 0;
    return type == GgufType::kBool && value <= 1;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (type == GgufType::kFloat32) {
      *out = Load<float>(from);
    } else if (type == GgufType::kFloat64) {
      *out = static_cast<T>(Load<double>(from));
    } else {
      return false;
    }
    return true;
  } else {
    return LoadInteger(type, from, out);
  }
}

// Reads a string and moves `from` behind it. Bounds were checked by the parser.
std::string_view TakeString(const std::byte** from) {
  const uint64_t length = Load<uint64_t>(*from);
  const auto* text = reinterpret_cast<const char*>(*from + sizeof(length));
  *from += sizeof(length) + length;
  return {text, length};
}

template <typename T>
constexpr const char* kWanted = std::is_same_v<T, bool>       ? "BOOL"
                                : std::is_floating_point_v<T> ? "a floating-point number"
                                : std::is_same_v<T, int32_t>  ? "a 32-bit integer"
                                : std::is_same_v<T, uint32_t> ? "an unsigned 32-bit integer"
                                : std::is_same_v<T, int64_t>  ? "a 64-bit integer"
                                : std::is_same_v<T, uint64_t> ? "an unsigned 64-bit integer"
                                                              : "STRING";

std::string Describe(const GgufField& field) {
  if (field.type == GgufType::kArray) {
    return absl::StrCat("an array of ", field.count, " ", Absl(NameOf(field.element_type)));
  }
  int64_t value = 0;
  if (LoadInteger(field.type, field.data, &value)) {
    return absl::StrCat(Absl(NameOf(field.type)), " ", value);
  }
  return std::string(NameOf(field.type));
}

template <typename T>
struct Decoder {
  static absl::StatusOr<T> Decode(const GgufField& field) {
    T value{};
    if constexpr (std::is_same_v<T, std::string_view>) {
      const std::byte* from = field.data;
      if (field.type == GgufType::kString) return TakeString(&from);
    } else {
      if (field.type != GgufType::kArray && LoadScalar(field.type, field.data, &value)) {
        return value;
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("is ", Describe(field), ", expected ", kWanted<T>));
  }
};

template <typename T>
struct Decoder<std::vector<T>> {
  static absl::StatusOr<std::vector<T>> Decode(const GgufField& field) {
    if (field.type != GgufType::kArray) {
      return absl::InvalidArgumentError(
          absl::StrCat("is ", Describe(field), ", expected an array"));
    }
    std::vector<T> values;
    values.reserve(field.count);
    const std::byte* from = field.data;
    const size_t stride = gguf_internal::ScalarBytes(field.element_type);
    for (uint64_t i = 0; i < field.count; ++i) {
      T value{};
      bool good = false;
      if constexpr (std::is_same_v<T, std::string_view>) {
        good = field.element_type == GgufType::kString;
        if (good) value = TakeString(&from);
      } else if (stride != 0) {
        good = LoadScalar(field.element_type, from, &value);
        from += stride;
      }
      if (!good) {
        return absl::InvalidArgumentError(
            absl::StrCat("is ", Describe(field), ", element ", i, " of which is not ", kWanted<T>));
      }
      values.push_back(value);
    }
    return values;
  }
};

}  // namespace

std::string_view NameOf(GgufType type) {
  static constexpr std::string_view kNames[] = {"UINT8",  "INT8",    "UINT16", "INT16",  "UINT32",
                                                "INT32",  "FLOAT32", "BOOL",   "STRING", "ARRAY",
                                                "UINT64", "INT64",   "FLOAT64"};
  return kNames[static_cast<uint32_t>(type)];
}

template <typename T>
absl::StatusOr<T> Decode(const GgufField& field) {
  return Decoder<T>::Decode(field);
}

template absl::StatusOr<bool> Decode(const GgufField&);
template absl::StatusOr<int32_t> Decode(const GgufField&);
template absl::StatusOr<uint32_t> Decode(const GgufField&);
template absl::StatusOr<int64_t> Decode(const GgufField&);
template absl::StatusOr<uint64_t> Decode(const GgufField&);
template absl::StatusOr<float> Decode(const GgufField&);
template absl::StatusOr<double> Decode(const GgufField&);
template absl::StatusOr<std::string_view> Decode(const GgufField&);
template absl::StatusOr<std::vector<std::string_view>> Decode(const GgufField&);
template absl::StatusOr<std::vector<bool>> Decode(const GgufField&);
template absl::StatusOr<std::vector<int32_t>> Decode(const GgufField&);
template absl::StatusOr<std::vector<uint32_t>> Decode(const GgufField&);
template absl::StatusOr<std::vector<int64_t>> Decode(const GgufField&);
template absl::StatusOr<std::vector<float>> Decode(const GgufField&);

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MemoryMap>> map = MemoryMap::Open(path);
  if (!map.ok()) return map.status();
  auto file = std::unique_ptr<GgufFile>(new GgufFile);
  file->path_ = path;
  file->map_ = *std::move(map);
  file->bytes_ = file->map_->bytes();
  if (auto s = file->Parse(); !s.ok()) return s;
  return file;
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::FromMemory(std::span<const std::byte> bytes,
                                                               std::string name) {
  auto file = std::unique_ptr<GgufFile>(new GgufFile);
  file->path_ = std::move(name);
  file->bytes_ = bytes;
  if (auto s = file->Parse(); !s.ok()) return s;
  return file;
}

absl::Status GgufFile::Parse() {
  auto contents = gguf_internal::Parse(bytes_);
  if (!contents.ok()) return WithPath(contents.status(), path_);
  version_ = contents->version;
  fields_ = std::move(contents->fields);
  tensors_ = std::move(contents->tensors);
  for (size_t i = 0; i < fields_.size(); ++i) field_index_[fields_[i].key] = i;
  for (size_t i = 0; i < tensors_.size(); ++i) tensor_index_[tensors_[i].name] = i;
  return absl::OkStatus();
}

const GgufField* GgufFile::FindField(std::string_view key) const {
  const auto found = field_index_.find(key);
  return found == field_index_.end() ? nullptr : &fields_[found->second];
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

absl::Status GgufFile::ErrorAt(std::string_view key, const absl::Status& error) const {
  return absl::Status(error.code(),
                      absl::StrCat(path_, ": metadata key '", Absl(key), "' ", error.message()));
}

void GgufFile::Release(const GgufTensor& tensor) const {
  if (map_ != nullptr) map_->Release({tensor.data, tensor.bytes});
}

}  // namespace isobit
