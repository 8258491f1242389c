// The tests of the language: value is name.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"
#include "runtime/text/jinja/text_functions.h"

namespace isobit::jinja {
namespace {

using Sequence = Value::Sequence;

bool IsDefined(Context&, const Value& v) { return v.undefined() == nullptr; }
bool IsUndefined(Context&, const Value& v) { return v.undefined() != nullptr; }
bool IsNone(Context&, const Value& v) { return v.is_none(); }
bool IsString(Context&, const Value& v) { return v.text() != nullptr; }
bool IsMapping(Context&, const Value& v) { return v.map() != nullptr; }
bool IsBoolean(Context&, const Value& v) { return v.boolean() != nullptr; }
bool IsTrueTest(Context&, const Value& v) { return v.boolean() != nullptr && *v.boolean(); }
bool IsFalse(Context&, const Value& v) { return v.boolean() != nullptr && !*v.boolean(); }
bool IsInteger(Context&, const Value& v) { return v.integer() != nullptr; }
bool IsFloat(Context&, const Value& v) { return v.real() != nullptr; }
bool IsNumber(Context&, const Value& v) { return v.is_number(); }
// An undefined value can be called, which is an error.
bool IsCallable(Context&, const Value& v) {
  return v.callable() != nullptr || v.undefined() != nullptr;
}
// An undefined value can be iterated over and has a length.
bool IsIterable(Context&, const Value& v) {
  return v.undefined() != nullptr || v.text() != nullptr || v.sequence() != nullptr ||
         v.map() != nullptr;
}
bool IsSequence(Context&, const Value& v) {
  // What has a length and takes an index.
  return v.undefined() != nullptr || v.text() != nullptr || v.list() != nullptr ||
         v.map() != nullptr;
}
bool IsLower(Context& context, const Value& v) {
  const std::string text = Str(context, v);
  return ToLower(text) == text && ToUpper(text) != text;
}
bool IsUpper(Context& context, const Value& v) {
  const std::string text = Str(context, v);
  return ToUpper(text) == text && ToLower(text) != text;
}
bool IsEscaped(Context&, const Value&) { return false; }

struct PlainTest {
  std::string_view name;
  bool (*holds)(Context& context, const Value& value);
};
constexpr PlainTest kPlain[] = {
    {"defined", IsDefined},   {"undefined", IsUndefined}, {"none", IsNone},
    {"string", IsString},     {"mapping", IsMapping},     {"boolean", IsBoolean},
    {"true", IsTrueTest},     {"false", IsFalse},         {"integer", IsInteger},
    {"float", IsFloat},       {"number", IsNumber},       {"callable", IsCallable},
    {"iterable", IsIterable}, {"sequence", IsSequence},   {"lower", IsLower},
    {"upper", IsUpper},       {"escaped", IsEscaped},
};

struct Comparison {
  std::string_view name, symbol;
};
constexpr Comparison kComparisons[] = {
    {"eq", "=="}, {"equalto", "=="}, {"==", "=="},      {"ne", "!="},
    {"!=", "!="}, {"lt", "<"},       {"lessthan", "<"}, {"<", "<"},
    {"le", "<="}, {"<=", "<="},      {"gt", ">"},       {"greaterthan", ">"},
    {">", ">"},   {"ge", ">="},      {">=", ">="},      {"in", "in"},
};

bool Divides(Context& context, const Value& value, int64_t by) {
  const Value rest = Binary(context, "%", value, Value(by));
  return context.ok() && Equal(context, rest, Value(int64_t{0}));
}

// Equal and of the same kind; Python's identity can't be told apart for constants.
bool IsSame(Context& context, const Value& left, const Value& right) {
  return left.TypeName() == right.TypeName() && Equal(context, left, right);
}

}  // namespace

bool ApplyTest(Context& context, std::string_view name, const Value& value,
               const Arguments& arguments) {
  for (const PlainTest& test : kPlain) {
    if (test.name != name) continue;
    arguments.Match(context, {});
    return test.holds(context, value);
  }
  if (name == "even" || name == "odd") {
    arguments.Match(context, {});
    return Divides(context, value, 2) == (name == "even");
  }
  const auto args = arguments.Match(context, {"other"});
  const auto comparison = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                       [&](const Comparison& c) { return c.name == name; });
  const bool known =
      comparison != std::end(kComparisons) || name == "divisibleby" || name == "sameas";
  if (!known) {
    if (name == "filter" || name == "test") {
      context.FailUnsupported(absl::StrCat("is ", Absl(name)));
    } else {
      context.Fail(absl::StrCat("no test named '", Absl(name), "'"));
    }
    return false;
  }
  if (args[0] == nullptr) context.Fail(absl::StrCat("is ", Absl(name), " needs an argument"));
  if (!context.ok()) return false;
  if (name == "sameas") return IsSame(context, value, *args[0]);
  if (name == "divisibleby") {
    const Value rest = Binary(context, "%", value, *args[0]);
    return context.ok() && Equal(context, rest, Value(int64_t{0}));
  }
  return Compare(context, comparison->symbol, value, *args[0]);
}

}  // namespace isobit::jinja
