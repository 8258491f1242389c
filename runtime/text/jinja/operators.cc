#include "runtime/text/jinja/operators.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/methods.h"
#include "runtime/text/utf8.h"

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

int64_t CountPoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// Byte offset of the character with this index, at most the number of characters.
size_t OffsetOf(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += StepUtf8(text.substr(at)).length;
  return at;
}

std::string ObjectOf(const Value& value) {
  return absl::StrCat("'", Absl(value.TypeName()), " object'");
}

Value NoAttribute(const Value& base, std::string_view name) {
  return Value::MakeUndefined(absl::StrCat(ObjectOf(base), " has no attribute '", Absl(name), "'"));
}

bool EqualLists(Context& context, const List& left, const List& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!Equal(context, left[i], right[i])) return false;
  }
  return true;
}

bool EqualMaps(Context& context, const Map& left, const Map& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    if (!context.Step(1 + static_cast<int64_t>(right.entries.size() / 16))) return false;
    const Value* other = right.Find(key);
    if (other == nullptr || !Equal(context, value, *other)) return false;
  }
  return true;
}

bool Contains(Context& context, const Value& container, const Value& value) {
  if (container.undefined() != nullptr) return false;
  if (container.sequence() != nullptr) {
    for (const Value& element : *container.sequence()->list) {
      if (!context.ok()) return false;
      if (Equal(context, element, value)) return true;
    }
    return false;
  }
  if (container.map() != nullptr && value.list() == nullptr && value.map() == nullptr) {
    if (!context.Step(1 + static_cast<int64_t>(container.map()->entries.size() / 16))) return false;
    return container.map()->Find(value) != nullptr;
  }
  if (value.text() != nullptr && container.text() != nullptr) {
    // The search may take the product of the two lengths.
    const size_t work = (container.text()->size() / 64 + 1) * (value.text()->size() / 64 + 1);
    return context.Step(static_cast<int64_t>(work)) &&
           container.text()->find(*value.text()) != std::string::npos;
  }
  context.Fail(absl::StrCat("'in' does not work between ", Absl(value.TypeName()), " and ",
                            Absl(container.TypeName())));
  return false;
}

// What `loop` tells about its round.
Value LoopAttribute(Context& context, const Callable& loop, const Value& self,
                    std::string_view name) {
  const auto count = static_cast<int64_t>(loop.elements->size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index0") return Value(index);
  if (name == "index") return Value(index + 1);
  if (name == "revindex0") return Value(count - 1 - index);
  if (name == "revindex") return Value(count - index);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth0") return Value(int64_t{0});  // only recursive loops are deeper
  if (name == "depth") return Value(int64_t{1});
  if (name == "previtem") {
    if (index == 0) return Value::MakeUndefined("there is no previous item");
    return (*loop.elements)[loop.index - 1];
  }
  if (name == "nextitem") {
    if (index + 1 == count) return Value::MakeUndefined("there is no next item");
    return (*loop.elements)[loop.index + 1];
  }
  if (name == "cycle") {
    Callable method{Callable::kMethod, "cycle", self};
    return Value::MakeCallable(std::move(method));
  }
  if (name == "changed") return context.FailUnsupported("loop.changed");
  return NoAttribute(self, name);
}

// The place of an index that may count from the end, or nothing.
std::optional<size_t> PlaceOf(int64_t index, size_t size) {
  const auto count = static_cast<int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<size_t>(index);
}

}  // namespace

bool Equal(Context& context, const Value& left, const Value& right) {
  if (!context.Step()) return false;
  if (left.is_number() && right.is_number()) {
    const auto a = AsInteger(left), b = AsInteger(right);
    return a && b ? *a == *b : AsReal(left) == AsReal(right);
  }
  if (left.text() != nullptr && right.text() != nullptr) {
    if (left.text()->size() != right.text()->size()) return false;
    return context.Step(1 + static_cast<int64_t>(left.text()->size() / 1024)) &&
           *left.text() == *right.text();
  }
  if (left.list() != nullptr && right.list() != nullptr) {
    return left.sequence()->kind == right.sequence()->kind &&
           EqualLists(context, *left.list(), *right.list());
  }
  if (left.map() != nullptr && right.map() != nullptr) {
    return EqualMaps(context, *left.map(), *right.map());
  }
  if (left.callable() != nullptr) return left.callable() == right.callable();
  if (left.name_space() != nullptr) return left.name_space() == right.name_space();
  return (left.is_none() && right.is_none()) ||
         (left.undefined() != nullptr && right.undefined() != nullptr);
}

bool Less(Context& context, const Value& left, const Value& right) {
  if (!context.CheckDefined(left) || !context.CheckDefined(right)) return false;
  if (left.is_number() && right.is_number()) {
    const auto a = AsInteger(left), b = AsInteger(right);
    return a && b ? *a < *b : AsReal(left) < AsReal(right);
  }
  if (left.text() != nullptr && right.text() != nullptr) {
    // In UTF-8 the order of bytes is the order of characters.
    return context.Step(1 + static_cast<int64_t>(left.text()->size() / 1024)) &&
           *left.text() < *right.text();
  }
  if (left.list() != nullptr && right.list() != nullptr &&
      left.sequence()->kind == right.sequence()->kind) {
    const List &a = *left.list(), &b = *right.list();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!Equal(context, a[i], b[i])) return Less(context, a[i], b[i]);
    }
    return a.size() < b.size();
  }
  context.Fail(absl::StrCat("'<' does not work between ", Absl(left.TypeName()), " and ",
                            Absl(right.TypeName())));
  return false;
}

bool Compare(Context& context, std::string_view symbol, const Value& left, const Value& right) {
  if (symbol == "==") return Equal(context, left, right);
  if (symbol == "!=") return !Equal(context, left, right);
  if (symbol == "in") return Contains(context, right, left);
  if (symbol == "not in") return !Contains(context, right, left);
  if (symbol == "<") return Less(context, left, right);
  if (symbol == ">") return Less(context, right, left);
  // Not the negation: no order holds with what is not a number.
  if (symbol == "<=") return Less(context, left, right) || Equal(context, left, right);
  return Less(context, right, left) || Equal(context, left, right);
}

Value Attribute(Context& context, const Value& base, std::string_view name) {
  if (!context.CheckDefined(base)) return Value();
  if (base.callable() != nullptr) {
    if (base.callable()->kind == Callable::kLoop) {
      return LoopAttribute(context, *base.callable(), base, name);
    }
    constexpr std::string_view kOfMacros[] = {"name", "arguments", "catch_kwargs", "catch_varargs",
                                              "caller"};
    if (base.callable()->kind == Callable::kMacro &&
        std::find(std::begin(kOfMacros), std::end(kOfMacros), name) != std::end(kOfMacros)) {
      return context.FailUnsupported(absl::StrCat("macro.", Absl(name)));
    }
    return NoAttribute(base, name);
  }
  if (const auto method = Method(base, name)) return *method;
  const Map* map = base.name_space() != nullptr ? base.name_space() : base.map();
  if (map != nullptr) {
    if (!context.Step(1 + static_cast<int64_t>(map->entries.size() / 16))) return Value();
    if (const Value* value = map->Find(name)) return *value;
  }
  return NoAttribute(base, name);
}

Value Item(Context& context, const Value& base, const Value& index) {
  if (!context.CheckDefined(base)) return Value();
  if (base.map() != nullptr) {
    if (!context.Step(1 + static_cast<int64_t>(base.map()->entries.size() / 16))) return Value();
    if (const Value* value = base.map()->Find(index)) return *value;
  }
  if (index.text() != nullptr) return Attribute(context, base, *index.text());
  const auto integer = AsInteger(index);
  if (integer && base.list() != nullptr) {
    if (const auto at = PlaceOf(*integer, base.list()->size())) return (*base.list())[*at];
  } else if (integer && base.text() != nullptr) {
    const std::string& text = *base.text();
    if (!context.Step(1 + static_cast<int64_t>(text.size() / 1024))) return Value();
    if (const auto at = PlaceOf(*integer, static_cast<size_t>(CountPoints(text)))) {
      const size_t begin = OffsetOf(text, static_cast<int64_t>(*at));
      return Value(text.substr(begin, StepUtf8(std::string_view(text).substr(begin)).length));
    }
  }
  return Value::MakeUndefined(absl::StrCat(ObjectOf(base), " has no such element"));
}

Value Slice(Context& context, const Value& base, const Value* start, const Value* stop,
            const Value* step) {
  if (!context.CheckDefined(base)) return Value();
  if (base.text() == nullptr && base.list() == nullptr) {
    return Value::MakeUndefined(absl::StrCat(ObjectOf(base), " can't be sliced"));
  }
  const auto number = [&](const Value* value) -> std::optional<int64_t> {
    if (value == nullptr || value->is_none()) return std::nullopt;
    const auto integer = AsInteger(*value);
    if (!integer) context.Fail("slice indices must be integers");
    return integer;
  };
  const int64_t by = number(step).value_or(1);
  if (by == 0) return context.Fail("a slice's step is 0");
  const int64_t count = base.list() != nullptr ? static_cast<int64_t>(base.list()->size())
                                               : CountPoints(*base.text());
  // As Python's slice.indices().
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? count : count - 1;
  const auto clamp = [&](std::optional<int64_t> value, int64_t preset) {
    if (!value) return preset;
    return std::clamp(*value < 0 ? *value + count : *value, low, high);
  };
  const int64_t first = clamp(number(start), by > 0 ? low : high);
  const int64_t last = clamp(number(stop), by > 0 ? high : low);
  std::vector<int64_t> places;
  if (!context.Bytes(static_cast<size_t>(count))) return Value();
  for (int64_t i = first; by > 0 ? i < last : i > last;) {
    places.push_back(i);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (base.text() != nullptr && by == 1) {
    const size_t begin = OffsetOf(*base.text(), first);
    const size_t end = last > first ? OffsetOf(*base.text(), last) : begin;
    return Value(base.text()->substr(begin, end - begin));
  }
  const List elements = Elements(context, base);
  List taken;
  std::string text;
  for (const int64_t place : places) {
    const Value& element = elements[static_cast<size_t>(place)];
    if (base.text() != nullptr) {
      text += *element.text();
    } else {
      taken.push_back(element);
    }
  }
  if (base.text() != nullptr) return Value(std::move(text));
  return Value::MakeSequence(std::move(taken), base.sequence()->kind);
}

List Elements(Context& context, const Value& value) {
  if (value.undefined() != nullptr) return List();
  if (value.sequence() != nullptr) {
    const List& list = *value.sequence()->list;
    return context.Bytes(list.size() * sizeof(Value)) ? list : List();
  }
  List list;
  if (value.map() != nullptr) {
    if (!context.Bytes(value.map()->entries.size() * sizeof(Value))) return list;
    for (const auto& [key, unused] : value.map()->entries) list.push_back(key);
  } else if (value.text() != nullptr) {
    const std::string_view text = *value.text();
    if (!context.Bytes(text.size() * sizeof(Value))) return list;
    for (size_t at = 0; at < text.size();) {
      const size_t length = StepUtf8(text.substr(at)).length;
      list.emplace_back(std::string(text.substr(at, length)));
      at += length;
    }
  } else {
    context.Fail(absl::StrCat(ObjectOf(value), " is not iterable"));
  }
  return list;
}

int64_t Length(Context& context, const Value& value) {
  if (value.undefined() != nullptr) return 0;
  if (value.text() != nullptr) {
    context.Step(1 + static_cast<int64_t>(value.text()->size() / 1024));
    return CountPoints(*value.text());
  }
  if (value.sequence() != nullptr && value.sequence()->kind != Value::Sequence::kGenerator) {
    return static_cast<int64_t>(value.sequence()->list->size());
  }
  if (value.map() != nullptr) return static_cast<int64_t>(value.map()->entries.size());
  context.Fail(absl::StrCat(ObjectOf(value), " has no length"));
  return -1;
}

}  // namespace isobit::jinja
