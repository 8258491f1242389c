#include "runtime/model/tensor_map.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/model/widen.h"

namespace isobit {
namespace {

constexpr size_t kRoles = static_cast<size_t>(Role::kFfnPostNorm) + 1;

bool IsNorm(Role role) {
  switch (role) {
    case Role::kFinalNorm:
    case Role::kAttentionNorm:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
    case Role::kAttentionPostNorm:
    case Role::kFfnNorm:
    case Role::kFfnPostNorm:
      return true;
    default:
      return false;
  }
}

// Read by the configuration, or known to hold nothing that a model needs: old files keep what can
// be computed.
bool IsIgnored(std::string_view name, bool gguf) {
  if (!gguf) return name.ends_with(".rotary_emb.inv_freq");
  return name == "rope_freqs.weight" || name == "rope_factors_short.weight" ||
         name == "rope_factors_long.weight";
}

bool SameContent(const StoredTensor& a, const StoredTensor& b) {
  return a.type == b.type && a.shape == b.shape && std::memcmp(a.data, b.data, a.bytes) == 0;
}

}  // namespace

absl::StatusOr<TensorMap> TensorMap::Create(const TensorStore& store, const Family& family,
                                            bool gguf, const ModelConfig& config) {
  TensorMap map(store, family, gguf, config);
  std::vector<Role> of_model, of_layer;
  for (const Role role : RolesOf(config)) (IsOfLayer(role) ? of_layer : of_model).push_back(role);
  if (absl::Status s = map.Locate(of_model, kNoLayer); !s.ok()) return s;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (absl::Status s = map.Locate(of_layer, layer); !s.ok()) return s;
  }
  if (absl::Status s = map.CheckNothingElse(); !s.ok()) return s;
  return map;
}

std::string_view TensorMap::NameOfRole(Role role) const {
  for (const TensorName& name : family_->tensor_names) {
    if (name.role == role) return gguf_ ? name.gguf : name.hugging_face;
  }
  const TensorName& usual = UsualTensorNames()[static_cast<size_t>(role)];
  return gguf_ ? usual.gguf : usual.hugging_face;
}

std::string TensorMap::FullName(std::string_view name, int64_t layer) const {
  if (layer == kNoLayer) return std::string(name);
  return absl::StrCat(gguf_ ? "blk." : "model.layers.", layer, ".", Absl(name));
}

absl::Status TensorMap::Locate(const std::vector<Role>& roles, int64_t layer) {
  std::vector<Place>& places = places_.emplace_back(kRoles);
  std::set<std::string_view> done;
  for (const Role first : roles) {
    const std::string_view name = NameOfRole(first);
    if (!done.insert(name).second) continue;  // fused with one before
    const std::string full_name = FullName(name, layer);
    const StoredTensor* tensor = store_->FindTensor(full_name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(store_->path(), ": tensor ", full_name,
                                                     " is missing, the configuration asks for it"));
    }
    std::vector<int64_t> shape = ShapeOf(first, *config_);
    shape[0] = 0;
    for (const Role role : roles) {
      if (NameOfRole(role) != name) continue;
      places[static_cast<size_t>(role)] = {tensor, shape[0]};
      shape[0] += ShapeOf(role, *config_)[0];
    }
    if (absl::Status s = CheckStored(*tensor, shape); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status TensorMap::CheckStored(const StoredTensor& tensor,
                                    const std::vector<int64_t>& shape) const {
  if (tensor.shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(store_->path(), ": tensor ", Absl(tensor.name),
                                                   " is ", PrintShape(tensor.shape),
                                                   ", the configuration says ", PrintShape(shape)));
  }
  if (absl::Status s = CheckWidenable(tensor.type); !s.ok()) {
    return absl::Status(
        s.code(), absl::StrCat(store_->path(), ": tensor ", Absl(tensor.name), ": ", s.message()));
  }
  return absl::OkStatus();
}

absl::Status TensorMap::CheckNothingElse() const {
  std::set<std::string_view> known;  // names are unique
  for (const auto& places : places_) {
    for (const Place& place : places) {
      if (place.tensor != nullptr) known.insert(place.tensor->name);
    }
  }
  for (const StoredTensor* tensor : store_->AllTensors()) {
    if (known.contains(tensor->name) || IsIgnored(tensor->name, gguf_)) continue;
    if (tensor->name == NameOfRole(Role::kLmHead) && config_->tied_embedding) {
      if (absl::Status s = CheckTiedHead(*tensor); !s.ok()) return s;
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        store_->path(), ": tensor ", Quoted(tensor->name), " is not one of a ", Absl(family_->name),
        " model of this configuration (", config_->layers, " layers)"));
  }
  return absl::OkStatus();
}

// Some files have the head beside the embedding that it is tied to.
absl::Status TensorMap::CheckTiedHead(const StoredTensor& head) const {
  const StoredTensor& embedding = *At(Role::kEmbedding, kNoLayer).tensor;
  if (SameContent(head, embedding)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(store_->path(), ": the configuration ties the head to the embedding, but ",
                   Absl(head.name), " (", PrintShape(head.shape), " in ", Absl(NameOf(head.type)),
                   ") differs from ", Absl(embedding.name), " (", PrintShape(embedding.shape),
                   " in ", Absl(NameOf(embedding.type)), ")"));
}

int64_t TensorMap::StoredRow(Role role, int64_t row) const {
  const bool of_heads = role == Role::kQuery || role == Role::kKey || role == Role::kQueryBias ||
                        role == Role::kKeyBias;
  if (!gguf_ || !family_->gguf_interleaves_heads || !of_heads) return row;
  const int64_t half = config_->rotary_dim / 2;
  const int64_t i = row % config_->head_dim;
  if (i >= 2 * half) return row;
  return row - i + (i < half ? 2 * i : 2 * (i - half) + 1);
}

MatrixSource TensorMap::Matrix(Role role, int64_t layer) const {
  const Place& place = At(role, layer);
  const std::vector<int64_t> shape = ShapeOf(role, *config_);
  const int64_t cols = shape[1];
  const auto row_bytes = static_cast<size_t>(*RowBytes(InfoOf(place.tensor->type), cols));
  MatrixSource source{shape[0], cols, nullptr};
  source.read = [this, role, place, row_bytes, cols](int64_t begin, int64_t end, Bf16* out) {
    for (int64_t row = begin; row < end; ++row) {
      const auto stored = static_cast<size_t>(place.first_row + StoredRow(role, row));
      WidenRow(place.tensor->type, place.tensor->data + stored * row_bytes, cols,
               out + (row - begin) * cols);
    }
  };
  return source;
}

std::vector<float> TensorMap::Vector(Role role, int64_t layer) const {
  const Place& place = At(role, layer);
  const int64_t size = ShapeOf(role, *config_)[0];
  // A vector is one row of its tensor; fused ones begin inside.
  std::vector<float> stored(static_cast<size_t>(place.tensor->shape[0]));
  DequantizeRow(place.tensor->type, place.tensor->data, place.tensor->shape[0], stored.data());
  std::vector<float> values(static_cast<size_t>(size));
  const bool less_one = !gguf_ && family_->norms_less_one && IsNorm(role);
  for (int64_t i = 0; i < size; ++i) {
    const float value = stored[static_cast<size_t>(place.first_row + StoredRow(role, i))];
    values[static_cast<size_t>(i)] = less_one ? ieee::Add(1.0f, value) : value;
  }
  return values;
}

void TensorMap::Release(Role role, int64_t layer) const {
  store_->Release(*At(role, layer).tensor);
}

}  // namespace isobit
