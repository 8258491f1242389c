#ifndef ISOBIT_TOOLS_ISOBIT_CHECK_PROGRESS_H_
#define ISOBIT_TOOLS_ISOBIT_CHECK_PROGRESS_H_

// What a long check has done so far, in a file, so that one that was interrupted goes on:
//
//   {"format": "isobit check progress", "version": 1,
//    "of": {"model": digest, "build": text, "device": text, "full": true, ...},
//    "rows": [{"name": text, "compared": count, "seconds": number}]}
//
// Rows that failed are not in it: they run again.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/report.h"
#include "nlohmann/json.hpp"

namespace isobit {

class CheckProgress {
 public:
  // `of`: all that a row's result could depend on. What the file, if there is one, says of the same
  // is taken over. FailedPrecondition if it is of something else; InvalidArgument if it is no
  // such file; the system's error if it can't be read. Errors name the path.
  static absl::StatusOr<CheckProgress> Open(std::string path, nlohmann::json of);

  const std::vector<CheckRow>& rows() const { return rows_; }
  bool IsDone(const std::string& name) const;
  // Adds a row and writes the file, if the row is ok; a later row of the same name takes its place.
  absl::Status Add(const CheckRow& row);

 private:
  CheckProgress(std::string path, nlohmann::json of) : path_(std::move(path)), of_(std::move(of)) {}

  std::string path_;
  nlohmann::json of_;
  std::vector<CheckRow> rows_;
};

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_CHECK_PROGRESS_H_
