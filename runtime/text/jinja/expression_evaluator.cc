#include "runtime/text/jinja/expression_evaluator.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/evaluator.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/functions.h"
#include "runtime/text/jinja/methods.h"
#include "runtime/text/jinja/operators.h"

namespace isobit::jinja {

DepthGuard::DepthGuard(Context& context, int* depth) : depth_(depth) {
  if (++*depth_ > kMaxRenderDepth) {
    context.FailWith(LimitReached("rendering nests too deeply", kMaxRenderDepth));
  }
}

Value ExpressionEvaluator::Evaluate(const Expression& e) {
  context_.line = e.line;
  const DepthGuard guard(context_, &depth_);
  if (!context_.Step()) return Value();
  switch (e.kind) {
    case Expression::kLiteral:
      return e.value;
    case Expression::kName:
      return Name(e);
    case Expression::kList:
    case Expression::kTuple:
      return Sequence(e);
    case Expression::kDict:
      return Dict(e);
    case Expression::kSlice:
      return SliceOf(e);
    case Expression::kCall:
      return Call(e, nullptr);
    case Expression::kFilter:
      return ApplyFilters(e, Value());
    case Expression::kCompare:
      return Comparison(e);
    case Expression::kConditional:
      return Conditional(e);
    default:
      break;
  }
  Value first = Evaluate(*e.args[0]);
  if (!context_.ok()) return first;
  context_.line = e.line;
  switch (e.kind) {
    case Expression::kAttribute:
      return Attribute(context_, first, e.text);
    case Expression::kTest: {
      const Arguments arguments = EvaluateArguments(e);
      return Value(context_.ok() && ApplyTest(context_, e.text, first, arguments));
    }
    case Expression::kNot:
      return Value(!first.IsTrue());
    case Expression::kNegate:
      return Negate(context_, first);
    case Expression::kPositive:
      if (!first.is_number()) return context_.Fail("'+' needs a number");
      return Negate(context_, Negate(context_, first));
    case Expression::kAnd:
      return first.IsTrue() ? Evaluate(*e.args[1]) : first;
    case Expression::kOr:
      return first.IsTrue() ? first : Evaluate(*e.args[1]);
    default:
      break;
  }
  const Value second = Evaluate(*e.args[1]);
  if (!context_.ok()) return second;
  context_.line = e.line;
  if (e.kind == Expression::kItem) return Item(context_, first, second);
  return Binary(context_, e.text, first, second);
}

Value ExpressionEvaluator::Name(const Expression& e) {
  if (const Value* value = scopes_.innermost().Find(e.text)) return *value;
  if (IsFunction(e.text)) {
    Callable function{Callable::kFunction, e.text};
    return Value::MakeCallable(std::move(function));
  }
  if (e.text == "varargs" || e.text == "kwargs") return context_.FailUnsupported(e.text);
  return Value::MakeUndefined(absl::StrCat("'", e.text, "' is undefined"));
}

Value ExpressionEvaluator::Sequence(const Expression& e) {
  if (!context_.Bytes(e.args.size() * sizeof(Value))) return Value();
  List list;
  for (const auto& arg : e.args) list.push_back(Evaluate(*arg));
  const auto kind = e.kind == Expression::kTuple ? Value::Sequence::kTuple : Value::Sequence::kList;
  return context_.Nested(Value::MakeSequence(std::move(list), kind));
}

Value ExpressionEvaluator::Dict(const Expression& e) {
  if (!context_.Bytes(e.args.size() * sizeof(Value))) return Value();
  Map map;
  for (size_t i = 0; i + 1 < e.args.size(); i += 2) {
    const Value key = Evaluate(*e.args[i]);
    Value value = Evaluate(*e.args[i + 1]);
    if (!context_.ok()) return Value();
    if (key.text() == nullptr && key.integer() == nullptr) {
      return context_.FailUnsupported(absl::StrCat("a dict's key of type ", Absl(key.TypeName())));
    }
    map.Set(key, std::move(value));
  }
  return context_.Nested(Value(std::move(map)));
}

Value ExpressionEvaluator::SliceOf(const Expression& e) {
  const Value base = Evaluate(*e.args[0]);
  std::optional<Value> parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (e.args[i + 1] != nullptr) parts[i] = Evaluate(*e.args[i + 1]);
  }
  if (!context_.ok()) return Value();
  const auto part = [&](size_t i) { return parts[i] ? &*parts[i] : nullptr; };
  return Slice(context_, base, part(0), part(1), part(2));
}

Arguments ExpressionEvaluator::EvaluateArguments(const Expression& e) {
  Arguments arguments;
  for (size_t i = 1; i < e.args.size() && context_.ok(); ++i) {
    arguments.positional.push_back(Evaluate(*e.args[i]));
  }
  for (const auto& [name, value] : e.keywords) {
    if (!context_.ok()) break;
    arguments.keywords.emplace_back(name, Evaluate(*value));
  }
  context_.line = e.line;
  return arguments;
}

Value ExpressionEvaluator::ApplyFilters(const Expression& e, Value value) {
  const DepthGuard guard(context_, &depth_);
  const Expression* operand = e.args[0].get();
  if (operand != nullptr) {
    const bool is_chain = operand->kind == Expression::kFilter;
    value = is_chain ? ApplyFilters(*operand, std::move(value)) : Evaluate(*operand);
  }
  const Arguments arguments = EvaluateArguments(e);
  if (!context_.ok()) return Value();
  return ApplyFilter(context_, e.text, value, arguments);
}

Value ExpressionEvaluator::Call(const Expression& e, const Value* caller) {
  const Value callee = Evaluate(*e.args[0]);
  const Arguments arguments = EvaluateArguments(e);
  if (!context_.ok()) return Value();
  if (!context_.CheckDefined(callee)) return Value();
  const Callable* callable = callee.callable();
  if (callable == nullptr || callable->kind == Callable::kLoop) {
    return context_.Fail(absl::StrCat("'", Absl(callee.TypeName()), "' object is not a function"));
  }
  if (callable->kind == Callable::kMacro) return macros_.CallMacro(*callable, arguments, caller);
  if (caller != nullptr) return context_.Fail("what is called takes no 'caller'");
  if (callable->kind == Callable::kMethod) return CallMethod(context_, *callable, arguments);
  return jinja::CallFunction(context_, callable->name, arguments);
}

Value ExpressionEvaluator::Comparison(const Expression& e) {
  Value left = Evaluate(*e.args[0]);
  for (size_t i = 0; i < e.operators.size() && context_.ok(); ++i) {
    Value right = Evaluate(*e.args[i + 1]);
    if (!context_.ok()) break;
    context_.line = e.line;
    if (!Compare(context_, e.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value ExpressionEvaluator::Conditional(const Expression& e) {
  const bool holds = Evaluate(*e.args[1]).IsTrue();
  if (!context_.ok()) return Value();
  if (holds) return Evaluate(*e.args[0]);
  if (e.args.size() > 2) return Evaluate(*e.args[2]);
  return Value::MakeUndefined("the inline if-expression evaluated to false and no else is defined");
}

}  // namespace isobit::jinja
