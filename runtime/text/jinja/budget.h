#ifndef ISOBIT_RUNTIME_TEXT_JINJA_BUDGET_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/text/jinja/errors.h"

namespace isobit::jinja {

// What one rendering may use. Beyond it the template is taken to be broken or hostile.
struct Limits {
  int64_t steps = 10'000'000;   // expressions and statements evaluated, about a second
  int64_t bytes = 256'000'000;  // of all strings and lists made on the way, and of the output
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  absl::Status Step(int64_t count = 1) {
    steps_ += count;
    if (steps_ <= limits_.steps) return absl::OkStatus();
    return LimitReached("rendering takes too many steps", limits_.steps);
  }
  // Before `count` bytes are allocated.
  absl::Status Bytes(size_t count) {
    bytes_ += static_cast<int64_t>(count);
    if (bytes_ <= limits_.bytes) return absl::OkStatus();
    return LimitReached("rendering makes too many bytes", limits_.bytes);
  }

 private:
  Limits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_BUDGET_H_
