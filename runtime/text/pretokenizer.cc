#include "runtime/text/pretokenizer.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/pretokenizer_names.h"
#include "runtime/text/pretokenizer_rules.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

namespace rules = pretokenizer_internal;

// What a step may cost for each character of the text; published patterns cost about ten.
constexpr int64_t kStepsPerChar = 1000;

using Piece = std::pair<size_t, size_t>;  // begin and end, in characters

// A part of a piece that a step found, and whether it matched.
struct Part {
  Piece piece;
  bool matched;
};

using Behavior = PreTokenizer::Behavior;

// Appends the pieces that a behaviour makes of parts, which are consecutive.
void Arrange(std::span<const Part> parts, Behavior behavior, std::vector<Piece>* out) {
  const size_t first = out->size();
  if (behavior == Behavior::kMergedWithNext) {
    bool previous = false;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->matched && !previous && out->size() > first) {
        out->back().first = part->piece.first;
      } else {
        out->push_back(part->piece);
      }
      previous = part->matched;
    }
    std::reverse(out->begin() + static_cast<long>(first), out->end());
    return;
  }
  bool previous = false;
  for (const Part& part : parts) {
    if (behavior == Behavior::kRemoved && part.matched) continue;
    const bool joins = (behavior == Behavior::kMergedWithPrevious && part.matched && !previous) ||
                       (behavior == Behavior::kContiguous && part.matched == previous);
    if (joins && out->size() > first) {
      out->back().second = part.piece.second;
    } else {
      out->push_back(part.piece);
    }
    previous = part.matched;
  }
}

// Rewrites characters and pieces so that each byte of the text is a character.
void ToBytes(std::string_view text, std::vector<ClassedChar>* chars, std::vector<Piece>* pieces) {
  std::vector<size_t> offsets;  // in bytes, of each character and of the end
  offsets.reserve(chars->size() + 1);
  size_t at = 0;
  for (const ClassedChar& c : *chars) {
    offsets.push_back(at);
    at += Utf8Length(c.point);
  }
  offsets.push_back(at);
  for (auto& [begin, end] : *pieces) begin = offsets[begin], end = offsets[end];
  chars->clear();
  for (const char c : text) {
    const char32_t point = ByteAlphabetChar(static_cast<unsigned char>(c));
    chars->push_back({point, ClassOf(point)});
  }
}

}  // namespace

struct PreTokenizer::Step {
  std::string source;  // the expression or the literal, for names; "" for the byte-level step
  std::optional<SplitPattern> pattern;
  rules::Rule rule = nullptr;
  Behavior behavior = Behavior::kIsolated;
  bool inverted = false;

  bool is_byte_level() const { return !pattern.has_value(); }
  absl::Status Split(std::span<const ClassedChar> chars, SplitPattern::Budget* budget,
                     const Piece& piece, std::vector<Part>* parts, std::vector<Piece>* out) const;
};

absl::Status PreTokenizer::Step::Split(std::span<const ClassedChar> chars,
                                       SplitPattern::Budget* budget, const Piece& piece,
                                       std::vector<Part>* parts, std::vector<Piece>* out) const {
  const auto [begin, end] = piece;
  if (rule != nullptr && behavior == Behavior::kIsolated) {
    for (size_t at = begin; at < end;) {
      const size_t length = rule(chars.subspan(at, end - at));
      out->emplace_back(at, at + length);
      at += length;
    }
    return absl::OkStatus();
  }
  parts->clear();
  // A match sees nothing outside its piece.
  const auto text = chars.subspan(begin, end - begin);
  size_t gap = 0;
  for (size_t at = 0; at < text.size();) {
    const std::optional<size_t> match = pattern->MatchAt(text, at, budget);
    if (budget->steps < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("splitting text by ", Quoted(source),
                                                       " takes more than ", kStepsPerChar,
                                                       " steps a character"));
    }
    if (!match.has_value() || *match == at) {
      ++at;
      continue;
    }
    if (gap < at) parts->push_back({{begin + gap, begin + at}, inverted});
    parts->push_back({{begin + at, begin + *match}, !inverted});
    gap = at = *match;
  }
  if (gap < text.size()) parts->push_back({{begin + gap, end}, inverted});
  Arrange(*parts, behavior, out);
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddPattern(std::string_view pattern, Behavior behavior, bool inverted) {
  absl::StatusOr<SplitPattern> parsed = SplitPattern::Parse(pattern);
  if (!parsed.ok()) return parsed.status();
  Step step;
  step.source = std::string(pattern);
  step.pattern = *std::move(parsed);
  step.behavior = behavior;
  step.inverted = inverted;
  step.rule = rules::RuleFor(pattern);
  // Where all of the text matches, to remove what does not match changes nothing.
  if (step.rule != nullptr && behavior == Behavior::kRemoved && inverted) {
    step.behavior = Behavior::kIsolated;
    step.inverted = false;
  }
  steps_.push_back(std::make_shared<const Step>(std::move(step)));
  return absl::OkStatus();
}

void PreTokenizer::AddLiteral(std::string_view text, Behavior behavior, bool inverted) {
  Step step;
  step.source = std::string(text);
  step.pattern = SplitPattern::Literal(text);
  step.behavior = behavior;
  step.inverted = inverted;
  steps_.push_back(std::make_shared<const Step>(std::move(step)));
}

void PreTokenizer::AddByteLevel() { steps_.push_back(std::make_shared<const Step>()); }

absl::StatusOr<PreTokenizer> PreTokenizer::ForName(std::string_view name) {
  std::string known;
  for (const NamedPreTokenizer& entry : NamedPreTokenizers()) {
    if (entry.name != name) {
      absl::StrAppend(&known, known.empty() ? "" : ", ", Absl(entry.name));
      continue;
    }
    PreTokenizer made;
    for (const std::string_view pattern : entry.patterns) {
      if (auto s = made.AddPattern(pattern); !s.ok()) return s;
    }
    made.name_ = std::string(name);
    made.normalizes_ = entry.normalizes;
    made.ignores_merges_ = entry.ignores_merges;
    return made;
  }
  return absl::UnimplementedError(
      absl::StrCat("pre-tokenizer '", Absl(name), "' is not supported (supported: ", known, ")"));
}

std::string PreTokenizer::NameAmong(bool normalizes, bool ignores_merges) const {
  std::span<const std::shared_ptr<const Step>> steps = steps_;
  if (!steps.empty() && steps.back()->is_byte_level()) steps = steps.first(steps.size() - 1);
  const auto plain = [](const Step& step, std::string_view pattern) {
    return step.source == pattern && step.behavior == Behavior::kIsolated && !step.inverted;
  };
  for (const NamedPreTokenizer& entry : NamedPreTokenizers()) {
    if (entry.normalizes != normalizes || entry.ignores_merges != ignores_merges) continue;
    bool same = entry.patterns.size() == steps.size();
    for (size_t i = 0; same && i < steps.size(); ++i) same = plain(*steps[i], entry.patterns[i]);
    if (same) return std::string(entry.name);
  }
  std::string described = absl::StrCat(steps.empty() ? "none" : "steps", normalizes ? ",nfc" : "",
                                       ignores_merges ? ",ignore_merges" : "");
  for (const auto& step : steps) {
    absl::StrAppend(&described, ",", static_cast<int>(step->behavior), step->inverted ? "!" : "",
                    step->source);
  }
  return described;
}

absl::Status PreTokenizer::Split(std::string_view text, std::vector<Piece>* words) const {
  if (text.empty()) return absl::OkStatus();
  std::vector<ClassedChar> chars = Classify(text);
  std::vector<Piece> pieces = {{0, chars.size()}}, finer;
  std::vector<Part> parts;
  bool in_bytes = false;
  for (const auto& step : steps_) {
    if (step->is_byte_level()) {
      if (step == steps_.back()) break;  // nobody looks at the characters any more
      ToBytes(text, &chars, &pieces);
      in_bytes = true;
      continue;
    }
    finer.clear();
    SplitPattern::Budget budget{kStepsPerChar * (static_cast<int64_t>(chars.size()) + 64)};
    for (const Piece& piece : pieces) {
      if (auto s = step->Split(chars, &budget, piece, &parts, &finer); !s.ok()) return s;
    }
    pieces.swap(finer);
  }
  size_t at = 0, byte = 0;
  const auto byte_of = [&](size_t position) {
    for (; at < position; ++at) byte += in_bytes ? 1 : Utf8Length(chars[at].point);
    return byte;
  };
  words->reserve(words->size() + pieces.size());
  for (const auto& [begin, end] : pieces) {
    const size_t first = byte_of(begin);
    words->emplace_back(first, byte_of(end));
  }
  return absl::OkStatus();
}

}  // namespace isobit
