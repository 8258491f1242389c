#include "runtime/model/gguf_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/model/error_text.h"

namespace isobit {
namespace {

constexpr uint32_t kMaxParts = 10000;  // of five digits

// "-00001-of-00003.gguf", counted from 1.
std::string PartSuffix(uint32_t number, uint32_t count) {
  return absl::StrFormat("-%05u-of-%05u.gguf", number, count);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufParts>> GgufParts::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufFile>> first = GgufFile::Open(path);
  if (!first.ok()) return first.status();
  std::unique_ptr<GgufParts> parts(new GgufParts);
  parts->parts_.push_back(*std::move(first));
  if (absl::Status s = parts->OpenOthers(); !s.ok()) return s;
  if (absl::Status s = parts->Index(); !s.ok()) return s;
  return parts;
}

absl::Status GgufParts::OpenOthers() {
  const GgufFile& first = *parts_[0];
  const absl::StatusOr<uint32_t> count = first.GetOr<uint32_t>("split.count", 1);
  if (!count.ok()) return count.status();
  if (*count <= 1) return absl::OkStatus();
  const absl::StatusOr<uint32_t> number = first.Get<uint32_t>("split.no");
  if (!number.ok()) return absl::InvalidArgumentError(number.status().message());
  const std::string suffix = PartSuffix(1, *count);
  if (*count > kMaxParts || *number != 0 || !path().ends_with(suffix)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": part ", uint64_t{*number} + 1, " of ", *count,
                     "; give the first part, whose name must end in ", suffix));
  }
  const std::string stem = path().substr(0, path().size() - suffix.size());
  for (uint32_t i = 1; i < *count; ++i) {
    absl::StatusOr<std::unique_ptr<GgufFile>> part =
        GgufFile::Open(absl::StrCat(stem, PartSuffix(i + 1, *count)));
    if (!part.ok()) return part.status();
    const auto own_count = (*part)->GetOr<uint32_t>("split.count", 1);
    const auto own_number = (*part)->GetOr<uint32_t>("split.no", 0);
    if (!own_count.ok()) return own_count.status();
    if (!own_number.ok()) return own_number.status();
    if (*own_count != *count || *own_number != i) {
      return absl::InvalidArgumentError(absl::StrCat((*part)->path(), ": says that it is part ",
                                                     uint64_t{*own_number} + 1, " of ", *own_count,
                                                     ", its name part ", i + 1, " of ", *count));
    }
    parts_.push_back(*std::move(part));
  }
  return absl::OkStatus();
}

absl::Status GgufParts::Index() {
  for (size_t part = 0; part < parts_.size(); ++part) {
    for (const StoredTensor& tensor : parts_[part]->tensors()) {
      const auto [place, added] = index_.insert({tensor.name, {part, &tensor}});
      if (!added) {
        return absl::InvalidArgumentError(absl::StrCat(parts_[part]->path(), ": tensor ",
                                                       Quoted(tensor.name), " is also in ",
                                                       parts_[place->second.part]->path()));
      }
    }
  }
  const absl::StatusOr<uint64_t> promised =
      metadata().GetOr<uint64_t>("split.tensors.count", index_.size());
  if (!promised.ok()) return promised.status();
  if (*promised != index_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": split.tensors.count is ", *promised,
                                                   ", the ", parts_.size(), " parts have ",
                                                   index_.size(), " tensors"));
  }
  return absl::OkStatus();
}

const StoredTensor* GgufParts::FindTensor(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second.tensor;
}

std::vector<const StoredTensor*> GgufParts::AllTensors() const {
  std::vector<const StoredTensor*> all;
  for (const auto& part : parts_) {
    for (const StoredTensor& tensor : part->tensors()) all.push_back(&tensor);
  }
  return all;
}

void GgufParts::Release(const StoredTensor& tensor) const {
  const auto found = index_.find(tensor.name);
  if (found != index_.end()) parts_[found->second.part]->Release(tensor);
}

}  // namespace isobit
