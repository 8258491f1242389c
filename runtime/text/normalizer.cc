#include "runtime/text/normalizer.h"

#include <functional>
#include <utility>

#include <utf8proc.h>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/nfc.h"
#include "runtime/text/split_pattern.h"
#include "runtime/text/utf8.h"

namespace isobit {

struct Normalizer::Step {
  std::function<absl::StatusOr<std::string>(std::string_view text, bool at_start)> apply;
};

namespace {

std::string Replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(what, at)) != text.npos; at = found + what.size()) {
    out.append(text, at, found - at).append(with);
  }
  return out.append(text, at, text.npos);
}

absl::StatusOr<std::string> ReplacedByPattern(std::string_view text, const SplitPattern& pattern,
                                              std::string_view with) {
  const std::vector<ClassedChar> chars = Classify(text);
  std::string out;
  SplitPattern::Budget budget{1000 * (static_cast<int64_t>(chars.size()) + 64)};
  for (size_t at = 0; at < chars.size();) {
    const auto match = pattern.MatchAt(chars, at, &budget);
    if (budget.steps < 0) {
      return absl::ResourceExhaustedError("a normalizer's pattern takes too many steps");
    }
    if (match && *match > at) {
      out.append(with);
      at = *match;
    } else {
      AppendUtf8(chars[at++].point, &out);
    }
  }
  return out;
}

std::string Lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    at += step.length;
    if (step.point == 0x130) {  // the one letter whose lower case is two characters
      out += "i\xCC\x87";
    } else {
      AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(step.point))),
                 &out);
    }
  }
  return out;
}

bool IsWhite(char32_t point) { return IsIn(ClassOf(point), kSpaces); }

std::string Stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && IsWhite(StepUtf8(text).point)) {
    text.remove_prefix(StepUtf8(text).length);
  }
  while (right && !text.empty()) {
    const size_t begin = LastUtf8(text);
    if (!IsWhite(StepUtf8(text.substr(begin)).point)) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

std::string Collapsed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

void Normalizer::Add(std::string_view name, Step step) {
  absl::StrAppend(&description_, description_.empty() ? "" : ",", Absl(name));
  steps_.push_back(std::make_shared<const Step>(std::move(step)));
}

void Normalizer::AddNfc() {
  Add("NFC", {[](std::string_view text, bool) { return ToNfc(text); }});
}
void Normalizer::AddNfd() {
  Add("NFD", {[](std::string_view text, bool) { return ToNfd(text); }});
}
void Normalizer::AddNfkc() {
  Add("NFKC", {[](std::string_view text, bool) { return ToNfkc(text); }});
}
void Normalizer::AddNfkd() {
  Add("NFKD", {[](std::string_view text, bool) { return ToNfkd(text); }});
}
void Normalizer::AddLowercase() {
  Add("Lowercase", {[](std::string_view text, bool) { return Lowercase(text); }});
}

void Normalizer::AddStrip(bool left, bool right) {
  Add(absl::StrCat("Strip(", left, right, ")"),
      {[=](std::string_view text, bool) { return Stripped(text, left, right); }});
}

void Normalizer::AddPrepend(std::string_view prefix) {
  Add(absl::StrCat("Prepend(", Absl(prefix), ")"),
      {[prefix = std::string(prefix)](std::string_view text, bool) {
        return text.empty() ? std::string() : absl::StrCat(prefix, Absl(text));
      }});
}

void Normalizer::AddDummyPrefix(std::string_view prefix, bool first_only) {
  Add(absl::StrCat("DummyPrefix(", Absl(prefix), first_only ? ",first)" : ")"),
      {[prefix = std::string(prefix), first_only](std::string_view text, bool at_start) {
        const bool has = text.substr(0, prefix.size()) == prefix;
        if (text.empty() || has || (first_only && !at_start)) return std::string(text);
        return absl::StrCat(prefix, Absl(text));
      }});
}

void Normalizer::AddReplace(std::string_view what, std::string_view with) {
  Add(absl::StrCat("Replace(", Absl(what), ",", Absl(with), ")"),
      {[what = std::string(what), with = std::string(with)](std::string_view text, bool) {
        return Replaced(text, what, with);
      }});
}

absl::Status Normalizer::AddReplacePattern(std::string_view pattern, std::string_view with) {
  absl::StatusOr<SplitPattern> parsed = SplitPattern::Parse(pattern);
  if (!parsed.ok()) return parsed.status();
  Add(absl::StrCat("Replace(/", Absl(pattern), "/,", Absl(with), ")"),
      {[parsed = *std::move(parsed), with = std::string(with)](std::string_view text, bool) {
        return ReplacedByPattern(text, parsed, with);
      }});
  return absl::OkStatus();
}

void Normalizer::AddCollapseSpaces() {
  Add("CollapseSpaces", {[](std::string_view text, bool) { return Collapsed(text); }});
}

absl::StatusOr<std::string> Normalizer::Apply(std::string_view text, bool at_start) const {
  std::string current(text);
  for (const auto& step : steps_) {
    absl::StatusOr<std::string> next = step->apply(current, at_start);
    if (!next.ok()) return next.status();
    current = *std::move(next);
  }
  return current;
}

}  // namespace isobit
