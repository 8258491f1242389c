#ifndef ISOBIT_TOOLS_ISOBIT_STREAM_H_
#define ISOBIT_TOOLS_ISOBIT_STREAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/engine/engine.h"
#include "tools/isobit/output_file.h"

namespace isobit {

struct Streamed {
  Completion completion;  // of one choice
  double first_token_seconds = 0;
  double decode_seconds = 0;  // from the first token to the last
};

// Runs one request of one choice and writes its text to `output` as it is drawn, with a line end
// behind it. An interrupt, or an output that can't be written, cancels it; the latter is an error.
absl::StatusOr<Streamed> StreamText(Engine& engine, Request request, OutputFile& output);

// "digest 0123...  seed 7  5 + 24 tokens (length)  first after 0.12 s, then 131.2 tok/s"
std::string Summary(const Streamed& streamed);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_STREAM_H_
