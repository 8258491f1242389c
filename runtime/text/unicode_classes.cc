#include "runtime/text/unicode_classes.h"

#include <array>
#include <iterator>

namespace isobit {
namespace {

struct Range {
  char32_t first, last;
  CharClass kind;
};

constexpr CharClass Lu = CharClass::kLu, Ll = CharClass::kLl, Lt = CharClass::kLt,
                    Lm = CharClass::kLm, Lo = CharClass::kLo, Mn = CharClass::kMn,
                    Mc = CharClass::kMc, Me = CharClass::kMe, Nd = CharClass::kNd,
                    Nl = CharClass::kNl, No = CharClass::kNo, Pc = CharClass::kPc,
                    Pd = CharClass::kPd, Ps = CharClass::kPs, Pe = CharClass::kPe,
                    Pi = CharClass::kPi, Pf = CharClass::kPf, Po = CharClass::kPo,
                    Sm = CharClass::kSm, Sc = CharClass::kSc, Sk = CharClass::kSk,
                    So = CharClass::kSo, Z = CharClass::kSeparator, Zc = CharClass::kSpaceControl,
                    Cc = CharClass::kCc, Cf = CharClass::kCf;

constexpr Range kRanges[] = {
#include "runtime/text/unicode_ranges.inc"
};

// One byte a character of the planes that hold all but a few of the ranges; above them lie CJK
// extensions, tags and variation selectors.
constexpr size_t kDirect = 0x20000;

const std::array<CharClass, kDirect>& DirectClasses() {
  static const auto* const kClasses = [] {
    auto* classes = new std::array<CharClass, kDirect>;
    classes->fill(CharClass::kOther);
    for (const Range& range : kRanges) {
      for (char32_t c = range.first; c <= range.last && c < kDirect; ++c)
        (*classes)[c] = range.kind;
    }
    return classes;
  }();
  return *kClasses;
}

}  // namespace

CharClass ClassOf(char32_t point) {
  if (point < kDirect) return DirectClasses()[point];
  for (auto range = std::rbegin(kRanges); range != std::rend(kRanges); ++range) {
    if (range->first <= point) return point <= range->last ? range->kind : CharClass::kOther;
  }
  return CharClass::kOther;
}

bool IsWordChar(char32_t point) {
  constexpr CharClasses kWord =
      kLetters | kMarks | In(CharClass::kNd) | In(CharClass::kNl) | In(CharClass::kPc);
  if (IsIn(ClassOf(point), kWord)) return true;
  return point == 0x200C || point == 0x200D || (point >= 0x24B6 && point <= 0x24E9) ||
         (point >= 0x1F130 && point <= 0x1F149) || (point >= 0x1F150 && point <= 0x1F169) ||
         (point >= 0x1F170 && point <= 0x1F189);
}

}  // namespace isobit
