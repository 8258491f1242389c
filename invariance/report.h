#ifndef ISOBIT_INVARIANCE_REPORT_H_
#define ISOBIT_INVARIANCE_REPORT_H_

// What a proof of invariance reports: rows that compared something and found no difference, or not.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace isobit {

// One way of running what must always give the same bits.
struct CheckRow {
  std::string name;      // "7 at once"
  int64_t compared = 0;  // values compared with the run alone: ids, log-probabilities, logits
  std::string first_difference = "";  // empty: none. Else where (request, choice, position, logit),
                                      // both values, ULPs between them and how many values differ;
                                      // or why the row shows nothing ("no preemption happened")
  double seconds = 0;

  // A row that compared nothing has not passed.
  bool ok() const { return first_difference.empty() && compared > 0; }
};

struct CheckReport {
  std::vector<CheckRow> rows;
  bool ok() const;  // false if a row is not, or if there is none
};

// Called when a row is done, for a table that grows while one waits. May be empty.
using CheckRowCallback = std::function<void(const CheckRow&)>;
// Chooses rows by name. May be empty: none.
using CheckRowFilter = std::function<bool(const std::string& name)>;

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_REPORT_H_
