// Internal to the readers of tokenizer.json: the file as JSON, its two long tables apart.
#ifndef ISOBIT_RUNTIME_TEXT_TOKENIZER_JSON_FILE_H_
#define ISOBIT_RUNTIME_TEXT_TOKENIZER_JSON_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace isobit {

// Objects keep their order, so that nothing depends on a hash.
using Json = nlohmann::ordered_json;

struct TokenizerJsonFile {
  Json root;  // without model.vocab and model.merges
  bool has_vocab = false, has_merges = false;
  std::vector<std::pair<std::string, int64_t>> vocab;       // in the file's order
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
};

// InvalidArgument if `text` is no JSON object, is nested too deeply, or if one of the two tables
// has entries of another form (an id that is no integer, a merge that is not two pieces).
absl::StatusOr<TokenizerJsonFile> ParseTokenizerJson(std::string_view text);

// The same rules for a file without the tables.
absl::StatusOr<Json> ParseJsonObject(std::string_view text);

// Readers of optional members: null counts as missing. InvalidArgument names the member and what
// it holds.
absl::Status ReadMember(const Json& object, const char* name, bool* out);
absl::Status ReadMember(const Json& object, const char* name, std::string* out);
absl::Status ReadMember(const Json& object, const char* name, int64_t* out);
// The member, or null if it is missing.
const Json& Member(const Json& object, const char* name);

// The member "type" of a part such as a normalizer.
absl::StatusOr<std::string> TypeOf(const Json& part, std::string_view what);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TOKENIZER_JSON_FILE_H_
