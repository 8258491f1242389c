// Reads a regular expression into a tree and links the tree's nodes back to front.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/split_pattern.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

constexpr int kMaxDepth = 32;  // of groups
constexpr uint32_t kUnlimited = UINT32_MAX;
constexpr uint32_t kMaxRepeat = 100000;  // the largest number in {m,n}

struct NamedClasses {
  std::string_view name;
  CharClasses classes;
};
constexpr NamedClasses kProperties[] = {
    {"L", kLetters},
    {"M", kMarks},
    {"N", kNumbers},
    {"P", kPunctuation},
    {"S", kSymbols},
    {"Z", In(CharClass::kSeparator)},
    {"Lu", In(CharClass::kLu)},
    {"Ll", In(CharClass::kLl)},
    {"Lt", In(CharClass::kLt)},
    {"Lm", In(CharClass::kLm)},
    {"Lo", In(CharClass::kLo)},
    {"Mn", In(CharClass::kMn)},
    {"Mc", In(CharClass::kMc)},
    {"Me", In(CharClass::kMe)},
    {"Nd", In(CharClass::kNd)},
    {"Nl", In(CharClass::kNl)},
    {"No", In(CharClass::kNo)},
    {"Pc", In(CharClass::kPc)},
    {"Pd", In(CharClass::kPd)},
    {"Ps", In(CharClass::kPs)},
    {"Pe", In(CharClass::kPe)},
    {"Pi", In(CharClass::kPi)},
    {"Pf", In(CharClass::kPf)},
    {"Po", In(CharClass::kPo)},
    {"Sm", In(CharClass::kSm)},
    {"Sc", In(CharClass::kSc)},
    {"Sk", In(CharClass::kSk)},
    {"So", In(CharClass::kSo)},
};
// Without the joiners and encircled letters that Unicode counts to it as well.
constexpr CharClasses kWord = kLetters | kMarks | In(CharClass::kNd) | In(CharClass::kPc);
constexpr CharClasses kAll = From(CharClass::kLu, CharClass::kOther);

// What a [...] or an escape says before it is made into a Set.
struct SetSource {
  CharClasses classes = 0;
  std::vector<std::pair<char32_t, char32_t>> ranges;
  bool negated = false;
};

struct Tree {
  enum Kind { kSet, kSequence, kAlternatives, kLookAhead, kLineEnd };
  Kind kind;
  SetSource set;
  uint32_t min = 1, max = 1;
  bool possessive = false, negated = false;
  std::vector<std::unique_ptr<Tree>> parts;
};
using TreePtr = std::unique_ptr<Tree>;
using TreeOr = absl::StatusOr<TreePtr>;

TreePtr NewTree(Tree::Kind kind) {
  auto made = std::make_unique<Tree>();
  made->kind = kind;
  return made;
}

}  // namespace

class SplitPatternParser {
 public:
  explicit SplitPatternParser(std::string_view source) : source_(source) {}

  absl::StatusOr<SplitPattern> Run();

 private:
  bool Done() const { return at_ == source_.size(); }
  bool Follows(std::string_view what) const { return source_.substr(at_, what.size()) == what; }
  bool Take(std::string_view what) {
    if (!Follows(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t TakePoint() {
    const Utf8Step step = StepUtf8(source_.substr(at_));
    at_ += step.length;
    return step.point;
  }
  absl::Status Bad(std::string_view what) const;
  absl::Status Unknown(std::string_view what) const;

  TreeOr Alternatives(int depth);
  TreeOr Sequence(int depth);
  TreeOr Atom(int depth);
  TreeOr Group(int depth);
  TreeOr Quantified(TreePtr atom);
  absl::Status Counts(Tree* tree);
  absl::StatusOr<uint32_t> Number();
  absl::Status Bracket(SetSource* set);
  // A character or class behind a backslash; `point` is set if it is a character.
  absl::Status Escape(SetSource* set, std::optional<char32_t>* point);
  absl::Status Property(bool negated, SetSource* set);
  absl::Status Fold(SetSource* set) const;

  uint32_t Link(const Tree& tree, uint32_t next);
  uint32_t AddNode(SplitPattern::Node node) {
    pattern_.nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(pattern_.nodes_.size() - 1);
  }
  uint32_t AddSet(const SetSource& source);

  std::string_view source_;
  size_t at_ = 0;
  bool fold_ = false;  // inside (?i:
  SplitPattern pattern_;
};

absl::Status SplitPatternParser::Bad(std::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("split pattern ", Quoted(source_), ", byte ", at_, ": ", Absl(what)));
}

absl::Status SplitPatternParser::Unknown(std::string_view what) const {
  return absl::UnimplementedError(absl::StrCat("split pattern ", Quoted(source_), ", byte ", at_,
                                               ": ", Absl(what), " is not supported"));
}

absl::StatusOr<SplitPattern> SplitPatternParser::Run() {
  if (source_.size() > SplitPattern::kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a split pattern is ", source_.size(),
                                                   " bytes long, the limit is ",
                                                   SplitPattern::kMaxBytes));
  }
  if (ValidUtf8Prefix(source_) != source_.size()) return Bad("it is not valid UTF-8");
  fold_ = Take("(?i)");
  TreeOr tree = Alternatives(0);
  if (!tree.ok()) return tree.status();
  if (!Done()) return Bad("')' without '('");
  const uint32_t match = AddNode({});
  pattern_.start_ = Link(**tree, match);
  return std::move(pattern_);
}

TreeOr SplitPatternParser::Alternatives(int depth) {
  if (depth > kMaxDepth) return Bad("groups are nested too deeply");
  auto made = NewTree(Tree::kAlternatives);
  do {
    TreeOr sequence = Sequence(depth);
    if (!sequence.ok()) return sequence;
    made->parts.push_back(*std::move(sequence));
  } while (Take("|"));
  return made->parts.size() == 1 ? std::move(made->parts[0]) : std::move(made);
}

TreeOr SplitPatternParser::Sequence(int depth) {
  auto made = NewTree(Tree::kSequence);
  while (!Done() && !Follows("|") && !Follows(")")) {
    TreeOr atom = Atom(depth);
    if (!atom.ok()) return atom;
    TreeOr part = Quantified(*std::move(atom));
    if (!part.ok()) return part;
    made->parts.push_back(*std::move(part));
  }
  return made;
}

TreeOr SplitPatternParser::Atom(int depth) {
  if (Take("(")) return Group(depth);
  if (Take("$")) return NewTree(Tree::kLineEnd);
  for (const char* sign : {"*", "+", "?"}) {
    if (Follows(sign)) return Bad(absl::StrCat("nothing to repeat before '", sign, "'"));
  }
  if (Follows("^")) return Unknown("'^'");
  auto made = NewTree(Tree::kSet);
  absl::Status status;
  if (Take("[")) {
    status = Bracket(&made->set);
  } else if (Take("\\")) {
    std::optional<char32_t> point;
    status = Escape(&made->set, &point);
    if (point) made->set.ranges.emplace_back(*point, *point);
  } else if (Take(".")) {
    made->set.ranges.emplace_back('\n', '\n');
    made->set.negated = true;
  } else {
    const char32_t point = TakePoint();
    made->set.ranges.emplace_back(point, point);
  }
  if (status.ok() && fold_) status = Fold(&made->set);
  if (!status.ok()) return status;
  return made;
}

TreeOr SplitPatternParser::Group(int depth) {
  const bool folded = fold_;
  TreePtr look;
  if (Take("?i:")) {
    fold_ = true;
  } else if (Take("?=") || Follows("?!")) {
    look = NewTree(Tree::kLookAhead);
    look->negated = Take("?!");
  } else if (!Take("?:") && Follows("?")) {
    return Unknown(absl::StrCat("'(", Absl(source_.substr(at_, 2)), "'"));
  }
  TreeOr inner = Alternatives(depth + 1);
  if (!inner.ok()) return inner;
  if (!Take(")")) return Bad("'(' without ')'");
  fold_ = folded;
  if (look == nullptr) {
    // A group of one set is that set, so it may be repeated.
    auto& parts = (*inner)->parts;
    const bool one = (*inner)->kind == Tree::kSequence && parts.size() == 1;
    if (!one || parts[0]->kind != Tree::kSet || parts[0]->min != 1 || parts[0]->max != 1) {
      return inner;
    }
    return std::move(parts[0]);
  }
  look->parts.push_back(*std::move(inner));
  return look;
}

TreeOr SplitPatternParser::Quantified(TreePtr atom) {
  if (Take("?")) {
    atom->min = 0;
  } else if (Take("*")) {
    atom->min = 0, atom->max = kUnlimited;
  } else if (Take("+")) {
    atom->max = kUnlimited;
  } else if (Take("{")) {
    if (auto s = Counts(atom.get()); !s.ok()) return s;
  } else {
    return atom;
  }
  if (Follows("?")) return Unknown("a lazy quantifier");
  if (Take("+")) atom->possessive = true;
  if (Follows("*") || Follows("{")) return Bad("a quantifier behind a quantifier");
  // A repeated group could match nothing for ever, and its search could take exponential time.
  const bool optional = atom->max == 1 && !atom->possessive && atom->kind != Tree::kLookAhead;
  if (atom->kind != Tree::kSet && !optional) return Unknown("a repeated group");
  return atom;
}

absl::StatusOr<uint32_t> SplitPatternParser::Number() {
  uint32_t value = 0;
  const size_t begin = at_;
  for (; !Done() && source_[at_] >= '0' && source_[at_] <= '9'; ++at_) {
    value = value * 10 + static_cast<uint32_t>(source_[at_] - '0');
    if (value > kMaxRepeat) return Bad(absl::StrCat("a count is above ", kMaxRepeat));
  }
  if (at_ == begin) return Bad("expected a number");
  return value;
}

absl::Status SplitPatternParser::Counts(Tree* tree) {
  absl::StatusOr<uint32_t> min = Number();
  if (!min.ok()) return min.status();
  tree->min = tree->max = *min;
  if (Take(",")) {
    tree->max = kUnlimited;
    if (!Follows("}")) {
      absl::StatusOr<uint32_t> max = Number();
      if (!max.ok()) return max.status();
      tree->max = *max;
    }
  }
  if (!Take("}")) return Bad("'{' without '}'");
  if (tree->max < tree->min || tree->max == 0) return Bad("a count is empty");
  return absl::OkStatus();
}

absl::Status SplitPatternParser::Bracket(SetSource* set) {
  set->negated = Take("^");
  bool first = true;
  while (first || !Follows("]")) {
    if (Done()) return Bad("'[' without ']'");
    if (Follows("[") || Follows("&&")) return Unknown("a set within a set");
    first = false;
    std::optional<char32_t> low;
    if (Take("\\")) {
      if (auto s = Escape(set, &low); !s.ok()) return s;
      if (!low) continue;
    } else {
      low = TakePoint();
    }
    char32_t high = *low;
    if (Follows("-") && at_ + 1 < source_.size() && source_[at_ + 1] != ']') {
      Take("-");
      if (Take("\\")) {
        std::optional<char32_t> end;
        SetSource unused;
        if (auto s = Escape(&unused, &end); !s.ok()) return s;
        if (!end) return Bad("a range ends with a class");
        high = *end;
      } else {
        high = TakePoint();
      }
      if (high < *low) return Bad("a range is upside down");
    }
    set->ranges.emplace_back(*low, high);
  }
  Take("]");
  return absl::OkStatus();
}

absl::Status SplitPatternParser::Escape(SetSource* set, std::optional<char32_t>* point) {
  if (Done()) return Bad("'\\' at the end");
  const char32_t c = TakePoint();
  switch (c) {
    case 'n':
      *point = '\n';
      return absl::OkStatus();
    case 'r':
      *point = '\r';
      return absl::OkStatus();
    case 't':
      *point = '\t';
      return absl::OkStatus();
    case 'f':
      *point = '\f';
      return absl::OkStatus();
    case 'v':
      *point = '\v';
      return absl::OkStatus();
    case 's':
    case 'S':
      set->classes |= c == 's' ? kSpaces : kAll & ~kSpaces;
      return absl::OkStatus();
    case 'd':
    case 'D':
      set->classes |= c == 'd' ? In(CharClass::kNd) : kAll & ~In(CharClass::kNd);
      return absl::OkStatus();
    case 'w':
    case 'W':
      set->classes |= c == 'w' ? kWord : kAll & ~kWord;
      return absl::OkStatus();
    case 'p':
    case 'P':
      return Property(c == 'P', set);
    default:
      break;
  }
  const bool is_plain = c >= 0x80 || IsIn(ClassOf(c), kPunctuation | kSymbols | kSpaces);
  if (!is_plain) return Unknown(absl::StrCat("'\\", std::string(1, static_cast<char>(c)), "'"));
  *point = c;
  return absl::OkStatus();
}

absl::Status SplitPatternParser::Property(bool negated, SetSource* set) {
  std::string_view name;
  if (Take("{")) {
    if (Take("^")) negated = !negated;
    const size_t end = source_.find('}', at_);
    if (end == source_.npos) return Bad("'{' without '}'");
    name = source_.substr(at_, end - at_);
    at_ = end + 1;
  } else if (!Done()) {
    name = source_.substr(at_++, 1);
  }
  for (const NamedClasses& known : kProperties) {
    if (known.name != name) continue;
    set->classes |= negated ? kAll & ~known.classes : known.classes;
    return absl::OkStatus();
  }
  return Unknown(absl::StrCat("the property ", Quoted(name)));
}

// Simple case folding; only ASCII letters are foldable here.
absl::Status SplitPatternParser::Fold(SetSource* set) const {
  if (set->classes != 0) return Unknown("a class within (?i)");
  const auto ranges = set->ranges;
  for (const auto& [low, high] : ranges) {
    if (high >= 0x80) return Unknown("a character above ASCII within (?i)");
    for (char32_t c = low; c <= high; ++c) {
      const char32_t lower = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
      if (lower < 'a' || lower > 'z') continue;
      set->ranges.emplace_back(lower, lower);
      set->ranges.emplace_back(lower - 'a' + 'A', lower - 'a' + 'A');
      if (lower == 's') set->ranges.emplace_back(0x17F, 0x17F);    // long s
      if (lower == 'k') set->ranges.emplace_back(0x212A, 0x212A);  // Kelvin
    }
  }
  return absl::OkStatus();
}

uint32_t SplitPatternParser::AddSet(const SetSource& source) {
  SplitPattern::Set set;
  set.classes = source.classes;
  set.negated = source.negated;
  for (char32_t c = 0; c < 128; ++c) {
    bool found = IsIn(ClassOf(c), source.classes);
    for (const auto& [low, high] : source.ranges) found = found || (low <= c && c <= high);
    set.ascii[c] = found != source.negated;
  }
  for (const auto& range : source.ranges) {
    if (range.second >= 128) set.ranges.push_back(range);
  }
  pattern_.sets_.push_back(std::move(set));
  return static_cast<uint32_t>(pattern_.sets_.size() - 1);
}

uint32_t SplitPatternParser::Link(const Tree& tree, uint32_t next) {
  SplitPattern::Node node;
  node.next = next;
  switch (tree.kind) {
    case Tree::kSet:
      node.kind = SplitPattern::Node::kSet;
      node.set = AddSet(tree.set);
      node.min = tree.min;
      node.max = tree.max;
      node.possessive = tree.possessive;
      return AddNode(std::move(node));
    case Tree::kLineEnd:
      node.kind = SplitPattern::Node::kLineEnd;
      return AddNode(std::move(node));
    case Tree::kLookAhead:
      node.kind = SplitPattern::Node::kLookAhead;
      node.negated = tree.negated;
      node.branches.push_back(Link(*tree.parts[0], AddNode({})));
      return AddNode(std::move(node));
    case Tree::kSequence:
    case Tree::kAlternatives:
      break;
  }
  uint32_t start = next;
  if (tree.kind == Tree::kSequence) {
    for (auto part = tree.parts.rbegin(); part != tree.parts.rend(); ++part) {
      start = Link(**part, start);
    }
    if (tree.min == 1) return start;
    node.branches.push_back(start);
  } else {
    for (const TreePtr& part : tree.parts) node.branches.push_back(Link(*part, next));
  }
  node.kind = SplitPattern::Node::kBranch;
  if (tree.min == 0) node.branches.push_back(next);
  return AddNode(std::move(node));
}

absl::StatusOr<SplitPattern> SplitPattern::Parse(std::string_view pattern) {
  return SplitPatternParser(pattern).Run();
}

SplitPattern SplitPattern::Literal(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 &&
        IsIn(ClassOf(static_cast<char32_t>(c)), kPunctuation | kSymbols)) {
      escaped += '\\';
    }
    escaped += c;
  }
  return *Parse(escaped);
}

}  // namespace isobit
