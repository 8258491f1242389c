#include "runtime/model/family.h"

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

constexpr const Family* kFamilies[] = {
    &kLlama, &kMistral, &kQwen2, &kQwen3,  &kSmolLm3, &kPhi3,
    &kOlmo2, &kGranite, &kGemma, &kGemma2, &kGemma3,
};

std::string_view NameIn(bool gguf, const Family& family) {
  return gguf ? family.gguf : family.hugging_face;
}

}  // namespace

std::span<const Family* const> AllFamilies() { return kFamilies; }

const Family* FindFamily(bool gguf, std::string_view name) {
  for (const Family* family : kFamilies) {
    if (!name.empty() && NameIn(gguf, *family) == name) return family;
  }
  return nullptr;
}

std::string FamilyNames(bool gguf) {
  std::string names;
  for (const Family* family : kFamilies) {
    const std::string_view name = NameIn(gguf, *family);
    if (!name.empty()) absl::StrAppend(&names, names.empty() ? "" : ", ", Absl(name));
  }
  return names;
}

}  // namespace isobit
