#ifndef ISOBIT_RUNTIME_TEXT_JINJA_PARSER_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/ast.h"

namespace isobit::jinja {

// Deepest nesting of statements and of expressions.
inline constexpr int kMaxNesting = 100;

// Parses a template. InvalidArgument for a syntax error, with its line; Unimplemented for
// statements and forms of expressions that are not supported, by name; ResourceExhausted for
// nesting deeper than kMaxNesting.
//
// Statements: if, for (with a condition, else, break, continue), set (also of several names, of a
// namespace's attribute, and as a block), macro, call, filter, with, generation. Expressions: all
// of Jinja's but *args and **kwargs. Which filters, tests and functions exist is the evaluator's
// matter.
absl::StatusOr<Block> Parse(std::string_view source);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_PARSER_H_
