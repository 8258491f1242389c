#include "runtime/text/added_tokens.h"

#include <algorithm>

#include "runtime/text/unicode_classes.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

bool WordBefore(std::string_view text, size_t at) {
  return at > 0 && IsWordChar(StepUtf8(text.substr(LastUtf8(text.substr(0, at)))).point);
}

bool WordBehind(std::string_view text, size_t at) {
  return at < text.size() && IsWordChar(StepUtf8(text.substr(at)).point);
}

bool IsWhite(std::string_view text, size_t at) {
  return IsIn(ClassOf(StepUtf8(text.substr(at)).point), kSpaces);
}

// The beginning of the white space that ends at `end`, not below `least`.
size_t WhiteBefore(std::string_view text, size_t end, size_t least) {
  while (end > least && IsWhite(text, LastUtf8(text.substr(0, end))))
    end = LastUtf8(text.substr(0, end));
  return end;
}

size_t WhiteBehind(std::string_view text, size_t at) {
  while (at < text.size() && IsWhite(text, at)) at += StepUtf8(text.substr(at)).length;
  return at;
}

}  // namespace

const uint32_t* AddedTokens::Child(const Node& node, uint8_t byte) const {
  for (const auto& [label, child] : node.children) {
    if (label == byte) return &child;
  }
  return nullptr;
}

void AddedTokens::Add(std::string_view content, const AddedToken& token) {
  uint32_t at = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    if (const uint32_t* child = Child(nodes_[at], byte)) {
      at = *child;
      continue;
    }
    const auto created = static_cast<uint32_t>(nodes_.size());
    nodes_[at].children.emplace_back(byte, created);
    nodes_.emplace_back();
    at = created;
  }
  if (nodes_[at].token >= 0) return;
  nodes_[at].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back({token.id, token.special, token.lstrip, token.rstrip, token.single_word});
  begins_[static_cast<uint8_t>(content[0])] = true;
}

AddedTokens::Match AddedTokens::FindFrom(std::string_view text, size_t from,
                                         bool with_special) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    Match best{text.size(), text.size(), -1};
    uint32_t at = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const uint32_t* child = Child(nodes_[at], static_cast<uint8_t>(text[i]));
      if (child == nullptr) break;
      at = *child;
      const int32_t token = nodes_[at].token;
      if (token >= 0 && (with_special || !tokens_[static_cast<size_t>(token)].special)) {
        best = {begin, i + 1, token};
      }
    }
    if (best.token >= 0) return best;
  }
  return {text.size(), text.size(), -1};
}

std::vector<AddedTokens::Segment> AddedTokens::Split(std::string_view text,
                                                     bool with_special) const {
  std::vector<Segment> segments;
  size_t taken = 0;  // all before this lies in segments
  if (!empty()) {
    for (size_t at = 0; at < text.size();) {
      const Match match = FindFrom(text, at, with_special);
      at = match.end;
      if (match.token < 0) break;
      const Token& token = tokens_[static_cast<size_t>(match.token)];
      if (token.single_word && (WordBefore(text, match.begin) || WordBehind(text, match.end))) {
        continue;
      }
      const size_t begin = token.lstrip ? WhiteBefore(text, match.begin, taken) : match.begin;
      const size_t end = token.rstrip ? WhiteBehind(text, match.end) : match.end;
      if (taken < begin) segments.push_back({taken, begin, -1});
      segments.push_back({std::max(begin, taken), std::max(end, taken), token.id});
      taken = std::max(end, taken);
    }
  }
  if (taken < text.size()) segments.push_back({taken, text.size(), -1});
  return segments;
}

int32_t AddedTokens::Find(std::string_view content) const {
  const Match match = FindFrom(content, 0, true);
  if (match.token < 0 || match.begin != 0 || match.end != content.size()) return -1;
  return tokens_[static_cast<size_t>(match.token)].id;
}

}  // namespace isobit
