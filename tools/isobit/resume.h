#ifndef ISOBIT_TOOLS_ISOBIT_RESUME_H_
#define ISOBIT_TOOLS_ISOBIT_RESUME_H_

// Taking up a batch where an earlier, interrupted run left its output.

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/receipt/digest.h"
#include "tools/isobit/line_reader.h"
#include "tools/isobit/output_file.h"

namespace isobit {

struct Answered {
  int64_t requests = 0;  // whole lines in the output
  int64_t failed = 0;    // of these, errors
};

// Reads the whole lines of `output` beside the requests of `input`, which is then at the first
// request without an answer, and cuts off a torn last line. Nothing is changed and
// FailedPrecondition says which line is wrong if an answer is not of its request: another id, other
// prompt tokens or seed, or another model or contract. REQUIRES: output.is_regular().
absl::StatusOr<Answered> ResumeAfter(const Digest& model_digest, LineReader& input,
                                     OutputFile& output);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_RESUME_H_
