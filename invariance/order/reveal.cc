#include "invariance/order/reveal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"

namespace isobit {
namespace {

constexpr int kVerifyingProbes = 256;
// Evaluated at once: bounds memory.
constexpr size_t kProbesTogether = 1024;

absl::Status NotATree(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("not one fixed order: ", why));
}

// Where each term hangs, and each node's parent: for common ancestors.
class Ancestors {
 public:
  explicit Ancestors(const SummationTree& tree)
      : parent_(static_cast<size_t>(tree.size()), -1),
        of_term_(static_cast<size_t>(tree.terms()), -1) {
    for (int32_t i = 0; i < tree.size(); ++i) {
      for (int32_t child : tree.node(i).nodes) parent_[static_cast<size_t>(child)] = i;
      for (int32_t term : tree.node(i).terms) of_term_[static_cast<size_t>(term)] = i;
    }
  }

  // Children have smaller indices than their parents.
  int32_t Meeting(int32_t a, int32_t b) const {
    return MeetingOfNodes(of_term_[static_cast<size_t>(a)], of_term_[static_cast<size_t>(b)]);
  }
  bool IsBelow(int32_t term, int32_t node) const {
    int32_t at = of_term_[static_cast<size_t>(term)];
    while (at >= 0 && at < node) at = parent_[static_cast<size_t>(at)];
    return at == node;
  }

 private:
  int32_t MeetingOfNodes(int32_t a, int32_t b) const {
    while (a != b) {
      int32_t& lower = a < b ? a : b;
      lower = parent_[static_cast<size_t>(lower)];
    }
    return a;
  }

  std::vector<int32_t> parent_, of_term_;
};

// ---- Sums of either sign

class CancellingRevealer {
 public:
  explicit CancellingRevealer(CancellingSum& sum) : sum_(sum) {}

  absl::StatusOr<SummationTree> Run() {
    std::vector<int32_t> all(static_cast<size_t>(sum_.terms()));
    std::iota(all.begin(), all.end(), 0);
    absl::StatusOr<std::vector<Child>> forest = Build(all, -1);
    if (!forest.ok()) return forest.status();
    if (forest->size() != 1) return NotATree("no step holds all terms");
    if ((*forest)[0].is_term) tree_.Add({(*forest)[0].index}, {});
    if (absl::Status s = Verify(); !s.ok()) return s;
    return std::move(tree_);
  }

 private:
  struct Child {
    int32_t index = 0;
    bool is_term = false;
  };

  int32_t AddStep(const std::vector<Child>& children) {
    std::vector<int32_t> terms, nodes;
    for (const Child& c : children) (c.is_term ? terms : nodes).push_back(c.index);
    return tree_.Add(std::move(terms), std::move(nodes));
  }

  // The sums that `terms` form by themselves before they meet anything else. `outside`, unless -1,
  // is a term that they meet in the next step: two of `terms` that lose it meet no earlier.
  absl::StatusOr<std::vector<Child>> Build(std::vector<int32_t> terms, int32_t outside) {
    if (terms.empty()) return std::vector<Child>();
    // A pivot at random keeps the depth of this recursion near the logarithm, whichever end a chain
    // starts at.
    std::swap(terms.front(),
              terms[static_cast<size_t>(random_.Below(static_cast<int64_t>(terms.size())))]);
    const int32_t pivot = terms.front();
    absl::StatusOr<std::vector<int64_t>> sizes = MeetingSizes(terms, outside);
    if (!sizes.ok()) return sizes.status();
    std::map<int64_t, std::vector<int32_t>> by_size;
    std::vector<int32_t> apart;
    const auto all = static_cast<int64_t>(terms.size());
    for (size_t i = 1; i < terms.size(); ++i) {
      const int64_t size = (*sizes)[i - 1];
      (size > all ? apart : by_size[size]).push_back(terms[i]);
    }
    Child sum = {.index = pivot, .is_term = true};
    int64_t count = 1;
    for (auto& [size, joining] : by_size) {
      count += static_cast<int64_t>(joining.size());
      if (size != count) {
        return NotATree(absl::StrCat("term ", joining.front(), " meets term ", pivot,
                                     " in a sum of ", size, " terms, but only ", count,
                                     " are found there"));
      }
      absl::StatusOr<std::vector<Child>> children = Build(std::move(joining), pivot);
      if (!children.ok()) return children.status();
      children->push_back(sum);
      sum = {.index = AddStep(*children)};
    }
    absl::StatusOr<std::vector<Child>> forest = Build(std::move(apart), outside);
    if (forest.ok()) forest->push_back(sum);
    return forest;
  }

  // For terms[1..]: how many of `terms` and `outside` are in the smallest sum with terms[0].
  absl::StatusOr<std::vector<int64_t>> MeetingSizes(const std::vector<int32_t>& terms,
                                                    int32_t outside) {
    std::vector<int64_t> sizes(terms.size() - 1, 2);
    std::vector<CancellingProbe> probes;
    std::vector<size_t> of;  // index in sizes
    const auto flush = [&] {
      absl::StatusOr<std::vector<int64_t>> survivors = sum_.Survivors(probes);
      if (!survivors.ok()) return survivors.status();
      for (size_t i = 0; i < of.size(); ++i) {
        sizes[of[i]] += static_cast<int64_t>(probes[i].units.size()) - (*survivors)[i];
      }
      probes.clear();
      of.clear();
      return absl::OkStatus();
    };
    const auto most = static_cast<size_t>(sum_.most_units());
    for (size_t j = 1; j < terms.size(); ++j) {
      CancellingProbe probe = {.plus = terms[0], .minus = terms[j], .units = {}};
      const auto close = [&] {
        of.push_back(j - 1);
        probes.push_back(probe);
        probe.units.clear();
      };
      if (outside >= 0) probe.units.push_back(outside);
      for (size_t k = 1; k < terms.size(); ++k) {
        if (k == j) continue;
        if (probe.units.size() == most) close();
        probe.units.push_back(terms[k]);
      }
      if (!probe.units.empty()) close();
      if (probes.size() < kProbesTogether) continue;
      if (absl::Status s = flush(); !s.ok()) return s;
    }
    if (absl::Status s = flush(); !s.ok()) return s;
    return sizes;
  }

  absl::Status Verify() {
    const int64_t n = sum_.terms();
    if (n < 3) return absl::OkStatus();
    std::vector<CancellingProbe> probes;
    for (int i = 0; i < kVerifyingProbes; ++i) {
      CancellingProbe probe;
      probe.plus = static_cast<int32_t>(random_.Below(n));
      do {
        probe.minus = static_cast<int32_t>(random_.Below(n));
      } while (probe.minus == probe.plus);
      // Neighbours on some of the probes: most pairs of a long chain meet far up.
      if (i % 2 == 0 && probe.plus + 1 < n) probe.minus = probe.plus + 1;
      const int64_t units = std::min<int64_t>({sum_.most_units(), n - 2, 64});
      for (int64_t u = 0; u < units; ++u) {
        const auto term = static_cast<int32_t>(random_.Below(n));
        if (term != probe.plus && term != probe.minus &&
            std::ranges::find(probe.units, term) == probe.units.end()) {
          probe.units.push_back(term);
        }
      }
      probes.push_back(std::move(probe));
    }
    const absl::StatusOr<std::vector<int64_t>> survivors = sum_.Survivors(probes);
    if (!survivors.ok()) return survivors.status();
    const Ancestors ancestors(tree_);
    for (size_t i = 0; i < probes.size(); ++i) {
      const CancellingProbe& p = probes[i];
      const int32_t meeting = ancestors.Meeting(p.plus, p.minus);
      const auto expected = std::ranges::count_if(
          p.units, [&](int32_t unit) { return !ancestors.IsBelow(unit, meeting); });
      if (expected != (*survivors)[i]) {
        return NotATree(absl::StrCat("with huge terms ", p.plus, " and ", p.minus, ", ",
                                     (*survivors)[i], " of ", p.units.size(),
                                     " ones survive; the order found would leave ", expected));
      }
    }
    return absl::OkStatus();
  }

  CancellingSum& sum_;
  SplitMix random_{1};
  SummationTree tree_;
};

// ---- Sums without negative terms

// Do `a` and `b` meet each other before either meets `outside`?
struct Triple {
  int32_t outside = 0;
  int32_t a = 0;
  int32_t b = 0;
};

// In quarters of the last bit of the large term. A step that cuts takes 2.875 and 1.875 to 2 and 1
// one by one, less than a last bit, and together they are more than one. But rounding to nearest
// takes 2.875 up by itself; there 1.5 is lost, and twice that is not.
constexpr float kMore = 2.875f, kLess = 1.875f, kSame = 1.5f;

absl::StatusOr<std::vector<bool>> MeetFirst(NonNegativeSum& sum, std::span<const Triple> triples) {
  std::vector<bool> together(triples.size(), false);
  std::vector<size_t> open(triples.size());
  std::iota(open.begin(), open.end(), 0);
  const auto raised = [&](const std::vector<size_t>& of, float a, float b) {
    std::vector<TripleProbe> probes;
    for (size_t i : of) {
      probes.push_back({triples[i].outside, triples[i].a, triples[i].b, a, b});
    }
    return sum.Raised(probes);
  };
  const auto one_by_one = raised(open, kMore, kLess);
  if (!one_by_one.ok()) return one_by_one.status();
  std::erase_if(open, [&](size_t i) { return !(*one_by_one)[i]; });
  // If neither is taken up by itself, the step at which the large term meets them cuts.
  const auto a_alone = raised(open, kMore, 0), b_alone = raised(open, 0, kMore);
  if (!a_alone.ok()) return a_alone.status();
  if (!b_alone.ok()) return b_alone.status();
  std::vector<size_t> nearest;
  for (size_t k = 0; k < open.size(); ++k) {
    const bool cuts = !(*a_alone)[k] && !(*b_alone)[k];
    if (cuts) {
      together[open[k]] = true;
    } else {
      nearest.push_back(open[k]);
    }
  }
  const auto taken_up = raised(nearest, kSame, kSame);
  if (!taken_up.ok()) return taken_up.status();
  for (size_t k = 0; k < nearest.size(); ++k) together[nearest[k]] = (*taken_up)[k];
  return together;
}

class TripleRevealer {
 public:
  explicit TripleRevealer(NonNegativeSum& sum) : sum_(sum) {}

  absl::StatusOr<SummationTree> Run() {
    std::vector<Part> all;
    for (int64_t i = 0; i < sum_.terms(); ++i) all.push_back({.term = static_cast<int32_t>(i)});
    const absl::StatusOr<Part> root = Build(std::move(all));
    if (!root.ok()) return root.status();
    if (root->node < 0) tree_.Add({root->term}, {});
    if (absl::Status s = Verify(); !s.ok()) return s;
    return std::move(tree_);
  }

 private:
  // A term or a sum that is known; of a sum, any of its terms stands for it.
  struct Part {
    int32_t term = 0;
    int32_t node = -1;  // of the sum
  };

  // The sum of `parts`, which meet each other before anything else.
  absl::StatusOr<Part> Build(std::vector<Part> parts) {
    while (parts.size() > 1) {
      // Two at random: a chain is cut somewhere in its middle, whichever end it starts at.
      for (size_t i : {0, 1}) {
        const int64_t left = static_cast<int64_t>(parts.size() - i);
        std::swap(parts[i], parts[i + static_cast<size_t>(random_.Below(left))]);
      }
      absl::StatusOr<Split> split = SplitAt(parts);
      if (!split.ok()) return split.status();
      absl::StatusOr<Part> sum = AddStep(std::move(split->children));
      if (!sum.ok()) return sum.status();
      parts = std::move(split->outside);
      parts.push_back(*sum);
    }
    return parts.front();
  }

  // What the step at which two parts meet adds, and the parts that are not below it.
  struct Split {
    std::vector<std::vector<Part>> children;
    std::vector<Part> outside;
  };

  absl::StatusOr<Split> SplitAt(const std::vector<Part>& parts) {
    const Part a = parts[0], b = parts[1];
    std::vector<Part> rest(parts.begin() + 2, parts.end()), inside, not_a, others;
    Split split = {.children = {{a}, {b}}, .outside = {}};
    std::vector<Part>*const with_a = &split.children[0], *const with_b = &split.children[1];
    const auto divide = [&](const std::vector<Part>& from, const auto& triple,
                            std::vector<Part>& yes, std::vector<Part>& no) {
      std::vector<Triple> triples;
      for (const Part& part : from) triples.push_back(triple(part.term));
      const absl::StatusOr<std::vector<bool>> together = MeetFirst(sum_, triples);
      if (!together.ok()) return together.status();
      for (size_t i = 0; i < from.size(); ++i) ((*together)[i] ? yes : no).push_back(from[i]);
      return absl::OkStatus();
    };
    absl::Status status = divide(
        rest,
        [&](int32_t t) {
          return Triple{t, a.term, b.term};
        },
        split.outside, inside);
    status.Update(divide(
        inside,
        [&](int32_t t) {
          return Triple{b.term, a.term, t};
        },
        *with_a, not_a));
    status.Update(divide(
        not_a,
        [&](int32_t t) {
          return Triple{a.term, b.term, t};
        },
        *with_b, others));
    while (status.ok() && !others.empty()) {
      const Part first = others.front();
      std::vector<Part> sibling = {first}, left;
      others.erase(others.begin());
      status = divide(
          others,
          [&](int32_t t) {
            return Triple{a.term, first.term, t};
          },
          sibling, left);
      split.children.push_back(std::move(sibling));
      others = std::move(left);
    }
    if (!status.ok()) return status;
    return split;
  }

  absl::StatusOr<Part> AddStep(std::vector<std::vector<Part>> children) {
    std::vector<int32_t> terms, nodes;
    const int32_t any = children.front().front().term;
    for (std::vector<Part>& child : children) {
      const absl::StatusOr<Part> sum = Build(std::move(child));
      if (!sum.ok()) return sum.status();
      (sum->node < 0 ? terms : nodes).push_back(sum->node < 0 ? sum->term : sum->node);
    }
    return Part{.term = any, .node = tree_.Add(std::move(terms), std::move(nodes))};
  }

  absl::Status Verify() {
    const int64_t n = sum_.terms();
    if (n < 3) return absl::OkStatus();
    std::vector<Triple> triples;
    for (int i = 0; i < kVerifyingProbes; ++i) {
      std::vector<int32_t> terms;
      while (terms.size() < 3) {
        const auto term = static_cast<int32_t>(random_.Below(n));
        if (std::ranges::find(terms, term) == terms.end()) terms.push_back(term);
      }
      triples.push_back({terms[0], terms[1], terms[2]});
    }
    const absl::StatusOr<std::vector<bool>> together = MeetFirst(sum_, triples);
    if (!together.ok()) return together.status();
    const Ancestors ancestors(tree_);
    for (size_t i = 0; i < triples.size(); ++i) {
      const Triple& t = triples[i];
      const bool expected = !ancestors.IsBelow(t.outside, ancestors.Meeting(t.a, t.b));
      if (expected == (*together)[i]) continue;
      return NotATree(absl::StrCat("terms ", t.a, " and ", t.b, (*together)[i] ? "" : " do not",
                                   " meet before term ", t.outside,
                                   "; in the order found it is the other way round"));
    }
    return absl::OkStatus();
  }

  NonNegativeSum& sum_;
  SplitMix random_{2};
  SummationTree tree_;
};

}  // namespace

absl::StatusOr<SummationTree> RevealOrder(CancellingSum& sum) {
  return CancellingRevealer(sum).Run();
}

absl::StatusOr<SummationTree> RevealOrder(NonNegativeSum& sum) { return TripleRevealer(sum).Run(); }

absl::StatusOr<int64_t> AsCount(double result, size_t placed) {
  if (result >= 0 && result <= static_cast<double>(placed) && result == std::floor(result)) {
    return static_cast<int64_t>(result);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("a sum of ", placed, " ones and two numbers that cancel gave ", result));
}

absl::StatusOr<std::vector<int64_t>> PlainSum::Survivors(std::span<const CancellingProbe> probes) {
  std::vector<int64_t> counts;
  std::vector<float> terms(static_cast<size_t>(terms_));
  for (const CancellingProbe& probe : probes) {
    std::ranges::fill(terms, 0.0f);
    for (int32_t unit : probe.units) terms[static_cast<size_t>(unit)] = 1;
    terms[static_cast<size_t>(probe.plus)] = kHuge;
    terms[static_cast<size_t>(probe.minus)] = -kHuge;
    const absl::StatusOr<int64_t> count = AsCount(function_(terms), probe.units.size());
    if (!count.ok()) return count.status();
    counts.push_back(*count);
  }
  return counts;
}

absl::StatusOr<std::vector<bool>> PlainSum::Raised(std::span<const TripleProbe> probes) {
  constexpr float kLarge = 0x1p+24f, kQuarter = 0.5f;
  std::vector<bool> raised;
  std::vector<float> terms(static_cast<size_t>(terms_));
  for (const TripleProbe& probe : probes) {
    std::ranges::fill(terms, 0.0f);
    terms[static_cast<size_t>(probe.large)] = kLarge;
    terms[static_cast<size_t>(probe.a)] = probe.a_quarters * kQuarter;
    terms[static_cast<size_t>(probe.b)] = probe.b_quarters * kQuarter;
    raised.push_back(function_(terms) > kLarge);
  }
  return raised;
}

}  // namespace isobit
