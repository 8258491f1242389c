#include "runtime/model/gguf_parts.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

constexpr uint32_t kMaxParts = 10000;  // of five digits

// "-00001-of-00003.gguf", counted from 1.
std::string PartSuffix(uint32_t number, uint32_t count) {
  return absl::StrFormat("-%05u-of-%05u.gguf", number, count);
}

// The others of which `parts` has the first.
absl::Status OpenOthers(std::vector<std::unique_ptr<GgufFile>>& parts) {
  const GgufFile& first = *parts[0];
  const std::string& path = first.path();
  const absl::StatusOr<uint32_t> count = first.GetOr<uint32_t>("split.count", 1);
  if (!count.ok()) return count.status();
  if (*count <= 1) return absl::OkStatus();
  const absl::StatusOr<uint32_t> number = first.Get<uint32_t>("split.no");
  if (!number.ok()) return absl::InvalidArgumentError(number.status().message());
  const std::string suffix = PartSuffix(1, *count);
  if (*count > kMaxParts || *number != 0 || !path.ends_with(suffix)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": part ", uint64_t{*number} + 1, " of ", *count,
                     "; give the first part, whose name must end in ", suffix));
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
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
    parts.push_back(*std::move(part));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufParts>> GgufParts::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufFile>> first = GgufFile::Open(path);
  if (!first.ok()) return first.status();
  std::vector<std::unique_ptr<GgufFile>> files;
  files.push_back(*std::move(first));
  if (absl::Status s = OpenOthers(files); !s.ok()) return s;
  std::unique_ptr<GgufParts> parts(new GgufParts);
  for (std::unique_ptr<GgufFile>& file : files) {
    if (absl::Status s = parts->Add(std::move(file)); !s.ok()) return s;
  }
  if (absl::Status s = parts->CheckTensorCount(); !s.ok()) return s;
  return parts;
}

absl::Status GgufParts::CheckTensorCount() const {
  const uint64_t count = AllTensors().size();
  const absl::StatusOr<uint64_t> promised =
      metadata().GetOr<uint64_t>("split.tensors.count", count);
  if (!promised.ok()) return promised.status();
  if (*promised != count) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": split.tensors.count is ", *promised,
                                                   ", the ", files(), " parts have ", count,
                                                   " tensors"));
  }
  return absl::OkStatus();
}

}  // namespace isobit
