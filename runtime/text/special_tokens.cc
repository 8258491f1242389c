#include "runtime/text/special_tokens.h"

namespace isobit {

const uint32_t* SpecialTokens::Child(const Node& node, uint8_t byte) const {
  for (const auto& [label, child] : node.children) {
    if (label == byte) return &child;
  }
  return nullptr;
}

void SpecialTokens::Add(std::string_view piece, int32_t id) {
  uint32_t at = 0;
  for (const char c : piece) {
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
  nodes_[at].id = id;
  begins_[static_cast<uint8_t>(piece[0])] = true;
}

SpecialTokens::Match SpecialTokens::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    Match best{text.size(), text.size(), -1};
    uint32_t at = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const uint32_t* child = Child(nodes_[at], static_cast<uint8_t>(text[i]));
      if (child == nullptr) break;
      at = *child;
      if (nodes_[at].id >= 0) best = {begin, i + 1, nodes_[at].id};
    }
    if (best.id >= 0) return best;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace isobit
