#include "runtime/text/jinja/text_form.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/unicode_classes.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

// The shortest digits that give the number back, in Python's form: 1.0, 1e-05, 1e+16.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string text(buffer, end.ptr);
  const int exponent = std::atoi(text.c_str() + text.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == plain.npos) plain += ".0";
  return plain;
}

bool IsPrintable(char32_t point) {
  constexpr CharClasses kHidden =
      kSpaces | In(CharClass::kCc) | In(CharClass::kCf) | In(CharClass::kOther);
  return point == ' ' || !IsIn(ClassOf(point), kHidden);
}

void AppendEscaped(char32_t point, std::string* out) {
  if (point < 0x100) {
    absl::StrAppendFormat(out, "\\x%02x", static_cast<unsigned>(point));
  } else if (point < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(point));
  } else {
    absl::StrAppendFormat(out, "\\U%08x", static_cast<unsigned>(point));
  }
}

std::string StringRepr(std::string_view text) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    const char32_t c = step.point;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (!IsPrintable(c)) {
      AppendEscaped(c, &out);
    } else {
      out.append(text, at, step.length);
    }
    at += step.length;
  }
  return out + quote;
}

std::string Joined(Context& context, const List& list) {
  std::string out;
  for (const Value& element : list) {
    if (!context.Step()) return out;
    absl::StrAppend(&out, out.empty() ? "" : ", ", Repr(context, element));
  }
  return out;
}

std::string SequenceRepr(Context& context, const Value::Sequence& sequence) {
  using Sequence = Value::Sequence;
  const std::string inside =
      sequence.kind == Sequence::kRange || sequence.kind == Sequence::kGenerator
          ? std::string()
          : Joined(context, *sequence.list);
  switch (sequence.kind) {
    case Sequence::kList:
      return absl::StrCat("[", inside, "]");
    case Sequence::kTuple:
      return absl::StrCat("(", inside, sequence.list->size() == 1 ? ",)" : ")");
    case Sequence::kItems:
      return absl::StrCat("dict_items([", inside, "])");
    case Sequence::kKeys:
      return absl::StrCat("dict_keys([", inside, "])");
    case Sequence::kValues:
      return absl::StrCat("dict_values([", inside, "])");
    case Sequence::kRange:
    case Sequence::kGenerator:
      break;
  }
  context.FailUnsupported("printing a range or generator");
  return "";
}

std::string MapRepr(Context& context, const Map& map) {
  std::string out = "{";
  for (const auto& [key, value] : map.entries) {
    if (!context.Step()) break;
    absl::StrAppend(&out, out.size() == 1 ? "" : ", ", Repr(context, key), ": ",
                    Repr(context, value));
  }
  return out + "}";
}

void AppendUnit(unsigned unit, std::string* out) { absl::StrAppendFormat(out, "\\u%04x", unit); }

std::string JsonString(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    const char32_t c = step.point;
    constexpr std::string_view kLetters = "btnvfr";  // of U+0008 to U+000D
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c >= 8 && c <= 13 && c != 11) {
      out += '\\';
      out += kLetters[c - 8];
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
      AppendUnit(static_cast<unsigned>(c), &out);
    } else if (ensure_ascii && c >= 0x10000) {
      AppendUnit(static_cast<unsigned>(0xD800 + ((c - 0x10000) >> 10)), &out);
      AppendUnit(static_cast<unsigned>(0xDC00 + ((c - 0x10000) & 0x3FF)), &out);
    } else {
      out.append(text, at, step.length);
    }
    at += step.length;
  }
  return out + "\"";
}

class JsonWriter {
 public:
  JsonWriter(Context& context, const JsonStyle& style) : context_(context), style_(style) {
    items_ = !style.item_separator.empty() ? style.item_separator : style.indent >= 0 ? "," : ", ";
    keys_ = style.key_separator.empty() ? ": " : style.key_separator;
  }

  std::string Take() { return std::move(out_); }

  void Write(const Value& value, int level) {
    if (!context_.Step()) return;
    const Value::Sequence* sequence = value.sequence();
    if (value.text() != nullptr) {
      if (!context_.Bytes(value.text()->size())) return;
      out_ += JsonString(*value.text(), style_.ensure_ascii);
    } else if (value.is_none()) {
      out_ += "null";
    } else if (value.boolean() != nullptr) {
      out_ += *value.boolean() ? "true" : "false";
    } else if (value.integer() != nullptr) {
      absl::StrAppend(&out_, *value.integer());
    } else if (value.real() != nullptr) {
      out_ += Number(*value.real());
    } else if (sequence != nullptr && sequence->kind <= Value::Sequence::kTuple) {
      WriteList(*sequence->list, level);
    } else if (value.map() != nullptr) {
      WriteMap(*value.map(), level);
    } else {
      context_.Fail(
          absl::StrCat("Object of type ", Absl(value.TypeName()), " is not JSON serializable"));
    }
  }

 private:
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatText(value);
  }

  void NewLine(int level) {
    if (style_.indent < 0) return;
    const size_t blanks = static_cast<size_t>(style_.indent) * static_cast<size_t>(level);
    if (!context_.Bytes(blanks + 1)) return;
    out_ += '\n';
    out_.append(blanks, ' ');
  }

  void WriteList(const List& list, int level) {
    if (list.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < list.size() && context_.ok(); ++i) {
      if (i > 0) out_ += items_;
      NewLine(level + 1);
      Write(list[i], level + 1);
    }
    NewLine(level);
    out_ += ']';
  }

  void WriteMap(const Map& map, int level) {
    if (map.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<std::pair<std::string, const Value*>> entries;  // keys as text
    for (const auto& [key, value] : map.entries) entries.emplace_back(Str(context_, key), &value);
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size() && context_.ok(); ++i) {
      if (i > 0) out_ += items_;
      NewLine(level + 1);
      if (!context_.Bytes(entries[i].first.size())) return;
      absl::StrAppend(&out_, JsonString(entries[i].first, style_.ensure_ascii), keys_);
      Write(*entries[i].second, level + 1);
    }
    NewLine(level);
    out_ += '}';
  }

  Context& context_;
  const JsonStyle& style_;
  std::string items_, keys_;
  std::string out_;
};

}  // namespace

std::string Str(Context& context, const Value& value) {
  if (value.text() != nullptr) {
    return context.Bytes(value.text()->size()) ? *value.text() : std::string();
  }
  return Repr(context, value);
}

std::string Repr(Context& context, const Value& value) {
  std::string out;
  if (value.text() != nullptr) {
    if (context.Bytes(value.text()->size())) out = StringRepr(*value.text());
  } else if (value.undefined() != nullptr) {
    return "";
  } else if (value.is_none()) {
    return "None";
  } else if (value.boolean() != nullptr) {
    return *value.boolean() ? "True" : "False";
  } else if (value.integer() != nullptr) {
    return absl::StrCat(*value.integer());
  } else if (value.real() != nullptr) {
    return FloatText(*value.real());
  } else if (value.sequence() != nullptr) {
    out = SequenceRepr(context, *value.sequence());
  } else if (value.map() != nullptr) {
    out = MapRepr(context, *value.map());
  } else {
    context.FailUnsupported(absl::StrCat("printing a ", Absl(value.TypeName())));
  }
  context.Bytes(out.size());
  return out;
}

std::string ToJson(Context& context, const Value& value, const JsonStyle& style) {
  JsonWriter writer(context, style);
  writer.Write(value, 0);
  std::string out = writer.Take();
  context.Bytes(out.size());
  return out;
}

}  // namespace isobit::jinja
