#include "tools/isobit/check_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/json/strict_json.h"
#include "runtime/receipt/atomic_file.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "isobit check progress";
constexpr int kVersion = 1;
// A row takes about 100 bytes, and --full has some thousands.
constexpr size_t kMaxProgressBytes = size_t{64} << 20;

absl::Status ReadRow(const json& value, CheckRow* row) {
  if (!value.is_object() || value.size() != 3 || !value.contains("name") ||
      !value.contains("compared") || !value.contains("seconds")) {
    return JsonTypeError("a row", "an object of name, compared and seconds", value);
  }
  absl::Status status = ReadJson(value["name"], "name", row->name);
  status.Update(ReadJson(value["compared"], "compared", row->compared));
  status.Update(ReadJson(value["seconds"], "seconds", row->seconds));
  return status;
}

absl::StatusOr<std::vector<CheckRow>> ReadRows(const std::string& text, const json& of) {
  const absl::StatusOr<json> file = ParseStrictJson(text);
  if (!file.ok()) return file.status();
  if (!file->is_object() || file->value("format", json()) != kFormat) {
    return absl::InvalidArgumentError("is not the progress of a check");
  }
  if (file->value("version", json()) != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("its version is not ", kVersion));
  }
  const json recorded = file->value("of", json());
  if (recorded != of) {
    return absl::FailedPreconditionError(
        absl::StrCat("is of another check: ", recorded.dump(), ", not ", of.dump()));
  }
  const json list = file->value("rows", json());
  if (!list.is_array()) return JsonTypeError("rows", "a list", list);
  std::vector<CheckRow> rows(list.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (absl::Status s = ReadRow(list[i], &rows[i]); !s.ok()) return s;
  }
  return rows;
}

}  // namespace

absl::StatusOr<CheckProgress> CheckProgress::Open(std::string path, json of) {
  CheckProgress progress(std::move(path), std::move(of));
  const absl::StatusOr<std::string> text =
      ReadWholeFile(progress.path_, kMaxProgressBytes, "the progress of a check");
  if (absl::IsNotFound(text.status())) return progress;
  if (!text.ok()) return text.status();
  auto rows = ReadRows(*text, progress.of_);
  if (!rows.ok()) {
    return absl::Status(rows.status().code(),
                        absl::StrCat(progress.path_, ": ", rows.status().message()));
  }
  progress.rows_ = *std::move(rows);
  return progress;
}

bool CheckProgress::IsDone(const std::string& name) const {
  return std::ranges::find(rows_, name, &CheckRow::name) != rows_.end();
}

absl::Status CheckProgress::Add(const CheckRow& row) {
  if (!row.ok()) return absl::OkStatus();
  std::erase_if(rows_, [&](const CheckRow& earlier) { return earlier.name == row.name; });
  rows_.push_back(row);
  json rows = json::array();
  for (const CheckRow& r : rows_) {
    rows.push_back({{"name", r.name}, {"compared", r.compared}, {"seconds", r.seconds}});
  }
  const json file = {{"format", kFormat}, {"version", kVersion}, {"of", of_}, {"rows", rows}};
  return WriteFileAtomically(path_, file.dump(1) + "\n");
}

}  // namespace isobit
