#include "runtime/text/jinja/operators.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

// Python's bool is an int.
std::optional<int64_t> AsInteger(const Value& value) {
  if (value.integer() != nullptr) return *value.integer();
  if (value.boolean() != nullptr) return *value.boolean() ? 1 : 0;
  return std::nullopt;
}

int64_t CountPoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// The character of `text` at this index, which may count from the end.
std::optional<std::string> PointAt(std::string_view text, int64_t index) {
  if (index < 0) index += CountPoints(text);
  for (size_t at = 0; index >= 0 && at < text.size();) {
    const size_t length = StepUtf8(text.substr(at)).length;
    if (index-- == 0) return std::string(text.substr(at, length));
    at += length;
  }
  return std::nullopt;
}

// Steps that touching so many bytes costs.
int64_t StepsFor(size_t bytes) { return 1 + static_cast<int64_t>(bytes / 1024); }

// "dict object", as Jinja names a value without the thing asked for.
std::string ObjectOf(const Value& value) {
  return absl::StrCat("'", Absl(value.TypeName()), " object'");
}

}  // namespace

absl::Status Operators::CheckDefined(const Value& value) {
  if (value.undefined() == nullptr) return absl::OkStatus();
  return Error(line, value.undefined()->what);
}

absl::StatusOr<Value> Operators::Concatenate(const std::string& left, const std::string& right) {
  if (auto s = budget.Bytes(left.size() + right.size()); !s.ok()) return s;
  return Value(left + right);
}

absl::StatusOr<Value> Operators::Binary(std::string_view symbol, const Value& left,
                                        const Value& right) {
  if (symbol == "~") {
    absl::StatusOr<std::string> a = Text(left), b = Text(right);
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    return Concatenate(*a, *b);
  }
  if (auto s = CheckDefined(left); !s.ok()) return s;
  if (auto s = CheckDefined(right); !s.ok()) return s;
  const auto a = AsInteger(left), b = AsInteger(right);
  if (a && b) return Arithmetic(symbol, *a, *b);
  if (symbol == "+" && left.text() != nullptr && right.text() != nullptr) {
    return Concatenate(*left.text(), *right.text());
  }
  if (symbol == "+" && left.list() != nullptr && right.list() != nullptr) {
    List joined;
    if (auto s = budget.Bytes((left.list()->size() + right.list()->size()) * sizeof(Value));
        !s.ok()) {
      return s;
    }
    joined.reserve(left.list()->size() + right.list()->size());
    joined.insert(joined.end(), left.list()->begin(), left.list()->end());
    joined.insert(joined.end(), right.list()->begin(), right.list()->end());
    return Value(std::move(joined));
  }
  // Python formats and repeats text this way.
  if ((symbol == "%" && left.text() != nullptr) ||
      (symbol == "*" && (left.text() != nullptr || right.text() != nullptr ||
                         left.list() != nullptr || right.list() != nullptr))) {
    return Unsupported(
        line, absl::StrCat(Absl(left.TypeName()), " ", Absl(symbol), " ", Absl(right.TypeName())));
  }
  return Error(line, absl::StrCat("'", Absl(symbol), "' does not work between ",
                                  Absl(left.TypeName()), " and ", Absl(right.TypeName())));
}

absl::StatusOr<Value> Operators::Arithmetic(std::string_view symbol, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  if (symbol == "+") {
    overflow = __builtin_add_overflow(left, right, &result);
  } else if (symbol == "-") {
    overflow = __builtin_sub_overflow(left, right, &result);
  } else if (symbol == "*") {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (symbol == "/") {
    return Unsupported(line, "/");  // gives a float
  } else {
    if (right == 0) return Error(line, "division by zero");
    if (right == -1) {  // the one divisor whose quotient may not fit
      overflow = symbol == "//" && __builtin_sub_overflow(int64_t{0}, left, &result);
    } else {
      // Python rounds toward minus infinity.
      const int64_t remainder = left % right;
      const bool adjust = remainder != 0 && (remainder < 0) != (right < 0);
      result = symbol == "//" ? left / right - (adjust ? 1 : 0) : remainder + (adjust ? right : 0);
    }
  }
  if (overflow) return Error(line, "an integer is larger than 2^63-1");
  return Value(result);
}

absl::StatusOr<Value> Operators::Negate(const Value& value) {
  if (auto s = CheckDefined(value); !s.ok()) return s;
  if (const auto integer = AsInteger(value)) return Arithmetic("-", 0, *integer);
  return Error(line, absl::StrCat("'-' does not work on ", Absl(value.TypeName())));
}

absl::StatusOr<bool> Operators::Equal(const Value& left, const Value& right) {
  if (auto s = budget.Step(); !s.ok()) return s;
  const auto a = AsInteger(left), b = AsInteger(right);
  if (a && b) return *a == *b;
  if (left.text() != nullptr && right.text() != nullptr) {
    if (left.text()->size() != right.text()->size()) return false;
    if (auto s = budget.Step(StepsFor(left.text()->size())); !s.ok()) return s;
    return *left.text() == *right.text();
  }
  if (left.list() != nullptr && right.list() != nullptr) {
    if (left.list()->size() != right.list()->size()) return false;
    for (size_t i = 0; i < left.list()->size(); ++i) {
      absl::StatusOr<bool> same = Equal((*left.list())[i], (*right.list())[i]);
      if (!same.ok() || !*same) return same;
    }
    return true;
  }
  if (left.map() != nullptr && right.map() != nullptr) {
    if (left.map()->entries.size() != right.map()->entries.size()) return false;
    for (const auto& [key, value] : left.map()->entries) {
      const Value* other = right.map()->Find(key);
      if (other == nullptr) return false;
      absl::StatusOr<bool> same = Equal(value, *other);
      if (!same.ok() || !*same) return same;
    }
    return true;
  }
  return (left.is_none() && right.is_none()) ||
         (left.undefined() != nullptr && right.undefined() != nullptr);
}

absl::StatusOr<bool> Operators::Less(const Value& left, const Value& right) {
  if (auto s = CheckDefined(left); !s.ok()) return s;
  if (auto s = CheckDefined(right); !s.ok()) return s;
  const auto a = AsInteger(left), b = AsInteger(right);
  if (a && b) return *a < *b;
  if (left.text() != nullptr && right.text() != nullptr) {
    // In UTF-8 the order of bytes is the order of characters.
    if (auto s = budget.Step(StepsFor(left.text()->size())); !s.ok()) return s;
    return *left.text() < *right.text();
  }
  if (left.list() != nullptr && right.list() != nullptr) return Unsupported(line, "list < list");
  return Error(line, absl::StrCat("'<' does not work between ", Absl(left.TypeName()), " and ",
                                  Absl(right.TypeName())));
}

absl::StatusOr<bool> Operators::Contains(const Value& container, const Value& value) {
  if (container.undefined() != nullptr) return false;
  if (container.list() != nullptr) {
    for (const Value& element : *container.list()) {
      absl::StatusOr<bool> same = Equal(element, value);
      if (!same.ok() || *same) return same;
    }
    return false;
  }
  if (container.map() != nullptr && value.list() == nullptr && value.map() == nullptr) {
    return value.text() != nullptr && container.map()->Find(*value.text()) != nullptr;
  }
  if (value.text() != nullptr && container.text() != nullptr) {
    // The search may take the product of the two lengths.
    const size_t work = (container.text()->size() / 64 + 1) * (value.text()->size() / 64 + 1);
    if (auto s = budget.Step(static_cast<int64_t>(work)); !s.ok()) return s;
    return container.text()->find(*value.text()) != std::string::npos;
  }
  return Error(line, absl::StrCat("'in' does not work between ", Absl(value.TypeName()), " and ",
                                  Absl(container.TypeName())));
}

absl::StatusOr<bool> Operators::Compare(std::string_view symbol, const Value& left,
                                        const Value& right) {
  absl::StatusOr<bool> holds = false;
  bool negated = false;
  if (symbol == "==" || symbol == "!=") {
    holds = Equal(left, right);
    negated = symbol == "!=";
  } else if (symbol == "in" || symbol == "not in") {
    holds = Contains(right, left);
    negated = symbol == "not in";
  } else if (symbol == "<" || symbol == ">=") {
    holds = Less(left, right);
    negated = symbol == ">=";
  } else {
    holds = Less(right, left);
    negated = symbol == "<=";
  }
  if (!holds.ok()) return holds;
  return *holds != negated;
}

absl::StatusOr<Value> Operators::Attribute(const Value& base, std::string_view name) {
  if (auto s = CheckDefined(base); !s.ok()) return s;
  if (base.map() != nullptr) {
    if (const Value* value = base.map()->Find(name)) return *value;
    if (!base.map()->builtin.empty()) {
      return Unsupported(line, absl::StrCat(base.map()->builtin, ".", Absl(name)));
    }
  } else if (!base.is_none()) {
    // Text, lists and numbers have methods.
    return Unsupported(line, absl::StrCat(Absl(base.TypeName()), ".", Absl(name)));
  }
  return Value::MakeUndefined(absl::StrCat(ObjectOf(base), " has no attribute '", Absl(name), "'"));
}

absl::StatusOr<Value> Operators::Item(const Value& base, const Value& index) {
  if (auto s = CheckDefined(base); !s.ok()) return s;
  if (index.text() != nullptr) return Attribute(base, *index.text());
  const auto integer = AsInteger(index);
  if (integer && base.list() != nullptr) {
    const auto size = static_cast<int64_t>(base.list()->size());
    const int64_t at = *integer < 0 ? *integer + size : *integer;
    if (at >= 0 && at < size) return (*base.list())[static_cast<size_t>(at)];
  } else if (integer && base.text() != nullptr) {
    if (auto s = budget.Step(StepsFor(base.text()->size())); !s.ok()) return s;
    if (auto point = PointAt(*base.text(), *integer)) return Value(*std::move(point));
  }
  return Value::MakeUndefined(absl::StrCat(ObjectOf(base), " has no such element"));
}

absl::StatusOr<Value> Operators::Filter(std::string_view name, const Value& value) {
  if (name == "trim") {
    absl::StatusOr<std::string> text = Text(value);
    if (!text.ok()) return text.status();
    if (auto s = budget.Bytes(text->size()); !s.ok()) return s;
    return Value(std::string(StripLeft(StripRight(*text))));
  }
  if (name == "length" || name == "count") {
    if (value.undefined() != nullptr) return Value(int64_t{0});
    if (value.text() != nullptr) {
      if (auto s = budget.Step(StepsFor(value.text()->size())); !s.ok()) return s;
      return Value(CountPoints(*value.text()));
    }
    if (value.list() != nullptr) return Value(static_cast<int64_t>(value.list()->size()));
    if (value.map() != nullptr) return Value(static_cast<int64_t>(value.map()->entries.size()));
    return Error(line, absl::StrCat(ObjectOf(value), " has no length"));
  }
  return Unsupported(line, absl::StrCat("|", Absl(name)));
}

absl::StatusOr<bool> Operators::Test(std::string_view name, const Value& value) {
  if (name == "defined") return value.undefined() == nullptr;
  if (name == "undefined") return value.undefined() != nullptr;
  if (name == "none") return value.is_none();
  if (name == "string") return value.text() != nullptr;
  return Unsupported(line, absl::StrCat("is ", Absl(name)));
}

absl::StatusOr<std::string> Operators::Text(const Value& value) {
  if (value.text() != nullptr) {
    if (auto s = budget.Bytes(value.text()->size()); !s.ok()) return s;
    return *value.text();
  }
  if (value.undefined() != nullptr) return "";
  if (value.is_none()) return "None";
  if (value.boolean() != nullptr) return *value.boolean() ? "True" : "False";
  if (value.integer() != nullptr) return absl::StrCat(*value.integer());
  return Unsupported(line, absl::StrCat("printing a ", Absl(value.TypeName())));
}

absl::StatusOr<List> Operators::Elements(const Value& value) {
  if (value.undefined() != nullptr) return List();
  if (value.list() != nullptr) return *value.list();
  if (value.map() != nullptr && value.map()->builtin.empty()) {
    List keys;
    for (const auto& [key, unused] : value.map()->entries) keys.emplace_back(key);
    return keys;
  }
  if (value.text() != nullptr) return Unsupported(line, "for ... in str");
  return Error(line, absl::StrCat(ObjectOf(value), " is not iterable"));
}

}  // namespace isobit::jinja
