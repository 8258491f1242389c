#ifndef ISOBIT_RUNTIME_TEXT_JINJA_OPERATORS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_OPERATORS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/budget.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// The language's operators, filters and tests on values, with Python's meaning. Each costs steps
// and bytes of the budget in proportion to its work, taken before the work is done. `line` is for
// messages.
struct Operators {
  Budget& budget;
  int line;

  // `symbol` is one of + - * / // % ~.
  absl::StatusOr<Value> Binary(std::string_view symbol, const Value& left, const Value& right);
  // `symbol` is one of == != < <= > >= in, not in.
  absl::StatusOr<bool> Compare(std::string_view symbol, const Value& left, const Value& right);
  absl::StatusOr<Value> Negate(const Value& value);
  absl::StatusOr<Value> Attribute(const Value& base, std::string_view name);
  absl::StatusOr<Value> Item(const Value& base, const Value& index);
  absl::StatusOr<Value> Filter(std::string_view name, const Value& value);
  absl::StatusOr<bool> Test(std::string_view name, const Value& value);
  // What {{ value }} prints.
  absl::StatusOr<std::string> Text(const Value& value);
  // Elements that `for` visits.
  absl::StatusOr<List> Elements(const Value& value);
  // An error if the value is undefined.
  absl::Status CheckDefined(const Value& value);

 private:
  absl::StatusOr<bool> Equal(const Value& left, const Value& right);
  absl::StatusOr<bool> Less(const Value& left, const Value& right);
  absl::StatusOr<bool> Contains(const Value& container, const Value& value);
  absl::StatusOr<Value> Arithmetic(std::string_view symbol, int64_t left, int64_t right);
  absl::StatusOr<Value> Concatenate(const std::string& left, const std::string& right);
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_OPERATORS_H_
