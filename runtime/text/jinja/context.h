#ifndef ISOBIT_RUNTIME_TEXT_JINJA_CONTEXT_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// What one rendering may use. Beyond it the template is taken to be broken or hostile.
struct Limits {
  int64_t steps = 10'000'000;   // expressions and statements evaluated, about a second
  int64_t bytes = 256'000'000;  // of all strings and lists made on the way, and of the output
};

// What everything that evaluates shares: limits, the line for messages, and the first error. After
// an error values are meaningless; whoever loops or has effects asks ok() or Step().
class Context {
 public:
  Context(const Limits& limits, const std::tm& now) : limits_(limits), now_(now) {}

  int line = 1;

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  const std::tm& now() const { return now_; }

  // Counts work. False after an error or beyond the limit.
  bool Step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) {
      Keep(LimitReached("rendering takes too many steps", limits_.steps));
    }
    return ok();
  }
  // Before `count` bytes are allocated; work in proportion is counted too.
  bool Bytes(size_t count) {
    bytes_ += static_cast<int64_t>(count);
    if (bytes_ > limits_.bytes) {
      Keep(LimitReached("rendering makes too many bytes", limits_.bytes));
    }
    return Step(static_cast<int64_t>(count / 1024));
  }

  Value Fail(std::string_view what) {
    Keep(Error(line, what));
    return Value();
  }
  Value FailUnsupported(std::string_view feature) {
    Keep(Unsupported(line, feature));
    return Value();
  }
  Value FailWith(absl::Status status) {
    Keep(std::move(status));
    return Value();
  }

  // A new list or map, if it is not nested too deeply.
  Value Nested(Value value) {
    if (value.depth() <= Value::kMaxDepth) return value;
    return FailWith(LimitReached("values are nested too deeply", Value::kMaxDepth));
  }
  // An error if the value is undefined.
  bool CheckDefined(const Value& value) {
    if (value.undefined() != nullptr) Fail(value.undefined()->what);
    return ok();
  }

 private:
  void Keep(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  Limits limits_;
  std::tm now_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  absl::Status status_;
};

// What a filter, test, method or function is called with.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // The values of the parameters `names` in order, null where none is given. An error if there are
  // more, or others, or fewer than `required`.
  std::vector<const Value*> Match(Context& context, std::initializer_list<std::string_view> names,
                                  size_t required = 0) const {
    std::vector<const Value*> values(names.size(), nullptr);
    if (positional.size() > names.size()) context.Fail("too many arguments");
    for (size_t i = 0; i < std::min(positional.size(), names.size()); ++i) {
      values[i] = &positional[i];
    }
    for (const auto& [name, value] : keywords) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        context.Fail(absl::StrCat("unexpected argument '", name, "'"));
      } else if (values[static_cast<size_t>(found - names.begin())] != nullptr) {
        context.Fail(absl::StrCat("argument '", name, "' is given twice"));
      } else {
        values[static_cast<size_t>(found - names.begin())] = &value;
      }
    }
    for (size_t i = 0; i < required; ++i) {
      if (values[i] == nullptr) context.Fail("an argument is missing");
    }
    return values;
  }
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_CONTEXT_H_
