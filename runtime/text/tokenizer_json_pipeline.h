// Internal to tokenizer_json.cc: the parts of tokenizer.json that say how text is treated before
// and after the model.
#ifndef ISOBIT_RUNTIME_TEXT_TOKENIZER_JSON_PIPELINE_H_
#define ISOBIT_RUNTIME_TEXT_TOKENIZER_JSON_PIPELINE_H_

#include "absl/status/status.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_json_file.h"

namespace isobit {

// Each reads one part, which may be null, into `tables`. Unimplemented names the type or option
// that is not supported.
absl::Status ReadNormalizer(const Json& part, TokenizerTables* tables);
// Sets `tables->alphabet` to bytes if there is a step ByteLevel.
absl::Status ReadPreTokenizer(const Json& part, TokenizerTables* tables);
absl::Status ReadDecoder(const Json& part, TokenizerTables* tables);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TOKENIZER_JSON_PIPELINE_H_
