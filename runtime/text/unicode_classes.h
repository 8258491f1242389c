#ifndef ISOBIT_RUNTIME_TEXT_UNICODE_CLASSES_H_
#define ISOBIT_RUNTIME_TEXT_UNICODE_CLASSES_H_

#include <cstdint>

namespace isobit {

// The classes that pre-tokenizers ask for; no character is in two of them.
enum class CharClass : uint8_t {
  kOther,
  kLetter,       // general categories L*  (\p{L})
  kNumber,       // general categories N*  (\p{N})
  kPunctuation,  // general categories P*  (\p{P})
  kSpace,        // property White_Space   (\s)
};

// By Unicode 16.0, the version of Hugging Face's tokenizers 0.23. The tables are our own,
// so that token ids don't depend on the Unicode version of a system library.
CharClass ClassOf(char32_t point);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_UNICODE_CLASSES_H_
