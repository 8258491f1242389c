#include "runtime/text/jinja/list_filters.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"
#include "runtime/text/jinja/text_functions.h"

namespace isobit::jinja {
namespace {

using Sequence = Value::Sequence;

Value Generated(Context& context, List list) {
  return context.Nested(Value::MakeSequence(std::move(list), Sequence::kGenerator));
}

// element.a.b for the path "a.b"; parts that are numbers are indices.
Value AtPath(Context& context, const Value& element, const Value& path) {
  if (path.text() == nullptr) return Item(context, element, path);
  Value at = element;
  for (const std::string& part : SplitAt(*path.text(), ".", -1, false)) {
    const bool digits =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    at = Item(context, at, digits ? Value(int64_t{std::stoi(part)}) : Value(part));
  }
  return at;
}

// What elements are compared by.
Value KeyOf(Context& context, const Value& element, const Value* path, bool case_sensitive) {
  Value key = path == nullptr || path->is_none() ? element : AtPath(context, element, *path);
  if (!case_sensitive && key.text() != nullptr) return Value(ToLower(*key.text()));
  return key;
}

std::vector<Value> KeysOf(Context& context, const List& list, const Value* path,
                          bool case_sensitive) {
  std::vector<Value> keys;
  keys.reserve(list.size());
  for (const Value& element : list) {
    if (!context.Step()) break;
    keys.push_back(KeyOf(context, element, path, case_sensitive));
  }
  keys.resize(list.size());
  return keys;
}

// The order of elements by their keys, equals as they were. Merge sort by insertion of halves, so
// that an error in a comparison can't break an invariant of the library's sort.
std::vector<size_t> SortedOrder(Context& context, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(keys.size()), merged(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t width = 1; width < order.size() && context.ok(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin, right = middle;
      for (size_t at = begin; at < end; ++at) {
        // The right one goes first only if it has to.
        bool take_right = left == middle;
        if (!take_right && right < end) {
          const Value &a = keys[order[left]], &b = keys[order[right]];
          take_right = context.Step() && (reverse ? Less(context, a, b) : Less(context, b, a));
        }
        merged[at] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

bool IsSet(const Value* value) { return value != nullptr && value->IsTrue(); }

Value Extreme(Context& context, const Value& value, const Arguments& arguments, bool largest) {
  const auto args = arguments.Match(context, {"case_sensitive", "attribute"});
  const List list = Elements(context, value);
  if (list.empty()) return Value::MakeUndefined("no aggregated item, sequence was empty");
  const std::vector<Value> keys = KeysOf(context, list, args[1], IsSet(args[0]));
  size_t best = 0;
  for (size_t i = 1; i < list.size() && context.ok(); ++i) {
    if (largest ? Less(context, keys[best], keys[i]) : Less(context, keys[i], keys[best])) best = i;
  }
  return list[best];
}

// The elements for which a test holds (or does not), of themselves or of an attribute.
Value Selected(Context& context, const Value& value, const Arguments& arguments, bool by_attribute,
               bool wanted) {
  // None and the like have no elements to select from.
  if (!value.IsTrue()) return Generated(context, List());
  Arguments rest = arguments;
  List& given = rest.positional;
  Value path;
  if (by_attribute) {
    if (given.empty()) return context.Fail("an attribute's name is missing");
    path = given[0];
    given.erase(given.begin());
  }
  std::string test;
  if (!given.empty()) {
    if (given[0].text() == nullptr) return context.Fail("a test's name is no str");
    test = *given[0].text();
    given.erase(given.begin());
  }
  List list;
  for (const Value& element : Elements(context, value)) {
    if (!context.Step()) break;
    const Value tested = by_attribute ? AtPath(context, element, path) : element;
    const bool holds = test.empty() ? tested.IsTrue() : ApplyTest(context, test, tested, rest);
    if (holds == wanted) list.push_back(element);
  }
  return Generated(context, std::move(list));
}

}  // namespace

Value JoinFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"d", "attribute"});
  const std::string between = args[0] == nullptr ? "" : Str(context, *args[0]);
  std::string out;
  bool first = true;
  for (const Value& element : Elements(context, value)) {
    if (!context.Bytes(between.size())) return Value();
    if (!std::exchange(first, false)) out += between;
    const bool whole = args[1] == nullptr || args[1]->is_none();
    out += Str(context, whole ? element : AtPath(context, element, *args[1]));
  }
  return Value(std::move(out));
}

Value ListFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Value(Elements(context, value));
}

Value ItemsFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  if (value.undefined() != nullptr) return Generated(context, List());
  if (value.map() == nullptr) return context.Fail("Can only get item pairs from a mapping.");
  if (!context.Bytes(value.map()->entries.size() * sizeof(Value) * 3)) return Value();
  List list;
  for (const auto& [key, entry] : value.map()->entries) {
    list.push_back(Value::MakeSequence({key, entry}, Sequence::kTuple));
  }
  return Generated(context, std::move(list));
}

Value DictSortFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"case_sensitive", "by", "reverse"});
  if (value.map() == nullptr) return context.Fail("dictsort needs a dict");
  const bool by_value =
      args[1] != nullptr && args[1]->text() != nullptr && *args[1]->text() == "value";
  const List items = Elements(context, ItemsFilter(context, value, {}));
  const Value place(int64_t{by_value ? 1 : 0});
  const std::vector<Value> keys = KeysOf(context, items, &place, IsSet(args[0]));
  List sorted;
  for (const size_t i : SortedOrder(context, keys, IsSet(args[2]))) sorted.push_back(items[i]);
  return context.Nested(Value(std::move(sorted)));
}

Value FirstFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  const List list = Elements(context, value);
  if (list.empty()) return Value::MakeUndefined("No first item, sequence was empty.");
  return list.front();
}

Value LastFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  const List list = Elements(context, value);
  if (list.empty()) return Value::MakeUndefined("No last item, sequence was empty.");
  return list.back();
}

Value ReverseFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  List list = Elements(context, value);
  std::reverse(list.begin(), list.end());
  if (value.text() == nullptr) return Generated(context, std::move(list));
  std::string out;
  for (const Value& element : list) out += *element.text();
  return Value(std::move(out));
}

Value SortFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"reverse", "case_sensitive", "attribute"});
  const List list = Elements(context, value);
  const std::vector<Value> keys = KeysOf(context, list, args[2], IsSet(args[1]));
  List sorted;
  for (const size_t i : SortedOrder(context, keys, IsSet(args[0]))) sorted.push_back(list[i]);
  return Value(std::move(sorted));
}

Value UniqueFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"case_sensitive", "attribute"});
  const List list = Elements(context, value);
  const std::vector<Value> keys = KeysOf(context, list, args[1], IsSet(args[0]));
  List kept;
  std::vector<size_t> places;
  for (size_t i = 0; i < list.size() && context.ok(); ++i) {
    bool seen = false;
    for (const size_t place : places) seen = seen || Equal(context, keys[place], keys[i]);
    if (seen) continue;
    places.push_back(i);
    kept.push_back(list[i]);
  }
  return Generated(context, std::move(kept));
}

Value MinFilter(Context& context, const Value& value, const Arguments& arguments) {
  return Extreme(context, value, arguments, false);
}
Value MaxFilter(Context& context, const Value& value, const Arguments& arguments) {
  return Extreme(context, value, arguments, true);
}

Value SumFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"attribute", "start"});
  Value sum = args[1] == nullptr ? Value(int64_t{0}) : *args[1];
  for (const Value& element : Elements(context, value)) {
    if (!context.Step()) break;
    const bool whole = args[0] == nullptr || args[0]->is_none();
    sum = Binary(context, "+", sum, whole ? element : AtPath(context, element, *args[0]));
  }
  return sum;
}

// map('filter', arguments) or map(attribute='name', default=value).
Value MapFilter(Context& context, const Value& value, const Arguments& arguments) {
  if (!value.IsTrue()) return Generated(context, List());
  List list;
  if (arguments.positional.empty()) {
    const auto args = arguments.Match(context, {"attribute", "default"});
    if (args[0] == nullptr) return context.Fail("map needs a filter's name or an attribute");
    for (const Value& element : Elements(context, value)) {
      if (!context.Step()) break;
      Value mapped = AtPath(context, element, *args[0]);
      if (mapped.undefined() != nullptr && args[1] != nullptr) mapped = *args[1];
      list.push_back(std::move(mapped));
    }
    return Generated(context, std::move(list));
  }
  Arguments rest = arguments;
  const Value name = rest.positional[0];
  rest.positional.erase(rest.positional.begin());
  if (name.text() == nullptr) return context.Fail("a filter's name is no str");
  for (const Value& element : Elements(context, value)) {
    if (!context.Step()) break;
    list.push_back(ApplyFilter(context, *name.text(), element, rest));
  }
  return Generated(context, std::move(list));
}

Value SelectFilter(Context& context, const Value& value, const Arguments& arguments) {
  return Selected(context, value, arguments, false, true);
}
Value RejectFilter(Context& context, const Value& value, const Arguments& arguments) {
  return Selected(context, value, arguments, false, false);
}
Value SelectAttrFilter(Context& context, const Value& value, const Arguments& arguments) {
  return Selected(context, value, arguments, true, true);
}
Value RejectAttrFilter(Context& context, const Value& value, const Arguments& arguments) {
  return Selected(context, value, arguments, true, false);
}

}  // namespace isobit::jinja
