// The filters of the language: value | name. Those that look into lists are in list_filters.cc.
#include "runtime/text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/jinja/list_filters.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"
#include "runtime/text/jinja/text_functions.h"

namespace isobit::jinja {
namespace {

Value Charged(Context& context, std::string text) {
  context.Bytes(text.size());
  return Value(std::move(text));
}

Value Trim(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"chars"});
  const std::string text = Str(context, value);
  const std::string* chars = args[0] == nullptr ? nullptr : args[0]->text();
  std::string stripped(Strip(text, chars, true, true));
  return value.is_safe() ? Value::MakeSafe(std::move(stripped))
                         : Charged(context, std::move(stripped));
}

Value Default(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"default_value", "boolean"});
  const bool false_too = args[1] != nullptr && args[1]->IsTrue();
  if (value.undefined() == nullptr && !(false_too && !value.IsTrue())) return value;
  return args[0] == nullptr ? Value("") : *args[0];
}

Value ReplaceFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"old", "new", "count"}, 2);
  if (!context.ok()) return Value();
  const std::string text = Str(context, value);
  const std::string from = Str(context, *args[0]), to = Str(context, *args[1]);
  int64_t most = -1;
  if (args[2] != nullptr && args[2]->integer() != nullptr) most = *args[2]->integer();
  const size_t times = text.size() / std::max<size_t>(from.size(), 1) + 1;
  size_t grown = 0;
  if (__builtin_mul_overflow(times, to.size(), &grown)) grown = INT64_MAX / 2;
  if (grown > 1'000'000 && !context.Bytes(grown)) return Value();
  return Charged(context, Replace(text, from, to, most));
}

Value Indent(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"width", "first", "blank"});
  const std::string text = Str(context, value);
  std::string indention = "    ";
  if (args[0] != nullptr && args[0]->text() != nullptr) indention = *args[0]->text();
  if (args[0] != nullptr && args[0]->integer() != nullptr) {
    const int64_t width = std::max<int64_t>(*args[0]->integer(), 0);
    if (!context.Bytes(static_cast<size_t>(width))) return Value();
    indention.assign(static_cast<size_t>(width), ' ');
  }
  const bool blank = args[2] != nullptr && args[2]->IsTrue();
  std::string out = args[1] != nullptr && args[1]->IsTrue() ? indention : "";
  bool first = true;
  for (const std::string& line : SplitLines(text + "\n", false)) {
    if (!context.Bytes(line.size() + indention.size())) return Value();
    if (!std::exchange(first, false)) {
      out += '\n';
      if (blank || !line.empty()) out += indention;
    }
    out += line;
  }
  return Value(std::move(out));
}

Value JsonFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = args[0] != nullptr && args[0]->IsTrue();
  style.sort_keys = args[3] != nullptr && args[3]->IsTrue();
  if (args[1] != nullptr && args[1]->integer() != nullptr) {
    style.indent = static_cast<int>(std::clamp<int64_t>(*args[1]->integer(), 0, 1000));
  } else if (args[1] != nullptr && !args[1]->is_none()) {
    return context.FailUnsupported("tojson(indent=text)");
  }
  if (args[2] != nullptr && !args[2]->is_none()) {
    const List* pair = args[2]->list();
    if (pair == nullptr || pair->size() != 2 || (*pair)[0].text() == nullptr ||
        (*pair)[1].text() == nullptr) {
      return context.Fail("tojson's separators are not two str");
    }
    style.item_separator = *(*pair)[0].text();
    style.key_separator = *(*pair)[1].text();
  }
  return Value(ToJson(context, value, style));
}

Value AbsFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Less(context, value, Value(int64_t{0})) ? Negate(context, value) : value;
}

// The number that a text is, all of it but white space around.
template <typename Number>
bool ParseNumber(std::string_view text, Number* number) {
  text = Strip(text, nullptr, true, true);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && !text.empty();
}

Value IntFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"default", "base"});
  if (args[1] != nullptr) return context.FailUnsupported("int(base=...)");
  const Value preset = args[0] == nullptr ? Value(int64_t{0}) : *args[0];
  if (value.integer() != nullptr) return value;
  if (value.boolean() != nullptr) return Value(int64_t{*value.boolean() ? 1 : 0});
  double real = 0;
  int64_t integer = 0;
  if (value.text() != nullptr) {
    if (ParseNumber(*value.text(), &integer)) return Value(integer);
    if (!ParseNumber(*value.text(), &real)) return preset;
  } else if (value.real() != nullptr) {
    real = *value.real();
  } else {
    return preset;
  }
  if (!(std::abs(real) < 9.2e18)) return preset;
  return Value(static_cast<int64_t>(real));
}

Value FloatFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"default"});
  if (value.real() != nullptr) return value;
  if (value.integer() != nullptr) return Value(static_cast<double>(*value.integer()));
  if (value.boolean() != nullptr) return Value(*value.boolean() ? 1.0 : 0.0);
  double real = 0;
  if (value.text() != nullptr && ParseNumber(*value.text(), &real)) return Value(real);
  return args[0] == nullptr ? Value(0.0) : *args[0];
}

Value RoundFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"precision", "method"});
  const int64_t precision =
      args[0] != nullptr && args[0]->integer() != nullptr ? *args[0]->integer() : 0;
  if (args[1] != nullptr) return context.FailUnsupported("round(method=...)");
  if (value.integer() != nullptr && precision >= 0) return value;
  if (value.real() == nullptr || precision < 0 || precision > 15) {
    return context.FailUnsupported(absl::StrCat("round of ", Absl(value.TypeName())));
  }
  // printf rounds the exact value to the nearest, ties to even, as Python does.
  const std::string digits = absl::StrFormat("%.*f", static_cast<int>(precision), *value.real());
  return Value(std::strtod(digits.c_str(), nullptr));
}

Value Escape(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  if (value.is_safe()) return value;
  std::string text = EscapeHtml(Str(context, value));
  context.Bytes(text.size());
  return Value::MakeSafe(std::move(text));
}

Value SafeFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Value::MakeSafe(Str(context, value));
}

Value StringFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return value.text() != nullptr ? value : Value(Str(context, value));
}

template <std::string (*kChange)(std::string_view)>
Value CaseFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Charged(context, kChange(Str(context, value)));
}

Value TitleFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Charged(context, ToTitle(Str(context, value), /*any_sign=*/false));
}

Value LengthFilter(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Value(Length(context, value));
}

Value WordCount(Context& context, const Value& value, const Arguments& arguments) {
  arguments.Match(context, {});
  return Value(static_cast<int64_t>(SplitWhite(Str(context, value), -1, false).size()));
}

Value AttrFilter(Context& context, const Value& value, const Arguments& arguments) {
  const auto args = arguments.Match(context, {"name"}, 1);
  if (!context.ok()) return Value();
  // Attributes alone, not entries.
  if (value.map() != nullptr) return Value::MakeUndefined("a dict has no such attribute");
  return Attribute(context, value, Str(context, *args[0]));
}

struct Filter {
  std::string_view name;
  Value (*apply)(Context& context, const Value& value, const Arguments& arguments);
};
constexpr Filter kFilters[] = {
    {"trim", Trim},
    {"default", Default},
    {"d", Default},
    {"replace", ReplaceFilter},
    {"indent", Indent},
    {"tojson", JsonFilter},
    {"abs", AbsFilter},
    {"int", IntFilter},
    {"float", FloatFilter},
    {"round", RoundFilter},
    {"escape", Escape},
    {"e", Escape},
    {"safe", SafeFilter},
    {"string", StringFilter},
    {"lower", CaseFilter<ToLower>},
    {"upper", CaseFilter<ToUpper>},
    {"capitalize", CaseFilter<Capitalize>},
    {"title", TitleFilter},
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"wordcount", WordCount},
    {"attr", AttrFilter},
    {"join", JoinFilter},
    {"list", ListFilter},
    {"items", ItemsFilter},
    {"dictsort", DictSortFilter},
    {"first", FirstFilter},
    {"last", LastFilter},
    {"reverse", ReverseFilter},
    {"sort", SortFilter},
    {"unique", UniqueFilter},
    {"min", MinFilter},
    {"max", MaxFilter},
    {"sum", SumFilter},
    {"map", MapFilter},
    {"select", SelectFilter},
    {"reject", RejectFilter},
    {"selectattr", SelectAttrFilter},
    {"rejectattr", RejectAttrFilter},
};

// Filters of Jinja that this interpreter does not have.
constexpr std::string_view kOthers[] = {
    "batch", "center",    "filesizeformat", "forceescape", "format", "groupby",  "pprint", "random",
    "slice", "striptags", "truncate",       "urlencode",   "urlize", "wordwrap", "xmlattr"};

}  // namespace

Value ApplyFilter(Context& context, std::string_view name, const Value& value,
                  const Arguments& arguments) {
  if (!context.Step()) return Value();
  for (const Filter& filter : kFilters) {
    if (filter.name == name) return filter.apply(context, value, arguments);
  }
  if (std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers)) {
    return context.FailUnsupported(absl::StrCat("|", Absl(name)));
  }
  return context.Fail(absl::StrCat("no filter named '", Absl(name), "'"));
}

}  // namespace isobit::jinja
