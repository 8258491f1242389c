#include "invariance/order/summation_tree.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "invariance/random.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/row_sum.h"

namespace isobit {
namespace {

std::vector<int32_t> Range(int64_t begin, int64_t end) {
  std::vector<int32_t> terms;
  for (int64_t i = begin; i < end; ++i) terms.push_back(static_cast<int32_t>(i));
  return terms;
}

// "0..15" and "40": ascending numbers as ranges.
std::vector<std::string> RangesOf(std::span<const int32_t> terms) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < terms.size();) {
    size_t end = i + 1;
    while (end < terms.size() && terms[end] == terms[end - 1] + 1) ++end;
    ranges.push_back(end == i + 1 ? absl::StrCat(terms[i])
                                  : absl::StrCat(terms[i], "..", terms[end - 1]));
    i = end;
  }
  return ranges;
}

// ---- Comparing

// A set of terms as one number: equal sets have equal keys, and different sets differ but for a
// chance of 2^-64.
uint64_t KeyOf(int32_t term) { return SplitMix(static_cast<uint64_t>(term) + 1).Next(); }

// The set of terms below a node, and the sets that it adds.
struct Step {
  uint64_t key = 0;
  int64_t count = 0;
  std::vector<uint64_t> children;  // keys, ascending

  void Take(uint64_t child_key, int64_t child_count) {
    key ^= child_key;
    count += child_count;
    children.push_back(child_key);
  }
};

std::vector<Step> StepsOf(const SummationTree& tree) {
  std::vector<Step> steps(static_cast<size_t>(tree.size()));
  for (int32_t i = 0; i < tree.size(); ++i) {
    Step& step = steps[static_cast<size_t>(i)];
    for (int32_t term : tree.node(i).terms) step.Take(KeyOf(term), 1);
    for (int32_t child : tree.node(i).nodes) {
      const Step& c = steps[static_cast<size_t>(child)];
      step.Take(c.key, c.count);
    }
    std::ranges::sort(step.children);
  }
  return steps;
}

// The smallest node that has all of these terms below it.
int32_t SmallestAround(const SummationTree& tree, std::span<const int32_t> terms) {
  std::vector<size_t> below(static_cast<size_t>(tree.size()), 0);
  for (int32_t i = 0; i < tree.size(); ++i) {
    size_t& count = below[static_cast<size_t>(i)];
    for (int32_t term : tree.node(i).terms) count += std::ranges::binary_search(terms, term);
    for (int32_t child : tree.node(i).nodes) count += below[static_cast<size_t>(child)];
    if (count == terms.size()) return i;
  }
  return tree.root();
}

// "(0..15), 16..31": sums in parentheses, then single terms.
std::string DescribeStep(const SummationTree& tree, int32_t index) {
  std::vector<std::string> parts;
  for (int32_t child : tree.node(index).nodes) {
    parts.push_back(absl::StrCat("(", DescribeTerms(tree.TermsBelow(child)), ")"));
  }
  if (!tree.node(index).terms.empty()) parts.push_back(DescribeTerms(tree.node(index).terms));
  return absl::StrJoin(parts, ", ");
}

// ---- Describing

bool IsShifted(const SummationTree& tree, int32_t a, int32_t b, int32_t by) {
  const SummationTree::Node &x = tree.node(a), &y = tree.node(b);
  if (x.terms.size() != y.terms.size() || x.nodes.size() != y.nodes.size()) return false;
  for (size_t i = 0; i < x.terms.size(); ++i) {
    if (x.terms[i] + by != y.terms[i]) return false;
  }
  for (size_t i = 0; i < x.nodes.size(); ++i) {
    if (!IsShifted(tree, x.nodes[i], y.nodes[i], by)) return false;
  }
  return true;
}

class Outline {
 public:
  explicit Outline(const SummationTree& tree) : tree_(tree) {}

  std::vector<std::string> Write(int32_t root) {
    Add(root, 0);
    return std::move(lines_);
  }

 private:
  void Line(int indent, const std::string& text) {
    lines_.push_back(std::string(static_cast<size_t>(2 * indent), ' ') + text);
  }

  // A node and all above it that add single terms to one sum are one chain.
  void Add(int32_t index, int indent) {
    std::vector<const SummationTree::Node*> steps;
    for (; tree_.node(index).nodes.size() == 1; index = tree_.node(index).nodes.front()) {
      steps.push_back(&tree_.node(index));
    }
    const SummationTree::Node& first = tree_.node(index);
    if (first.nodes.empty()) {
      steps.push_back(&first);
      std::ranges::reverse(steps);
      Line(indent, steps.size() == 1 ? DescribeTerms(first.terms) + ", in one step"
                                     : Chain("chain", steps));
      return;
    }
    const size_t extra = first.terms.size();
    Line(indent, absl::StrCat("one step adds ", first.nodes.size(), " sums",
                              extra == 0 ? "" : absl::StrCat(" and ", DescribeTerms(first.terms))));
    AddChildren(first, indent + 1);
    std::ranges::reverse(steps);
    if (!steps.empty()) Line(indent, Chain("then", steps));
  }

  void AddChildren(const SummationTree::Node& node, int indent) {
    const int32_t head = node.nodes.front();
    Add(head, indent);
    const int32_t least = tree_.node(head).least;
    for (size_t i = 1; i < node.nodes.size(); ++i) {
      const int32_t by = tree_.node(node.nodes[i]).least - least;
      if (IsShifted(tree_, head, node.nodes[i], by)) {
        Line(indent, absl::StrCat("the same, ", by, " terms further"));
      } else {
        Add(node.nodes[i], indent);
      }
    }
  }

  // The first steps, and the last.
  static std::string Chain(const std::string& name,
                           const std::vector<const SummationTree::Node*>& steps) {
    constexpr size_t kShown = 3;
    std::vector<std::string> shown;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i == kShown && steps.size() > kShown + 2) {
        shown.push_back("...");
        i = steps.size() - 1;
      }
      shown.push_back(DescribeTerms(steps[i]->terms));
    }
    return absl::StrCat(name, " of ", steps.size(),
                        steps.size() == 1 ? " step: " : " steps: ", absl::StrJoin(shown, " | "));
  }

  const SummationTree& tree_;
  std::vector<std::string> lines_;
};

// A chain over [begin, end) in aligned groups of `step`, added to `sum` unless that is -1; returns
// its node. Terms are counted from `origin`.
int32_t AddChain(SummationTree& tree, int32_t sum, int64_t begin, int64_t end, int64_t step,
                 int64_t origin = 0) {
  while (begin < end) {
    const int64_t next = std::min(end, begin / step * step + step);
    std::vector<int32_t> before;
    if (sum >= 0) before.push_back(sum);
    sum = tree.Add(Range(begin - origin, next - origin), std::move(before));
    begin = next;
  }
  return sum;
}

}  // namespace

int32_t SummationTree::Add(std::vector<int32_t> terms, std::vector<int32_t> nodes) {
  if (terms.empty() && nodes.size() == 1) return root_ = nodes.front();
  terms_ += static_cast<int64_t>(terms.size());
  std::erase_if(nodes, [&](int32_t child) {
    Node& single = nodes_[static_cast<size_t>(child)];
    if (single.terms.size() != 1 || !single.nodes.empty()) return false;
    terms.push_back(single.terms.front());
    single.terms.clear();
    return true;
  });
  std::ranges::sort(terms);
  std::ranges::sort(nodes, {}, [this](int32_t child) { return node(child).least; });
  int32_t least = terms.empty() ? INT32_MAX : terms.front();
  if (!nodes.empty()) least = std::min(least, node(nodes.front()).least);
  nodes_.push_back({std::move(terms), std::move(nodes), least});
  return root_ = static_cast<int32_t>(nodes_.size()) - 1;
}

std::vector<int32_t> SummationTree::TermsBelow(int32_t index) const {
  std::vector<int32_t> terms, open = {index};
  while (!open.empty()) {
    const Node& next = node(open.back());
    open.pop_back();
    terms.insert(terms.end(), next.terms.begin(), next.terms.end());
    open.insert(open.end(), next.nodes.begin(), next.nodes.end());
  }
  std::ranges::sort(terms);
  return terms;
}

std::string SummationTree::ToText() const {
  std::vector<std::string> texts(nodes_.size());  // children have smaller indices
  for (size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<std::string> parts;
    for (int32_t child : nodes_[i].nodes) {
      parts.push_back(std::move(texts[static_cast<size_t>(child)]));
    }
    for (const std::string& range : RangesOf(nodes_[i].terms)) parts.push_back(range);
    texts[i] = absl::StrCat("(", absl::StrJoin(parts, " "), ")");
  }
  return root_ < 0 ? "" : texts[static_cast<size_t>(root_)];
}

std::string SummationTree::Describe(int most_lines) const {
  std::vector<std::string> lines = Outline(*this).Write(root());
  const auto most = static_cast<size_t>(most_lines);
  if (lines.size() > most) {
    const size_t left = lines.size() - most + 1;
    lines.resize(most - 1);
    lines.push_back(absl::StrCat("... ", left, " lines more"));
  }
  return absl::StrJoin(lines, "\n");
}

std::string FirstDeviation(const SummationTree& contract, const SummationTree& revealed) {
  if (contract.terms() != revealed.terms()) {
    return absl::StrCat(revealed.terms(), " terms are added; the contract adds ", contract.terms());
  }
  std::map<uint64_t, std::vector<uint64_t>> known;
  for (Step& step : StepsOf(contract)) known[step.key] = std::move(step.children);
  const std::vector<Step> steps = StepsOf(revealed);
  int32_t first = -1;
  for (int32_t i = 0; i < revealed.size(); ++i) {
    const Step& step = steps[static_cast<size_t>(i)];
    if (step.count == 0) continue;
    const auto found = known.find(step.key);
    if (found != known.end() && found->second == step.children) continue;
    if (first >= 0) {
      const Step& best = steps[static_cast<size_t>(first)];
      if (std::pair(best.count, revealed.node(first).least) <=
          std::pair(step.count, revealed.node(i).least))
        continue;
    }
    first = i;
  }
  if (first < 0) return "";
  const int32_t around = SmallestAround(contract, revealed.TermsBelow(first));
  return absl::StrCat("one step adds ", DescribeStep(revealed, first),
                      "; there the contract has a step of ", DescribeStep(contract, around));
}

SummationTree ChainTree(int64_t terms, int64_t step) {
  SummationTree tree;
  AddChain(tree, -1, 0, terms, step);
  return tree;
}

SummationTree ChainWithEpilogueTree(int64_t terms, int64_t added) {
  SummationTree tree;
  const int32_t chain = AddChain(tree, -1, 0, terms, kDotTerms);
  AddChain(tree, chain, terms, terms + added, 1);
  return tree;
}

SummationTree RowSumTree(int64_t terms) {
  SummationTree tree;
  std::vector<int32_t> lane(RowSum::kLanes, -1);  // -1: still zero
  for (int64_t i = 0; i < terms; ++i) {
    int32_t& sum = lane[static_cast<size_t>(RowSum::LaneOf(i))];
    sum = AddChain(tree, sum, i, i + 1, 1);
  }
  for (size_t width = lane.size() / 2; width >= 1; width /= 2) {
    for (size_t l = 0; l < width; ++l) {
      const int32_t other = lane[l + width];
      if (other < 0) continue;
      lane[l] = lane[l] < 0 ? other : tree.Add({}, {lane[l], other});
    }
  }
  return tree;
}

SummationTree AttentionTree(int64_t first_key, int64_t last_key) {
  SummationTree tree;
  int32_t merged = -1;
  for (int64_t begin = first_key; begin <= last_key;) {
    const int64_t end = std::min(last_key + 1, begin / kSplitKeys * kSplitKeys + kSplitKeys);
    const int32_t split = AddChain(tree, -1, begin, end, kDotTerms, first_key);
    merged = merged < 0 ? split : tree.Add({}, {merged, split});
    begin = end;
  }
  return tree;
}

std::string DescribeTerms(std::span<const int32_t> terms) {
  std::vector<std::string> ranges = RangesOf(terms);
  constexpr size_t kMostRanges = 8;
  if (ranges.size() > kMostRanges) {
    ranges.resize(kMostRanges);
    ranges.push_back(absl::StrCat("... (", terms.size(), " in all)"));
  }
  return absl::StrJoin(ranges, ", ");
}

}  // namespace isobit
