#include "runtime/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/json/strict_json.h"
#include "runtime/model/error_text.h"

namespace isobit {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read in place");

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // by the reference implementation
constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxIndexBytes = size_t{64} << 20;

std::optional<TensorType> FindType(std::string_view dtype) {
  static constexpr std::pair<std::string_view, TensorType> kTypes[] = {
      {"F32", TensorType::kF32}, {"F16", TensorType::kF16}, {"BF16", TensorType::kBF16},
      {"F64", TensorType::kF64}, {"I64", TensorType::kI64}, {"I32", TensorType::kI32},
      {"I16", TensorType::kI16}, {"I8", TensorType::kI8}};
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) return type;
  }
  return std::nullopt;
}

// One entry of the header into a tensor, checked against `data`; messages name the tensor.
absl::Status ReadTensor(const std::string& name, const json& entry, std::span<const std::byte> data,
                        StoredTensor& tensor) {
  const auto bad = [&](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), what...));
  };
  if (!entry.is_object()) return bad(" is ", DescribeJson(entry), ", expected an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) return bad(" has no ", key);
  }
  const json& dtype = entry["dtype"];
  if (!dtype.is_string()) return bad(": dtype is ", DescribeJson(dtype), ", expected text");
  const auto type = FindType(dtype.get_ref<const std::string&>());
  if (!type) {
    return absl::UnimplementedError(absl::StrCat("tensor ", Quoted(name), " has element type ",
                                                 DescribeJson(dtype),
                                                 ", which is not supported (supported: F32, F16, "
                                                 "BF16)"));
  }
  tensor.type = *type;
  const json& shape = entry["shape"];
  if (!shape.is_array() || shape.size() > kMaxDimensions) {
    return bad(": shape is ", DescribeJson(shape), ", expected an array of at most ",
               kMaxDimensions, " sizes");
  }
  int64_t bytes = InfoOf(*type).block_bytes;
  for (const json& size : shape) {
    int64_t n = 0;
    if (absl::Status s = ReadJson(size, "a size", n); !s.ok() || n < 0) {
      return bad(" has a dimension of size ", DescribeJson(size));
    }
    if (__builtin_mul_overflow(bytes, n, &bytes)) {
      return bad(" has a shape whose product exceeds 2^63");
    }
    tensor.shape.push_back(n);
  }
  const json& offsets = entry["data_offsets"];
  uint64_t begin = 0, end = 0;
  if (!offsets.is_array() || offsets.size() != 2 || !ReadJson(offsets[0], "", begin).ok() ||
      !ReadJson(offsets[1], "", end).ok()) {
    return bad(": data_offsets must be two offsets, got ", DescribeJson(offsets));
  }
  if (begin > end) return bad(" begins at ", begin, " and ends before, at ", end);
  if (end > data.size()) {
    return absl::DataLossError(absl::StrCat("tensor ", Quoted(name), " ends at ", end,
                                            ", the data section has ", data.size(),
                                            " bytes (file truncated?)"));
  }
  if (end - begin != static_cast<uint64_t>(bytes)) {
    return bad(" of shape ", PrintShape(tensor.shape), " in ", DescribeJson(dtype), " needs ",
               bytes, " bytes, its data_offsets hold ", end - begin);
  }
  tensor.data = data.data() + begin;
  tensor.bytes = static_cast<size_t>(bytes);
  return absl::OkStatus();
}

// Sorts by place; the data must be covered exactly.
absl::Status CheckCover(std::span<const std::byte> data, std::vector<StoredTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.data, a.bytes) < std::pair(b.data, b.bytes);
  });
  size_t at = 0;
  std::string before = "the start of the data";
  for (const StoredTensor& tensor : tensors) {
    const auto begin = static_cast<size_t>(tensor.data - data.data());
    if (begin != at) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(tensor.name), " begins at ", begin,
          begin < at ? ", inside of " : ", leaving a gap after ", before, ", which ends at ", at));
    }
    at += tensor.bytes;
    before = absl::StrCat("tensor ", Quoted(tensor.name));
  }
  if (at != data.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data section has ", data.size(), " bytes, its tensors end at ", at));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MemoryMap>> map = MemoryMap::Open(path);
  if (!map.ok()) return map.status();
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->path_ = path;
  file->map_ = *std::move(map);
  if (absl::Status s = file->Parse(file->map_->bytes()); !s.ok()) return WithPath(s, path);
  return file;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::FromMemory(
    std::span<const std::byte> bytes, std::string name) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->path_ = std::move(name);
  if (absl::Status s = file->Parse(bytes); !s.ok()) return WithPath(s, file->path_);
  return file;
}

absl::Status SafetensorsFile::Parse(std::span<const std::byte> file) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a safetensors file: only ", file.size(), " bytes long"));
  }
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const std::span<const std::byte> rest = file.subspan(sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: a header of ",
                                                   header_bytes, " bytes, the limit is ",
                                                   kMaxHeaderBytes));
  }
  if (header_bytes > rest.size()) {
    return absl::DataLossError(absl::StrCat("a header of ", header_bytes, " bytes in a file of ",
                                            file.size(), " (truncated?)"));
  }
  absl::StatusOr<json> header =
      ParseStrictJson({reinterpret_cast<const char*>(rest.data()), header_bytes});
  if (!header.ok()) return WithPath(header.status(), "header");
  if (!header->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header is ", DescribeJson(*header), ", expected an object"));
  }
  const std::span<const std::byte> data = rest.subspan(header_bytes);
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    names_.push_back(std::make_unique<const std::string>(name));
    StoredTensor tensor{*names_.back(), TensorType::kF32, {}, nullptr, 0};
    if (absl::Status s = ReadTensor(name, entry, data, tensor); !s.ok()) return s;
    tensors_.push_back(std::move(tensor));
  }
  return CheckCover(data, tensors_);
}

void SafetensorsFile::Release(const StoredTensor& tensor) const {
  if (map_ != nullptr) map_->Release({tensor.data, tensor.bytes});
}

absl::StatusOr<std::unique_ptr<SafetensorsFolder>> SafetensorsFolder::Open(
    const std::string& folder) {
  std::unique_ptr<SafetensorsFolder> store(new SafetensorsFolder(folder));
  const std::filesystem::path root(folder);
  const std::filesystem::path index = root / "model.safetensors.index.json";
  std::error_code ignored;
  absl::Status status = std::filesystem::exists(index, ignored)
                            ? store->OpenIndex(index)
                            : store->OpenFile(root / "model.safetensors");
  if (!status.ok()) return status;
  return store;
}

absl::Status SafetensorsFolder::OpenFile(const std::string& file_path) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::Open(file_path);
  return file.ok() ? Add(*std::move(file)) : file.status();
}

absl::Status SafetensorsFolder::OpenIndex(const std::string& index_path) {
  const auto bad = [&](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat(index_path, ": ", what...));
  };
  const absl::StatusOr<std::string> text = ReadSmallFile(index_path, kMaxIndexBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<json> index = ParseStrictJson(*text);
  if (!index.ok()) return WithPath(index.status(), index_path);
  if (!index->is_object() || !index->contains("weight_map") ||
      !(*index)["weight_map"].is_object()) {
    return bad("no object 'weight_map'");
  }
  const json& weight_map = (*index)["weight_map"];
  std::set<std::string> file_names;
  for (const auto& [tensor, file] : weight_map.items()) {
    // A name only: an index must not lead out of its folder.
    if (!file.is_string() || file.get_ref<const std::string&>().find('/') != std::string::npos) {
      return bad("tensor ", Quoted(tensor), " is in ", DescribeJson(file),
                 ", expected the name of a file in the folder");
    }
    file_names.insert(file.get<std::string>());
  }
  for (const std::string& name : file_names) {
    if (absl::Status s = OpenFile(std::filesystem::path(path_) / name); !s.ok()) return s;
  }
  for (const auto& [tensor, file] : weight_map.items()) {
    const SafetensorsFile* found = FileOf(tensor);
    const std::string real =
        found == nullptr ? "no file" : std::filesystem::path(found->path()).filename().string();
    if (real != file.get_ref<const std::string&>()) {
      return bad("tensor ", Quoted(tensor), " should be in ", Quoted(file.get<std::string>()),
                 ", but is in ", real);
    }
  }
  for (const StoredTensor* tensor : AllTensors()) {
    if (!weight_map.contains(std::string(tensor->name))) {
      return bad("tensor ", Quoted(tensor->name), " of ", FileOf(tensor->name)->path(),
                 " is not listed");
    }
  }
  return absl::OkStatus();
}

}  // namespace isobit
