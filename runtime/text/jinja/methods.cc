#include "runtime/text/jinja/methods.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"
#include "runtime/text/jinja/text_functions.h"
#include "runtime/text/unicode_classes.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

constexpr std::string_view kTextMethods[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kMapMethods[] = {"copy", "fromkeys", "get", "items", "keys", "values"};
constexpr std::string_view kMapChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <size_t kCount>
bool Has(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value ListOf(Context& context, std::vector<std::string> texts) {
  List list;
  size_t bytes = 0;
  for (std::string& text : texts) {
    bytes += text.size() + sizeof(Value);
    list.emplace_back(std::move(text));
  }
  context.Bytes(bytes);
  return Value(std::move(list));
}

// A parameter that is text; an error if it is something else.
const std::string* TextOf(Context& context, const Value* value) {
  if (value == nullptr || value->is_none()) return nullptr;
  if (value->text() == nullptr) {
    context.Fail(absl::StrCat("expected a str, got ", Absl(value->TypeName())));
  }
  return value->text();
}

int64_t NumberOf(Context& context, const Value* value, int64_t preset) {
  if (value == nullptr) return preset;
  if (value->integer() == nullptr) context.Fail("expected an int");
  return value->integer() == nullptr ? preset : *value->integer();
}

Value StripMethod(Context& context, std::string_view name, const std::string& self,
                  const Arguments& arguments) {
  const auto args = arguments.Match(context, {"chars"});
  const std::string* chars = TextOf(context, args[0]);
  context.Step(static_cast<int64_t>(self.size() / 64));
  return Value(std::string(Strip(self, chars, name != "rstrip", name != "lstrip")));
}

Value SplitMethod(Context& context, bool from_right, const std::string& self,
                  const Arguments& arguments) {
  const auto args = arguments.Match(context, {"sep", "maxsplit"});
  const std::string* separator = TextOf(context, args[0]);
  const int64_t most = NumberOf(context, args[1], -1);
  if (!context.ok() || !context.Bytes(self.size())) return Value();
  if (separator == nullptr) return ListOf(context, SplitWhite(self, most, from_right));
  if (separator->empty()) return context.Fail("empty separator");
  if (!context.Bytes(self.size() / separator->size() * sizeof(Value))) return Value();
  return ListOf(context, SplitAt(self, *separator, most, from_right));
}

// startswith and endswith take a text or a tuple of them.
Value EndMethod(Context& context, bool at_end, const std::string& self,
                const Arguments& arguments) {
  const auto args = arguments.Match(context, {"prefix"}, 1);
  if (!context.ok()) return Value();
  const Value& part = *args[0];
  const bool many = part.sequence() != nullptr && part.sequence()->kind == Value::Sequence::kTuple;
  const List parts = many ? *part.list() : List{part};
  for (const Value& candidate : parts) {
    const std::string* text = TextOf(context, &candidate);
    if (text == nullptr)
      return context.Fail("startswith and endswith need a str or a tuple of str");
    if (at_end ? self.ends_with(*text) : self.starts_with(*text)) return Value(true);
  }
  return Value(false);
}

Value ReplaceMethod(Context& context, const std::string& self, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"old", "new", "count"}, 2);
  if (!context.ok()) return Value();
  const std::string *from = TextOf(context, args[0]), *to = TextOf(context, args[1]);
  const int64_t most = NumberOf(context, args[2], -1);
  if (from == nullptr || to == nullptr) return context.Fail("replace needs two str");
  const size_t times = self.size() / std::max<size_t>(from->size(), 1) + 1;
  size_t grown = 0;
  if (__builtin_mul_overflow(times, to->size(), &grown)) grown = INT64_MAX / 2;
  if (!context.Bytes(self.size()) || !context.Step(static_cast<int64_t>(times / 16))) {
    return Value();
  }
  // What it may grow to at most is charged if it is much; the result when it is there.
  if (grown > 1'000'000 && !context.Bytes(grown)) return Value();
  return Value(Replace(self, *from, *to, most));
}

Value FindMethod(Context& context, std::string_view name, const std::string& self,
                 const Arguments& arguments) {
  const auto args = arguments.Match(context, {"sub"}, 1);
  if (!context.ok()) return Value();
  const std::string* part = TextOf(context, args[0]);
  if (part == nullptr) return context.Fail("expected a str");
  context.Step(static_cast<int64_t>((self.size() / 64 + 1) * (part->size() / 64 + 1)));
  if (name == "count") {
    if (part->empty()) return Value(Length(context, Value(self)) + 1);
    return Value(static_cast<int64_t>(SplitAt(self, *part, -1, false).size()) - 1);
  }
  const bool from_right = name[0] == 'r';
  const size_t found = from_right ? self.rfind(*part) : self.find(*part);
  if (found != self.npos) return Value(Length(context, Value(self.substr(0, found))));
  if (name == "index" || name == "rindex") return context.Fail("substring not found");
  return Value(int64_t{-1});
}

Value JoinMethod(Context& context, const std::string& self, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"iterable"}, 1);
  if (!context.ok()) return Value();
  std::string out;
  bool first = true;
  for (const Value& element : Elements(context, *args[0])) {
    if (element.text() == nullptr) return context.Fail("join needs a list of str");
    if (!context.Bytes(element.text()->size() + self.size())) return Value();
    if (!std::exchange(first, false)) out += self;
    out += *element.text();
  }
  return Value(std::move(out));
}

Value PartitionMethod(Context& context, bool from_right, const std::string& self,
                      const Arguments& arguments) {
  const auto args = arguments.Match(context, {"sep"}, 1);
  const std::string* separator = context.ok() ? TextOf(context, args[0]) : nullptr;
  if (separator == nullptr || separator->empty()) return context.Fail("empty separator");
  const size_t found = from_right ? self.rfind(*separator) : self.find(*separator);
  List parts;
  if (found == self.npos) {
    parts = {Value(from_right ? "" : self), Value(""), Value(from_right ? self : "")};
  } else {
    parts = {Value(self.substr(0, found)), Value(*separator),
             Value(self.substr(found + separator->size()))};
  }
  return Value::MakeSequence(std::move(parts), Value::Sequence::kTuple);
}

Value RemoveMethod(Context& context, bool prefix, const std::string& self,
                   const Arguments& arguments) {
  const auto args = arguments.Match(context, {"affix"}, 1);
  const std::string* affix = context.ok() ? TextOf(context, args[0]) : nullptr;
  if (affix == nullptr) return context.Fail("expected a str");
  if (prefix) return Value(self.starts_with(*affix) ? self.substr(affix->size()) : self);
  return Value(self.ends_with(*affix) ? self.substr(0, self.size() - affix->size()) : self);
}

// str.format with {}, {0} and {name} alone.
Value FormatMethod(Context& context, const std::string& self, const Arguments& arguments) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < self.size(); ++at) {
    const char c = self[at];
    if ((c == '{' || c == '}') && at + 1 < self.size() && self[at + 1] == c) {
      out += self[at++];
      continue;
    }
    if (c == '}') return context.Fail("single '}' in a format");
    if (c != '{') {
      out += c;
      continue;
    }
    const size_t end = self.find('}', at);
    if (end == self.npos) return context.Fail("single '{' in a format");
    const std::string name = self.substr(at + 1, end - at - 1);
    at = end;
    const Value* value = nullptr;
    const bool digits =
        std::all_of(name.begin(), name.end(), [](char d) { return d >= '0' && d <= '9'; });
    if (digits && name.size() < 9) {
      const size_t index = name.empty() ? next++ : static_cast<size_t>(std::stoi(name));
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    } else if (name.find_first_of(".[:!") != name.npos) {
      return context.FailUnsupported(absl::StrCat("{", name, "} in .format()"));
    }
    for (const auto& [key, given] : arguments.keywords) {
      if (key == name) value = &given;
    }
    if (value == nullptr) return context.Fail("a format has no value");
    out += Str(context, *value);
    if (!context.Bytes(out.size() / 16)) return Value();
  }
  return Value(std::move(out));
}

// isdigit and the like: true if there is a character and all satisfy `is`.
template <typename Is>
Value AllPoints(Context& context, const std::string& self, Is is) {
  context.Step(static_cast<int64_t>(self.size() / 64));
  for (size_t at = 0; at < self.size();) {
    const Utf8Step step = StepUtf8(std::string_view(self).substr(at));
    if (!is(step.point)) return Value(false);
    at += step.length;
  }
  return Value(!self.empty());
}

Value ClassMethod(Context& context, std::string_view name, const std::string& self) {
  const auto all_in = [&](CharClasses classes) {
    return AllPoints(context, self, [classes](char32_t c) { return IsIn(ClassOf(c), classes); });
  };
  if (name == "isalpha") return all_in(kLetters);
  if (name == "isalnum") return all_in(kLetters | kNumbers);
  if (name == "isdecimal") return all_in(In(CharClass::kNd));
  if (name == "isnumeric") return all_in(kNumbers);
  if (name == "isspace") return AllPoints(context, self, IsPythonSpace);
  if (name == "isascii") {
    return Value(self.empty() ||
                 *AllPoints(context, self, [](char32_t c) { return c < 128; }).boolean());
  }
  if (name == "isdigit") {
    return AllPoints(context, self, [](char32_t c) {
      return IsIn(ClassOf(c), In(CharClass::kNd)) || c == 0xB2 || c == 0xB3 || c == 0xB9 ||
             (c >= 0x2070 && c <= 0x2089 && c != 0x2071);
    });
  }
  const bool upper = name == "isupper";
  if (upper || name == "islower") {
    const std::string cased = upper ? ToUpper(self) : ToLower(self);
    const std::string other = upper ? ToLower(self) : ToUpper(self);
    return Value(cased == self && other != self);
  }
  return context.FailUnsupported(absl::StrCat(".", Absl(name), "()"));
}

// Methods without arguments.
Value PlainMethod(Context& context, std::string_view name, const std::string& self) {
  if (name == "lower") return Value(ToLower(self));
  if (name == "upper") return Value(ToUpper(self));
  if (name == "capitalize") return Value(Capitalize(self));
  if (name == "title") return Value(ToTitle(self, /*any_sign=*/true));
  return ClassMethod(context, name, self);
}

Value CallTextMethod(Context& context, std::string_view name, const std::string& self,
                     const Arguments& arguments) {
  if (!context.Bytes(self.size())) return Value();
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return StripMethod(context, name, self, arguments);
  }
  if (name == "split" || name == "rsplit") {
    return SplitMethod(context, name == "rsplit", self, arguments);
  }
  if (name == "startswith" || name == "endswith") {
    return EndMethod(context, name == "endswith", self, arguments);
  }
  if (name == "replace") return ReplaceMethod(context, self, arguments);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
    return FindMethod(context, name, self, arguments);
  }
  if (name == "join") return JoinMethod(context, self, arguments);
  if (name == "partition" || name == "rpartition") {
    return PartitionMethod(context, name == "rpartition", self, arguments);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    return RemoveMethod(context, name == "removeprefix", self, arguments);
  }
  if (name == "format") return FormatMethod(context, self, arguments);
  if (name == "splitlines") {
    const auto args = arguments.Match(context, {"keepends"});
    return ListOf(context, SplitLines(self, args[0] != nullptr && args[0]->IsTrue()));
  }
  const Value value = PlainMethod(context, name, self);
  arguments.Match(context, {});
  return value;
}

Value CallListMethod(Context& context, std::string_view name, const Value& self,
                     const Arguments& arguments) {
  if (name == "copy") return self;
  const auto args = arguments.Match(context, {"value"}, 1);
  if (!context.ok()) return Value();
  int64_t count = 0;
  for (size_t i = 0; i < self.list()->size(); ++i) {
    if (!Equal(context, (*self.list())[i], *args[0])) continue;
    if (name == "index") return Value(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") return context.Fail("value is not in list");
  return Value(count);
}

Value CallMapMethod(Context& context, std::string_view name, const Value& self,
                    const Arguments& arguments) {
  const Map& map = *self.map();
  if (!context.Bytes(map.entries.size() * sizeof(Value))) return Value();
  if (name == "get") {
    const auto args = arguments.Match(context, {"key", "default"}, 1);
    if (!context.ok()) return Value();
    const Value* found = map.Find(*args[0]);
    return found != nullptr ? *found : args[1] != nullptr ? *args[1] : Value();
  }
  arguments.Match(context, {});
  if (name == "copy") return self;
  if (name == "fromkeys") return context.FailUnsupported(".fromkeys()");
  List list;
  for (const auto& [key, value] : map.entries) {
    if (name == "keys") {
      list.push_back(key);
    } else if (name == "values") {
      list.push_back(value);
    } else {
      list.push_back(Value::MakeSequence({key, value}, Value::Sequence::kTuple));
    }
  }
  const auto kind = name == "keys"     ? Value::Sequence::kKeys
                    : name == "values" ? Value::Sequence::kValues
                                       : Value::Sequence::kItems;
  return context.Nested(Value::MakeSequence(std::move(list), kind));
}

}  // namespace

std::optional<Value> Method(const Value& self, std::string_view name) {
  const bool is_list =
      self.sequence() != nullptr && self.sequence()->kind <= Value::Sequence::kTuple;
  const bool exists = (self.text() != nullptr && Has(kTextMethods, name)) ||
                      (is_list && Has(kListMethods, name)) ||
                      (self.map() != nullptr && Has(kMapMethods, name));
  if (exists) {
    Callable method{Callable::kMethod, std::string(name), self};
    return Value::MakeCallable(std::move(method));
  }
  if ((is_list && Has(kListChanges, name)) || (self.map() != nullptr && Has(kMapChanges, name))) {
    return Value::MakeUndefined(absl::StrCat("access to attribute '", Absl(name), "' of '",
                                             Absl(self.TypeName()), "' object is unsafe."));
  }
  return std::nullopt;
}

Value CallMethod(Context& context, const Callable& method, const Arguments& arguments) {
  if (!context.Step()) return Value();
  const Value& self = method.self;
  if (self.text() != nullptr) {
    return CallTextMethod(context, method.name, *self.text(), arguments);
  }
  if (self.map() != nullptr) return CallMapMethod(context, method.name, self, arguments);
  if (self.list() != nullptr) return CallListMethod(context, method.name, self, arguments);
  // loop.cycle(a, b, ...)
  const List& values = arguments.positional;
  if (values.empty()) return context.Fail("no items for cycling given");
  return values[self.callable()->index % values.size()];
}

}  // namespace isobit::jinja
