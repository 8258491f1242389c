#include "runtime/text/jinja/functions.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"

namespace isobit::jinja {
namespace {

constexpr std::string_view kFunctions[] = {
    "raise_exception", "strftime_now", "range", "namespace", "dict", "lipsum", "cycler", "joiner"};
constexpr int64_t kMaxRange = 100'000;  // that of Jinja's sandbox

Value RaiseException(Context& context, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"message"});
  const std::string message = args[0] == nullptr ? "" : Str(context, *args[0]);
  return context.FailWith(absl::InvalidArgumentError(absl::StrCat("chat template: ", message)));
}

Value StrftimeNow(Context& context, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"format"}, 1);
  if (!context.ok()) return Value();
  const std::string format = Str(context, *args[0]);
  if (format.size() > 256) return context.Fail("strftime_now: the format is longer than 256 bytes");
  if (format.empty()) return Value("");
  char buffer[4096];
  const size_t length = std::strftime(buffer, sizeof buffer, format.c_str(), &context.now());
  if (length == 0) return context.Fail("strftime_now: the format gives nothing");
  return Value(std::string(buffer, length));
}

Value Range(Context& context, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"start", "stop", "step"}, 1);
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    if (args[i] == nullptr) continue;
    if (args[i]->integer() == nullptr) return context.Fail("range needs integers");
    numbers[i] = *args[i]->integer();
  }
  if (args[1] == nullptr) std::swap(numbers[0], numbers[1]);
  const auto [start, stop, step] = numbers;
  if (step == 0) return context.Fail("range's step is 0");
  List list;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(list.size()) >= kMaxRange) {
      return context.Fail(absl::StrCat("a range is longer than ", kMaxRange));
    }
    list.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (!context.Bytes(list.size() * sizeof(Value))) return Value();
  return Value::MakeSequence(std::move(list), Value::Sequence::kRange);
}

// dict(mapping, a=1) and namespace(mapping, a=1).
Map Entries(Context& context, const Arguments& arguments) {
  Map map;
  if (arguments.positional.size() > 1) context.Fail("too many arguments");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (given.map() != nullptr) {
      map = *given.map();
    } else {
      context.FailUnsupported(absl::StrCat("dict(", Absl(given.TypeName()), ")"));
    }
  }
  for (const auto& [name, value] : arguments.keywords) map.Set(Value(name), value);
  context.Bytes(map.entries.size() * sizeof(Value));
  return map;
}

Value Namespace(Context& context, const Arguments& arguments) {
  Map map = Entries(context, arguments);
  for (const auto& [name, value] : map.entries) {
    if (value.name_space() != nullptr) return context.FailUnsupported("a namespace in a namespace");
  }
  return Value::MakeNamespace(std::move(map));
}

}  // namespace

bool IsFunction(std::string_view name) {
  return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions);
}

Value CallFunction(Context& context, std::string_view name, const Arguments& arguments) {
  if (!context.Step()) return Value();
  if (name == "raise_exception") return RaiseException(context, arguments);
  if (name == "strftime_now") return StrftimeNow(context, arguments);
  if (name == "range") return Range(context, arguments);
  if (name == "namespace") return Namespace(context, arguments);
  if (name == "dict") return context.Nested(Value(Entries(context, arguments)));
  return context.FailUnsupported(absl::StrCat(Absl(name), "()"));
}

}  // namespace isobit::jinja
