#ifndef ISOBIT_TESTS_MODEL_PATH_H_
#define ISOBIT_TESTS_MODEL_PATH_H_

#include <cstdlib>
#include <string>

namespace isobit {

// The real model that tests run on: $ISOBIT_TEST_MODEL, or where the set-up script puts it. Tests
// that need it fail if it is missing; they never pass without having run.
inline std::string TestModelPath() {
  const char* path = std::getenv("ISOBIT_TEST_MODEL");
  if (path != nullptr && *path != '\0') return path;
  return ISOBIT_SOURCE_DIR "/build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

// Where vocabularies and chat templates of llama.cpp lie: $ISOBIT_TEST_VOCAB_DIR, or where the
// set-up script puts them.
inline std::string TestVocabularyFolder() {
  const char* path = std::getenv("ISOBIT_TEST_VOCAB_DIR");
  if (path != nullptr && *path != '\0') return path;
  return ISOBIT_SOURCE_DIR "/build/vocab";
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_MODEL_PATH_H_
