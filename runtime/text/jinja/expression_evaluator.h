// Internal to evaluator.cc: what expressions give.
#ifndef ISOBIT_RUNTIME_TEXT_JINJA_EXPRESSION_EVALUATOR_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_EXPRESSION_EVALUATOR_H_

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/scope.h"

namespace isobit::jinja {

// Runs a macro's body, which is statements.
class MacroCaller {
 public:
  virtual ~MacroCaller() = default;
  // `caller` is the body of a {% call %}, or null.
  virtual Value CallMacro(const Callable& macro, const Arguments& arguments,
                          const Value* caller) = 0;
};

// Counts how deeply rendering nests, statements and expressions together; an error beyond
// kMaxRenderDepth.
class DepthGuard {
 public:
  DepthGuard(Context& context, int* depth);
  ~DepthGuard() { --*depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int* depth_;
};

class ExpressionEvaluator {
 public:
  ExpressionEvaluator(Context& context, Scopes& scopes, MacroCaller& macros)
      : context_(context), scopes_(scopes), macros_(macros) {}

  // Meaningless if the context then holds an error.
  Value Evaluate(const Expression& e);
  // A kCall; `caller` is passed to the macro that is called.
  Value Call(const Expression& e, const Value* caller);
  // A chain of filters whose innermost has no operand: that is `value`.
  Value ApplyFilters(const Expression& e, Value value);

  int* depth() { return &depth_; }

 private:
  Value Name(const Expression& e);
  Value Sequence(const Expression& e);
  Value Dict(const Expression& e);
  Value SliceOf(const Expression& e);
  Value Comparison(const Expression& e);
  Value Conditional(const Expression& e);
  Arguments EvaluateArguments(const Expression& e);

  Context& context_;
  Scopes& scopes_;
  MacroCaller& macros_;
  int depth_ = 0;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_EXPRESSION_EVALUATOR_H_
