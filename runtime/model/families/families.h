#ifndef ISOBIT_RUNTIME_MODEL_FAMILIES_FAMILIES_H_
#define ISOBIT_RUNTIME_MODEL_FAMILIES_FAMILIES_H_

// Each family's one definition; runtime/model/family.cc lists them.

#include "runtime/model/family.h"

namespace isobit {

extern const Family kLlama;    // Llama 1 to 3, SmolLM2, and what is trained on that code
extern const Family kMistral;  // in GGUF files it is llama
extern const Family kQwen2;    // and 2.5
extern const Family kQwen3;
extern const Family kSmolLm3;
extern const Family kPhi3;
extern const Family kOlmo2;
extern const Family kGranite;
extern const Family kGemma;
extern const Family kGemma2;
extern const Family kGemma3;  // the text models

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_FAMILIES_FAMILIES_H_
