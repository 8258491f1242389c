#include "runtime/model/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"

namespace isobit::gguf_internal {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place as little-endian");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMinVersion = 2;      // version 1 had 32-bit counts and was never in wide use
constexpr uint32_t kMaxVersion = 3;
constexpr uint64_t kMaxKeyBytes = 65535;  // by the format
constexpr uint64_t kMaxNameBytes = 64;    // by the format
constexpr uint32_t kMaxDimensions = 4;    // by the format
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// The fewest bytes that an entry can take, so that a count is checked before memory is reserved.
constexpr uint64_t kMinFieldBytes = 8 + 4 + 1;           // key length, type, one-byte value
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // name length, rank, dim, type, offset

class Parser {
 public:
  explicit Parser(std::span<const std::byte> file) : file_(file) {}

  absl::StatusOr<Contents> Run() {
    uint64_t tensor_count = 0, field_count = 0;
    if (auto s = ReadHeader(&tensor_count, &field_count); !s.ok()) return s;
    if (auto s = ReadFields(field_count); !s.ok()) return s;
    if (auto s = ReadAlignment(); !s.ok()) return s;
    if (auto s = ReadTensors(tensor_count); !s.ok()) return s;
    if (auto s = PlaceTensors(); !s.ok()) return s;
    return std::move(contents_);
  }

 private:
  uint64_t Left() const { return file_.size() - at_; }

  absl::Status Truncated(std::string_view what, uint64_t wanted) const {
    return absl::DataLossError(absl::StrCat("file ends inside ", Absl(what), ": ", wanted,
                                            " bytes wanted at offset ", at_, ", ", Left(),
                                            " left of ", file_.size()));
  }

  template <typename T>
  absl::Status Read(std::string_view what, T* out) {
    if (Left() < sizeof(T)) return Truncated(what, sizeof(T));
    std::memcpy(out, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return absl::OkStatus();
  }

  absl::Status ReadString(std::string_view what, uint64_t limit, std::string_view* out) {
    uint64_t length = 0;
    if (auto s = Read(what, &length); !s.ok()) return s;
    if (length > limit) {
      return absl::InvalidArgumentError(absl::StrCat(Absl(what), " at offset ", at_ - 8, " is ",
                                                     length, " bytes long, the limit is ", limit));
    }
    if (length > Left()) return Truncated(what, length);
    *out = std::string_view(reinterpret_cast<const char*>(file_.data() + at_), length);
    at_ += length;
    return absl::OkStatus();
  }

  absl::Status ReadHeader(uint64_t* tensor_count, uint64_t* field_count);
  absl::Status ReadFields(uint64_t count);
  absl::Status ReadType(std::string_view key, GgufType* type);
  absl::Status ReadArrayHeader(std::string_view key, GgufType* element, uint64_t* count);
  absl::Status SkipElements(std::string_view key, GgufType element, uint64_t count, int depth);
  absl::Status ReadAlignment();
  absl::Status ReadTensors(uint64_t count);
  absl::Status ReadTensor(GgufTensor* tensor, uint64_t* offset);
  absl::Status PlaceTensors();

  std::span<const std::byte> file_;
  uint64_t at_ = 0;  // invariant: at_ <= file_.size()
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<uint64_t> offsets_;  // of the tensors, from the start of the data section
  Contents contents_;
};

absl::Status Parser::ReadHeader(uint64_t* tensor_count, uint64_t* field_count) {
  uint32_t magic = 0;
  if (file_.size() < sizeof(magic)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a GGUF file: only ", file_.size(), " bytes long"));
  }
  if (auto s = Read("the magic number", &magic); !s.ok()) return s;
  if (magic != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat("not a GGUF file: it begins with 0x",
                                                   absl::Hex(magic, absl::kZeroPad8),
                                                   " instead of 'GGUF'"));
  }
  if (auto s = Read("the version", &contents_.version); !s.ok()) return s;
  const uint32_t swapped = __builtin_bswap32(contents_.version);
  if (swapped >= 1 && swapped <= kMaxVersion) {
    return absl::UnimplementedError("big-endian GGUF is not supported");
  }
  if (contents_.version < kMinVersion || contents_.version > kMaxVersion) {
    return absl::UnimplementedError(absl::StrCat("GGUF version ", contents_.version,
                                                 " is not supported (supported: ", kMinVersion,
                                                 " to ", kMaxVersion, ")"));
  }
  if (auto s = Read("the tensor count", tensor_count); !s.ok()) return s;
  if (auto s = Read("the metadata count", field_count); !s.ok()) return s;
  if (*field_count > Left() / kMinFieldBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata count ", *field_count, " can't fit: the file has ", file_.size(), " bytes"));
  }
  if (*tensor_count > Left() / kMinTensorBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor count ", *tensor_count, " can't fit: the file has ", file_.size(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadType(std::string_view key, GgufType* type) {
  uint32_t number = 0;
  if (auto s = Read("a metadata type", &number); !s.ok()) return s;
  if (number > static_cast<uint32_t>(GgufType::kFloat64)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata key ", Quoted(key), " has unknown type ", number, " (known: 0 to 12)"));
  }
  *type = static_cast<GgufType>(number);
  return absl::OkStatus();
}

absl::Status Parser::ReadArrayHeader(std::string_view key, GgufType* element, uint64_t* count) {
  if (auto s = ReadType(key, element); !s.ok()) return s;
  return Read("an array length", count);
}

// Walks over `count` values of type `element`, checking that they are whole.
absl::Status Parser::SkipElements(std::string_view key, GgufType element, uint64_t count,
                                  int depth) {
  const uint64_t least = element == GgufType::kString  ? 8
                         : element == GgufType::kArray ? 12
                                                       : ScalarBytes(element);
  if (count > Left() / least) {
    return absl::DataLossError(absl::StrCat(
        "metadata key ", Quoted(key), ": ", count, " values of ", Absl(NameOf(element)),
        " at offset ", at_, " can't fit in the ", Left(), " bytes left of ", file_.size()));
  }
  if (element == GgufType::kString) {
    std::string_view unused;
    for (uint64_t i = 0; i < count; ++i) {
      if (auto s = ReadString("a metadata string", std::numeric_limits<uint64_t>::max(), &unused);
          !s.ok()) {
        return s;
      }
    }
    return absl::OkStatus();
  }
  if (element == GgufType::kArray) {
    if (depth == kMaxArrayDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata key ", Quoted(key), " nests arrays deeper than ", kMaxArrayDepth));
    }
    for (uint64_t i = 0; i < count; ++i) {
      GgufType inner;
      uint64_t inner_count = 0;
      if (auto s = ReadArrayHeader(key, &inner, &inner_count); !s.ok()) return s;
      if (auto s = SkipElements(key, inner, inner_count, depth + 1); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  at_ += count * least;
  return absl::OkStatus();
}

absl::Status Parser::ReadFields(uint64_t count) {
  contents_.fields.reserve(count);
  absl::flat_hash_set<std::string_view> keys;
  for (uint64_t i = 0; i < count; ++i) {
    GgufField field;
    if (auto s = ReadString("a metadata key", kMaxKeyBytes, &field.key); !s.ok()) return s;
    if (!keys.insert(field.key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata key ", Quoted(field.key), " appears twice"));
    }
    if (auto s = ReadType(field.key, &field.type); !s.ok()) return s;
    field.element_type = field.type;
    field.count = 1;
    int depth = 0;
    if (field.type == GgufType::kArray) {
      if (auto s = ReadArrayHeader(field.key, &field.element_type, &field.count); !s.ok()) return s;
      depth = 1;
    }
    field.data = file_.data() + at_;
    if (auto s = SkipElements(field.key, field.element_type, field.count, depth); !s.ok()) return s;
    contents_.fields.push_back(field);
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadAlignment() {
  for (const GgufField& field : contents_.fields) {
    if (field.key != "general.alignment") continue;
    if (field.type != GgufType::kUint32) {
      return absl::InvalidArgumentError(absl::StrCat("metadata key 'general.alignment' has type ",
                                                     Absl(NameOf(field.type)),
                                                     ", expected UINT32"));
    }
    uint32_t value = 0;
    std::memcpy(&value, field.data, sizeof(value));
    if (!std::has_single_bit(value) || value < 8 || value > kMaxAlignment) {
      return absl::InvalidArgumentError(absl::StrCat("metadata key 'general.alignment' is ", value,
                                                     ", expected a power of two from 8 to ",
                                                     kMaxAlignment));
    }
    alignment_ = value;
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadTensors(uint64_t count) {
  // The metadata has used up bytes since the header's check.
  if (count > Left() / kMinTensorBytes) {
    return absl::InvalidArgumentError(absl::StrCat("tensor count ", count, " can't fit in the ",
                                                   Left(), " bytes left of ", file_.size()));
  }
  contents_.tensors.resize(count);
  offsets_.resize(count);
  absl::flat_hash_set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor& tensor = contents_.tensors[i];
    if (auto s = ReadTensor(&tensor, &offsets_[i]); !s.ok()) return s;
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(tensor.name), " appears twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadTensor(GgufTensor* tensor, uint64_t* offset) {
  if (auto s = ReadString("a tensor name", kMaxNameBytes, &tensor->name); !s.ok()) return s;
  const auto bad = [&](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor->name), what...));
  };
  uint32_t rank = 0;
  if (auto s = Read("a tensor's rank", &rank); !s.ok()) return s;
  if (rank < 1 || rank > kMaxDimensions) {
    return bad(" has ", rank, " dimensions, expected 1 to ", kMaxDimensions);
  }
  tensor->shape.resize(rank);
  for (uint32_t d = 0; d < rank; ++d) {
    uint64_t size = 0;
    if (auto s = Read("a tensor's shape", &size); !s.ok()) return s;
    if (size < 1 || size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return bad(" has a dimension of size ", size);
    }
    tensor->shape[rank - 1 - d] = static_cast<int64_t>(size);  // GGUF writes the innermost first
  }
  uint32_t number = 0;
  if (auto s = Read("a tensor's type", &number); !s.ok()) return s;
  const TensorTypeInfo* info = FindTensorType(number);
  if (info == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "tensor ", Quoted(tensor->name), " has element type ", number, ", which is not known"));
  }
  tensor->type = info->type;
  if (auto s = Read("a tensor's offset", offset); !s.ok()) return s;

  const std::optional<int64_t> row_bytes = RowBytes(*info, tensor->shape.back());
  if (!row_bytes) {
    return bad(" has rows of ", tensor->shape.back(), " elements, expected a multiple of ",
               info->block_elements, " for ", Absl(info->name));
  }
  int64_t bytes = *row_bytes, elements = tensor->shape.back();
  for (uint32_t d = 0; d + 1 < rank; ++d) {
    if (__builtin_mul_overflow(bytes, tensor->shape[d], &bytes) ||
        __builtin_mul_overflow(elements, tensor->shape[d], &elements)) {
      return bad(" has a shape whose product exceeds 2^63");
    }
  }
  tensor->bytes = static_cast<size_t>(bytes);
  return absl::OkStatus();
}

// Offsets count from the first aligned byte after the tensor infos.
absl::Status Parser::PlaceTensors() {
  if (contents_.tensors.empty()) return absl::OkStatus();
  const uint64_t start = (at_ + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t data_bytes = start <= file_.size() ? file_.size() - start : 0;
  for (size_t i = 0; i < offsets_.size(); ++i) {
    GgufTensor& tensor = contents_.tensors[i];
    if (offsets_[i] % alignment_ != 0) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " has offset ",
                                                     offsets_[i], ", expected a multiple of ",
                                                     alignment_));
    }
    if (offsets_[i] > data_bytes || tensor.bytes > data_bytes - offsets_[i]) {
      return absl::DataLossError(absl::StrCat(
          "tensor ", Quoted(tensor.name), " of ", tensor.bytes, " bytes at offset ", offsets_[i],
          " lies outside the data section of ", data_bytes, " bytes (file truncated?)"));
    }
    tensor.data = file_.data() + start + offsets_[i];
  }
  std::vector<const GgufTensor*> by_place(contents_.tensors.size());
  std::transform(contents_.tensors.begin(), contents_.tensors.end(), by_place.begin(),
                 [](const GgufTensor& tensor) { return &tensor; });
  std::sort(by_place.begin(), by_place.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->data < b->data; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    if (by_place[i - 1]->data + by_place[i - 1]->bytes > by_place[i]->data) {
      return absl::InvalidArgumentError(absl::StrCat("tensors ", Quoted(by_place[i - 1]->name),
                                                     " and ", Quoted(by_place[i]->name),
                                                     " overlap"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

size_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

absl::StatusOr<Contents> Parse(std::span<const std::byte> file) { return Parser(file).Run(); }

}  // namespace isobit::gguf_internal
