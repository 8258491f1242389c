#ifndef ISOBIT_RUNTIME_TEXT_JINJA_EVALUATOR_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_EVALUATOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/budget.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// The text of a parsed template. `variables` are its global names; raise_exception(message) exists
// besides. Errors: InvalidArgument (raise_exception, or a value that does not serve), Unimplemented
// (a filter, test, function or method that is not supported, by name), ResourceExhausted
// (`limits`).
absl::StatusOr<std::string> Render(const Block& block, const Map& variables,
                                   const Limits& limits = {});

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_EVALUATOR_H_
