#ifndef ISOBIT_INVARIANCE_ORDER_SUMMATION_TREE_H_
#define ISOBIT_INVARIANCE_ORDER_SUMMATION_TREE_H_

// The order of a sum, as a tree. A leaf is a term; a node is one step that adds its children: two
// for an addition, one accumulator and 16 terms for a fused step of a tensor core. Within a step
// the order of the children can't be seen, so they are a set.
//
// A chain of dot16 over 48 terms is ((0..15, 16..31), 32..47): three nodes, of 16, 17 and 17
// children.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace isobit {

class SummationTree {
 public:
  struct Node {
    std::vector<int32_t> terms;  // leaves that this step adds, ascending
    std::vector<int32_t> nodes;  // sums that this step adds, by index; in order of least term
    int32_t least = 0;           // term below this node
  };

  // Adds a step; its children were added before, and each is a child once. A step of one sum alone
  // is that sum, and a sum of one term alone is that term: its node is left empty. Returns the
  // index of the node. REQUIRES: there is a child.
  int32_t Add(std::vector<int32_t> terms, std::vector<int32_t> nodes);

  // What the last Add returned. REQUIRES: not empty.
  int32_t root() const { return root_; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  // Terms of the whole tree.
  int64_t terms() const { return terms_; }
  // Below a node, ascending.
  std::vector<int32_t> TermsBelow(int32_t index) const;

  // The whole tree in one line: a step in parentheses, first the sums that it adds, then its terms.
  // "(((0..15) 16..31) 32..47)".
  std::string ToText() const;

  // For people: an indented outline in which chains and repetitions are folded, of at most
  // `most_lines` lines.
  std::string Describe(int most_lines = 40) const;

 private:
  std::vector<Node> nodes_;
  int32_t root_ = -1;
  int64_t terms_ = 0;
};

// Empty if both are the same order. Otherwise the smallest step of `revealed` that `contract` does
// not have, and what the contract does with those terms.
std::string FirstDeviation(const SummationTree& contract, const SummationTree& revealed);

// The orders of the contract.

// Steps of `step` terms, ascending, each added to the sum so far (contract 2; step 16).
SummationTree ChainTree(int64_t terms, int64_t step);
// A chain of 16, then single terms: what an epilogue adds, bias and residual.
SummationTree ChainWithEpilogueTree(int64_t terms, int64_t added);
// Contract 3: lanes of single steps, folded by halves.
SummationTree RowSumTree(int64_t terms);
// Contract 4: chains over splits of 1024 keys, merged left to right. Terms are the keys that the
// row sees, [first_key, last_key], counted from the first.
SummationTree AttentionTree(int64_t first_key, int64_t last_key);

// "0..15, 40": ascending numbers as ranges.
std::string DescribeTerms(std::span<const int32_t> terms);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ORDER_SUMMATION_TREE_H_
