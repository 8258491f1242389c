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

// ---- Sums of squares

class TripleRevealer {
 public:
  explicit TripleRevealer(NonNegativeSum& sum) : sum_(sum) {}

  absl::StatusOr<SummationTree> Run() {
    std::vector<int32_t> all(static_cast<size_t>(sum_.terms()));
    std::iota(all.begin(), all.end(), 0);
    const absl::StatusOr<int32_t> root = Build(std::move(all));
    if (!root.ok()) return root.status();
    if (absl::Status s = Verify(); !s.ok()) return s;
    return std::move(tree_);
  }

 private:
  // Other sums that the pivot's sum meets on its way up.
  struct Sibling {
    std::vector<int32_t> terms;
    int64_t met_before = 0;  // siblings that the pivot meets earlier
  };

  // The node of the sum of `terms`, which meet each other before anything else.
  absl::StatusOr<int32_t> Build(std::vector<int32_t> terms) {
    const auto at = static_cast<size_t>(random_.Below(static_cast<int64_t>(terms.size())));
    const int32_t pivot = terms[at];
    terms.erase(terms.begin() + static_cast<ptrdiff_t>(at));
    int32_t sum = tree_.Add({pivot}, {});
    absl::StatusOr<std::vector<Sibling>> siblings = Siblings(pivot, std::move(terms));
    if (!siblings.ok()) return siblings.status();
    if (absl::Status s = Rank(pivot, *siblings); !s.ok()) return s;
    std::ranges::sort(*siblings, {}, &Sibling::met_before);
    for (size_t i = 0; i < siblings->size();) {
      std::vector<int32_t> children = {sum};
      size_t end = i;
      for (; end < siblings->size() && (*siblings)[end].met_before == (*siblings)[i].met_before;
           ++end) {
        const absl::StatusOr<int32_t> child = Build(std::move((*siblings)[end].terms));
        if (!child.ok()) return child.status();
        children.push_back(*child);
      }
      sum = tree_.Add({}, std::move(children));
      i = end;
    }
    return sum;
  }

  // Groups terms that meet each other before they meet the pivot.
  absl::StatusOr<std::vector<Sibling>> Siblings(int32_t pivot, std::vector<int32_t> terms) {
    std::vector<Sibling> siblings;
    while (!terms.empty()) {
      Sibling sibling;
      sibling.terms.push_back(terms.front());
      std::vector<TripleProbe> probes;
      for (size_t i = 1; i < terms.size(); ++i) probes.push_back({pivot, terms[0], terms[i]});
      const absl::StatusOr<std::vector<bool>> together = sum_.MeetFirst(probes);
      if (!together.ok()) return together.status();
      std::vector<int32_t> rest;
      for (size_t i = 1; i < terms.size(); ++i) {
        ((*together)[i - 1] ? sibling.terms : rest).push_back(terms[i]);
      }
      siblings.push_back(std::move(sibling));
      terms = std::move(rest);
    }
    return siblings;
  }

  absl::Status Rank(int32_t pivot, std::vector<Sibling>& siblings) {
    std::vector<TripleProbe> probes;
    std::vector<size_t> of;
    for (size_t i = 0; i < siblings.size(); ++i) {
      for (size_t j = 0; j < siblings.size(); ++j) {
        if (i == j) continue;
        probes.push_back({siblings[i].terms[0], pivot, siblings[j].terms[0]});
        of.push_back(i);
      }
    }
    const absl::StatusOr<std::vector<bool>> earlier = sum_.MeetFirst(probes);
    if (!earlier.ok()) return earlier.status();
    for (size_t i = 0; i < of.size(); ++i) siblings[of[i]].met_before += (*earlier)[i] ? 1 : 0;
    return absl::OkStatus();
  }

  absl::Status Verify() {
    const int64_t n = sum_.terms();
    if (n < 3) return absl::OkStatus();
    std::vector<TripleProbe> probes;
    for (int i = 0; i < kVerifyingProbes; ++i) {
      std::vector<int32_t> terms;
      while (terms.size() < 3) {
        const auto term = static_cast<int32_t>(random_.Below(n));
        if (std::ranges::find(terms, term) == terms.end()) terms.push_back(term);
      }
      probes.push_back({terms[0], terms[1], terms[2]});
    }
    const absl::StatusOr<std::vector<bool>> together = sum_.MeetFirst(probes);
    if (!together.ok()) return together.status();
    const Ancestors ancestors(tree_);
    for (size_t i = 0; i < probes.size(); ++i) {
      const TripleProbe& p = probes[i];
      const bool expected = !ancestors.IsBelow(p.large, ancestors.Meeting(p.a, p.b));
      if (expected == (*together)[i]) continue;
      return NotATree(absl::StrCat("terms ", p.a, " and ", p.b, (*together)[i] ? "" : " do not",
                                   " meet before term ", p.large,
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

absl::StatusOr<std::vector<bool>> PlainSum::MeetFirst(std::span<const TripleProbe> probes) {
  std::vector<bool> together;
  std::vector<float> terms(static_cast<size_t>(terms_));
  for (const TripleProbe& probe : probes) {
    std::ranges::fill(terms, 0.0f);
    // The last bit of 2^24 is 2; 0.75 alone is less than half of it.
    terms[static_cast<size_t>(probe.large)] = 0x1p+24f;
    terms[static_cast<size_t>(probe.a)] = terms[static_cast<size_t>(probe.b)] = 0.75f;
    together.push_back(function_(terms) > 0x1p+24f);
  }
  return together;
}

}  // namespace isobit
