#ifndef ISOBIT_RUNTIME_TEXT_JINJA_EVALUATOR_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_EVALUATOR_H_

#include <ctime>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// The deepest that calls, statements and expressions nest while rendering.
inline constexpr int kMaxRenderDepth = 1000;

// The text of a parsed template. `variables` are its global names; besides there are
// raise_exception(message), strftime_now(format) of `now`, range, namespace and dict. Errors:
// InvalidArgument (raise_exception, or a value that does not serve), Unimplemented (a filter, test,
// function or method that is not supported, by name), ResourceExhausted (`limits`, depth).
absl::StatusOr<std::string> Render(const Block& block, const Map& variables,
                                   const Limits& limits = {}, const std::tm& now = {});

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_EVALUATOR_H_
