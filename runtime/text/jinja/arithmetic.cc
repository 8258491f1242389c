// Binary operators.
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"
#include "runtime/text/jinja/text_functions.h"

namespace isobit::jinja {
namespace {

std::optional<int64_t> AsInteger(const Value& value) {
  if (value.integer() != nullptr) return *value.integer();
  if (value.boolean() != nullptr) return *value.boolean() ? 1 : 0;
  return std::nullopt;
}

double AsReal(const Value& value) {
  return value.real() != nullptr ? *value.real() : static_cast<double>(*AsInteger(value));
}

// left ** right for right >= 0; overflow is told through `overflow`.
int64_t Power(int64_t left, int64_t right, bool* overflow) {
  int64_t result = 1;
  while (right > 0 && !*overflow) {
    if (right & 1) *overflow = __builtin_mul_overflow(result, left, &result);
    right >>= 1;
    if (right > 0 && __builtin_mul_overflow(left, left, &left)) *overflow = true;
  }
  return result;
}

Value Reals(Context& context, std::string_view symbol, double left, double right) {
  if (symbol == "+") return Value(left + right);
  if (symbol == "-") return Value(left - right);
  if (symbol == "*") return Value(left * right);
  if (symbol == "**") return Value(std::pow(left, right));
  if (right == 0) return context.Fail("division by zero");
  if (symbol == "/") return Value(left / right);
  // Python rounds toward minus infinity; the remainder has the sign of the divisor.
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (symbol == "%") return Value(remainder);
  return Value(std::floor((left - remainder) / right + 0.5));
}

Value Integers(Context& context, std::string_view symbol, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  if (symbol == "+") {
    overflow = __builtin_add_overflow(left, right, &result);
  } else if (symbol == "-") {
    overflow = __builtin_sub_overflow(left, right, &result);
  } else if (symbol == "*") {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (symbol == "**" && right >= 0) {
    result = Power(left, right, &overflow);
  } else if (symbol == "**" || symbol == "/") {
    return Reals(context, symbol, static_cast<double>(left), static_cast<double>(right));
  } else {
    if (right == 0) return context.Fail("division by zero");
    if (right == -1) {  // the one divisor whose quotient may not fit
      overflow = symbol == "//" && __builtin_sub_overflow(int64_t{0}, left, &result);
    } else {
      const int64_t remainder = left % right;
      const bool adjust = remainder != 0 && (remainder < 0) != (right < 0);
      result = symbol == "//" ? left / right - (adjust ? 1 : 0) : remainder + (adjust ? right : 0);
    }
  }
  if (overflow) return context.Fail("an integer is larger than 2^63-1");
  return Value(result);
}

Value Joined(Context& context, const std::string& left, const std::string& right) {
  if (!context.Bytes(left.size() + right.size())) return Value();
  return Value(left + right);
}

Value JoinedSafely(Context& context, const Value& left, const Value& right) {
  const auto safe = [](const Value& value) {
    return value.is_safe() ? *value.text() : EscapeHtml(*value.text());
  };
  if (!context.Bytes(6 * (left.text()->size() + right.text()->size()))) return Value();
  return Value::MakeSafe(safe(left) + safe(right));
}

Value JoinedLists(Context& context, const Value& left, const Value& right) {
  const List &a = *left.list(), &b = *right.list();
  if (!context.Bytes((a.size() + b.size()) * sizeof(Value))) return Value();
  List joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  return Value::MakeSequence(std::move(joined), left.sequence()->kind);
}

// text * count or list * count.
Value Repeated(Context& context, const Value& what, int64_t count) {
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  const size_t unit =
      what.text() != nullptr ? what.text()->size() : what.list()->size() * sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(unit, times, &bytes)) bytes = INT64_MAX / 2;
  if (!context.Bytes(bytes)) return Value();
  if (what.text() != nullptr) {
    std::string text;
    for (size_t i = 0; unit > 0 && i < times; ++i) text += *what.text();
    return Value(std::move(text));
  }
  List list;
  for (size_t i = 0; unit > 0 && i < times; ++i) {
    list.insert(list.end(), what.list()->begin(), what.list()->end());
  }
  return Value::MakeSequence(std::move(list), what.sequence()->kind);
}

bool IsRepeatable(const Value& value) {
  return value.text() != nullptr ||
         (value.list() != nullptr && value.sequence()->kind <= Value::Sequence::kTuple);
}

}  // namespace

Value Binary(Context& context, std::string_view symbol, const Value& left, const Value& right) {
  if (symbol == "~") {
    const std::string a = Str(context, left), b = Str(context, right);
    return Joined(context, a, b);
  }
  if (!context.CheckDefined(left) || !context.CheckDefined(right)) return Value();
  const auto a = AsInteger(left), b = AsInteger(right);
  if (a && b) return Integers(context, symbol, *a, *b);
  if (left.is_number() && right.is_number()) {
    return Reals(context, symbol, AsReal(left), AsReal(right));
  }
  if (symbol == "+" && left.text() != nullptr && right.text() != nullptr) {
    if (left.is_safe() || right.is_safe()) return JoinedSafely(context, left, right);
    return Joined(context, *left.text(), *right.text());
  }
  if (symbol == "+" && IsRepeatable(left) && IsRepeatable(right) && left.list() != nullptr &&
      right.list() != nullptr && left.sequence()->kind == right.sequence()->kind) {
    return JoinedLists(context, left, right);
  }
  if (symbol == "*" && b && IsRepeatable(left)) return Repeated(context, left, *b);
  if (symbol == "*" && a && IsRepeatable(right)) return Repeated(context, right, *a);
  if (symbol == "%" && left.text() != nullptr) return context.FailUnsupported("str % value");
  return context.Fail(absl::StrCat("'", Absl(symbol), "' does not work between ",
                                   Absl(left.TypeName()), " and ", Absl(right.TypeName())));
}

Value Negate(Context& context, const Value& value) {
  if (!context.CheckDefined(value)) return Value();
  if (const auto integer = AsInteger(value)) return Integers(context, "-", 0, *integer);
  if (value.real() != nullptr) return Value(-*value.real());
  return context.Fail(absl::StrCat("'-' does not work on ", Absl(value.TypeName())));
}

}  // namespace isobit::jinja
