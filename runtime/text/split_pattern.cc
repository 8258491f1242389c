#include "runtime/text/split_pattern.h"

#include <algorithm>

#include "runtime/text/utf8.h"

namespace isobit {

std::vector<ClassedChar> Classify(std::string_view text) {
  std::vector<ClassedChar> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    chars.push_back({step.point, ClassOf(step.point)});
    at += step.length;
  }
  return chars;
}

bool SplitPattern::Set::Has(const ClassedChar& c) const {
  if (c.point < 128) return ascii[c.point];
  bool found = IsIn(c.kind, classes);
  for (size_t i = 0; !found && i < ranges.size(); ++i) {
    found = ranges[i].first <= c.point && c.point <= ranges[i].second;
  }
  return found != negated;
}

struct SplitPattern::Search {
  const SplitPattern& pattern;
  std::span<const ClassedChar> text;
  Budget* budget;

  std::optional<size_t> From(uint32_t at_node, size_t at) const;
  std::optional<size_t> Repeat(const Node& node, size_t at) const;
};

// A run of one set, as long as it may be, then shorter until what follows matches.
std::optional<size_t> SplitPattern::Search::Repeat(const Node& node, size_t at) const {
  const Set& set = pattern.sets_[node.set];
  const size_t most = std::min<size_t>(node.max, text.size() - at);
  size_t count = 0;
  while (count < most && set.Has(text[at + count])) ++count;
  budget->steps -= static_cast<int64_t>(count) + 1;
  if (count < node.min || budget->steps < 0) return std::nullopt;
  const size_t least = node.possessive ? count : node.min;
  for (;; --count) {
    if (const auto end = From(node.next, at + count)) return end;
    if (count == least || budget->steps < 0) return std::nullopt;
  }
}

std::optional<size_t> SplitPattern::Search::From(uint32_t at_node, size_t at) const {
  while (true) {
    const Node& node = pattern.nodes_[at_node];
    if (--budget->steps < 0) return std::nullopt;
    switch (node.kind) {
      case Node::kMatch:
        return at;
      case Node::kSet:
        if (node.min != 1 || node.max != 1) return Repeat(node, at);
        if (at == text.size() || !pattern.sets_[node.set].Has(text[at])) return std::nullopt;
        ++at;
        break;
      case Node::kBranch:
        for (const uint32_t branch : node.branches) {
          if (const auto end = From(branch, at)) return end;
        }
        return std::nullopt;
      case Node::kLookAhead:
        if (From(node.branches[0], at).has_value() == node.negated) return std::nullopt;
        break;
      case Node::kLineEnd:
        if (at < text.size() && text[at].point != '\n') return std::nullopt;
        break;
    }
    at_node = node.next;
  }
}

std::optional<size_t> SplitPattern::MatchAt(std::span<const ClassedChar> text, size_t at,
                                            Budget* budget) const {
  return Search{*this, text, budget}.From(start_, at);
}

}  // namespace isobit
