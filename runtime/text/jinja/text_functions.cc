#include "runtime/text/jinja/text_functions.h"

#include <algorithm>

#include <utf8proc.h>

#include "runtime/text/jinja/lexer.h"
#include "runtime/text/unicode_classes.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

enum class Case { kLower, kUpper, kTitle };

// Case mappings of one character to one, and the two common ones that make two.
void AppendCased(char32_t point, Case wanted, std::string* out) {
  const auto c = static_cast<utf8proc_int32_t>(point);
  if (wanted == Case::kLower) {
    AppendUtf8(point == 0x130 ? U'i' : static_cast<char32_t>(utf8proc_tolower(c)), out);
    if (point == 0x130) AppendUtf8(0x307, out);
  } else if (point == 0xDF) {
    *out += wanted == Case::kUpper ? "SS" : "Ss";
  } else {
    AppendUtf8(
        static_cast<char32_t>(wanted == Case::kUpper ? utf8proc_toupper(c) : utf8proc_totitle(c)),
        out);
  }
}

// Calls `take` with each character.
template <typename Take>
void ForEachPoint(std::string_view text, Take take) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    take(step.point);
    at += step.length;
  }
}

std::string Cased(std::string_view text, Case wanted) {
  std::string out;
  out.reserve(text.size());
  ForEachPoint(text, [&](char32_t point) { AppendCased(point, wanted, &out); });
  return out;
}

bool Holds(std::string_view chars, std::string_view character) {
  // A character's bytes are found only where it stands.
  return chars.find(character) != chars.npos;
}

}  // namespace

std::string ToLower(std::string_view text) { return Cased(text, Case::kLower); }
std::string ToUpper(std::string_view text) { return Cased(text, Case::kUpper); }

std::string Capitalize(std::string_view text) {
  std::string out;
  ForEachPoint(text, [&](char32_t point) {
    AppendCased(point, out.empty() ? Case::kTitle : Case::kLower, &out);
  });
  return out;
}

std::string ToTitle(std::string_view text, bool any_sign) {
  std::string out;
  bool begins = true;
  ForEachPoint(text, [&](char32_t point) {
    constexpr std::u32string_view kBrackets = U"-({[<";
    constexpr CharClasses kCased = kLetters & ~In(CharClass::kLo);
    AppendCased(point, begins ? Case::kTitle : Case::kLower, &out);
    begins = any_sign ? !IsIn(ClassOf(point), kCased)
                      : IsPythonSpace(point) || kBrackets.find(point) != kBrackets.npos;
  });
  return out;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view Strip(std::string_view text, const std::string* chars, bool left, bool right) {
  const auto goes = [chars](std::string_view character) {
    return chars == nullptr ? IsPythonSpace(StepUtf8(character).point) : Holds(*chars, character);
  };
  while (left && !text.empty()) {
    const size_t length = StepUtf8(text).length;
    if (!goes(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    const size_t begin = LastUtf8(text);
    if (!goes(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::vector<std::string> SplitWhite(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string> parts;
  if (from_right) {
    text = Strip(text, nullptr, false, true);
    while (!text.empty()) {
      size_t begin = text.size();
      while (begin > 0) {
        const size_t last = LastUtf8(text.substr(0, begin));
        if (IsPythonSpace(StepUtf8(text.substr(last)).point)) break;
        begin = last;
      }
      if (most == 0) begin = 0;
      --most;
      parts.emplace_back(text.substr(begin));
      text = Strip(text.substr(0, begin), nullptr, false, true);
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  text = Strip(text, nullptr, true, false);
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size() && !IsPythonSpace(StepUtf8(text.substr(end)).point)) {
      end += StepUtf8(text.substr(end)).length;
    }
    if (most == 0) end = Strip(text, nullptr, false, true).size();
    if (most == 0) end = text.size();
    --most;
    parts.emplace_back(text.substr(0, end));
    text = Strip(text.substr(end), nullptr, true, false);
  }
  return parts;
}

std::vector<std::string> SplitAt(std::string_view text, std::string_view separator, int64_t most,
                                 bool from_right) {
  std::vector<std::string> parts;
  if (from_right) {
    for (size_t found; most != 0 && (found = text.rfind(separator)) != text.npos; --most) {
      parts.emplace_back(text.substr(found + separator.size()));
      text = text.substr(0, found);
    }
    parts.emplace_back(text);
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  for (size_t found; most != 0 && (found = text.find(separator)) != text.npos; --most) {
    parts.emplace_back(text.substr(0, found));
    text = text.substr(found + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  constexpr std::u32string_view kBreaks = U"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029";
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    size_t end = at + step.length;
    if (kBreaks.find(step.point) == kBreaks.npos) {
      at = end;
      continue;
    }
    if (step.point == '\r' && end < text.size() && text[end] == '\n') ++end;
    lines.emplace_back(text.substr(begin, (keep_ends ? end : at) - begin));
    begin = at = end;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t most) {
  std::string out;
  size_t at = 0;
  if (from.empty()) {
    for (; most != 0 && at <= text.size(); --most) {
      out += to;
      if (at == text.size()) return out;
      const size_t length = StepUtf8(text.substr(at)).length;
      out.append(text, at, length);
      at += length;
    }
    return out.append(text, at, text.npos);
  }
  for (size_t found; most != 0 && (found = text.find(from, at)) != text.npos; --most) {
    out.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  return out.append(text, at, text.npos);
}

}  // namespace isobit::jinja
