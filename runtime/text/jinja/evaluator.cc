// Statements; expressions are in expression_evaluator.cc.
#include "runtime/text/jinja/evaluator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/jinja/expression_evaluator.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/operators.h"
#include "runtime/text/jinja/text_form.h"

namespace isobit::jinja {

// How a block ends.
enum class Flow { kOn, kBreak, kContinue };

class StatementEvaluator : public MacroCaller {
 public:
  StatementEvaluator(Context& context, const Map& variables)
      : context_(context), expressions_(context, scopes_, *this) {
    for (const auto& [name, value] : variables.entries)
      scopes_.innermost().Set(*name.text(), value);
  }

  Flow Execute(const Block& block);
  std::string TakeOutput() { return std::move(output_); }

  Value CallMacro(const Callable& macro, const Arguments& arguments, const Value* caller) override;

 private:
  Flow Execute(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  void ExecuteSet(const Statement& statement);
  void ExecuteCall(const Statement& statement);
  void ExecuteWith(const Statement& statement);
  Flow InScope(const Block& block);
  void Print(std::string_view text);
  // What a block prints, in a scope of its own.
  std::string Captured(const Block& block);
  void Assign(const std::vector<std::string>& targets, const Value& value);
  void BindParameters(const Statement& macro, const Callable& callable, const Arguments& arguments,
                      Scope* scope);

  Context& context_;
  Scopes scopes_;
  ExpressionEvaluator expressions_;
  std::string output_;
};

void StatementEvaluator::Print(std::string_view text) {
  if (context_.Bytes(text.size())) output_ += text;
}

Flow StatementEvaluator::Execute(const Block& block) {
  for (const auto& statement : block) {
    const Flow flow = Execute(*statement);
    if (flow != Flow::kOn || !context_.ok()) return flow;
  }
  return Flow::kOn;
}

Flow StatementEvaluator::InScope(const Block& block) {
  Scopes::Opened opened(scopes_, &scopes_.innermost());
  return Execute(block);
}

std::string StatementEvaluator::Captured(const Block& block) {
  std::string outside = std::exchange(output_, std::string());
  InScope(block);
  return std::exchange(output_, std::move(outside));
}

Flow StatementEvaluator::Execute(const Statement& statement) {
  context_.line = statement.line;
  if (!context_.Step()) return Flow::kOn;
  const DepthGuard guard(context_, expressions_.depth());
  if (!context_.ok()) return Flow::kOn;
  switch (statement.kind) {
    case Statement::kText:
      Print(statement.text);
      break;
    case Statement::kOutput:
      Print(Str(context_, expressions_.Evaluate(*statement.expression)));
      break;
    case Statement::kIf: {
      const bool holds = expressions_.Evaluate(*statement.expression).IsTrue();
      if (!context_.ok()) break;
      return Execute(holds ? statement.body : statement.otherwise);
    }
    case Statement::kFor:
      return ExecuteFor(statement);
    case Statement::kSet:
      ExecuteSet(statement);
      break;
    case Statement::kSetBlock: {
      Value value(Captured(statement.body));
      if (statement.expression != nullptr) {
        value = expressions_.ApplyFilters(*statement.expression, std::move(value));
      }
      if (statement.attribute.empty()) {
        Assign(statement.targets, value);
      } else {
        context_.FailUnsupported("{% set x.y %} as a block");
      }
      break;
    }
    case Statement::kMacro: {
      scopes_.innermost().Keep();
      Callable macro{Callable::kMacro, statement.text, Value(), &statement, &scopes_.innermost()};
      scopes_.innermost().Set(statement.text, Value::MakeCallable(std::move(macro)));
      break;
    }
    case Statement::kCall:
      ExecuteCall(statement);
      break;
    case Statement::kFilter:
      Print(Str(context_,
                expressions_.ApplyFilters(*statement.expression, Value(Captured(statement.body)))));
      break;
    case Statement::kWith:
      ExecuteWith(statement);
      break;
    case Statement::kScope:
      return InScope(statement.body);
    case Statement::kBreak:
      return Flow::kBreak;
    case Statement::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

void StatementEvaluator::Assign(const std::vector<std::string>& targets, const Value& value) {
  if (!context_.ok()) return;
  if (targets.size() == 1) {
    scopes_.innermost().Set(targets[0], value);
    return;
  }
  const List parts = Elements(context_, value);
  if (value.undefined() != nullptr || parts.size() != targets.size()) {
    context_.Fail(
        absl::StrCat("expected ", targets.size(), " values to unpack, got ", parts.size()));
    return;
  }
  for (size_t i = 0; i < targets.size(); ++i) scopes_.innermost().Set(targets[i], parts[i]);
}

void StatementEvaluator::ExecuteSet(const Statement& statement) {
  const Value value = expressions_.Evaluate(*statement.expression);
  if (!context_.ok()) return;
  if (statement.attribute.empty()) {
    Assign(statement.targets, value);
    return;
  }
  const Value* target = scopes_.innermost().Find(statement.targets[0]);
  if (target == nullptr || target->name_space() == nullptr) {
    context_.Fail("cannot assign attribute on non-namespace object");
  } else if (value.name_space() != nullptr) {
    context_.FailUnsupported("a namespace in a namespace");
  } else {
    target->name_space()->Set(statement.attribute, value);
  }
}

Flow StatementEvaluator::ExecuteFor(const Statement& statement) {
  const Value value = expressions_.Evaluate(*statement.expression);
  if (!context_.ok()) return Flow::kOn;
  List elements = Elements(context_, value);
  if (statement.condition != nullptr) {
    List kept;
    for (Value& element : elements) {
      Scopes::Opened opened(scopes_, &scopes_.innermost());
      Assign(statement.targets, element);
      if (!context_.Step()) return Flow::kOn;
      if (expressions_.Evaluate(*statement.condition).IsTrue()) kept.push_back(std::move(element));
    }
    elements = std::move(kept);
  }
  if (!context_.ok()) return Flow::kOn;
  if (elements.empty()) return InScope(statement.otherwise);
  const auto shared = std::make_shared<const List>(std::move(elements));
  Flow flow = Flow::kOn;
  for (size_t i = 0; i < shared->size() && flow != Flow::kBreak && context_.Step(); ++i) {
    Scopes::Opened opened(scopes_, &scopes_.innermost());
    Callable loop{Callable::kLoop, "loop"};
    loop.elements = shared;
    loop.index = i;
    Assign(statement.targets, (*shared)[i]);
    scopes_.innermost().Set("loop", Value::MakeCallable(std::move(loop)));
    flow = Execute(statement.body);
  }
  return Flow::kOn;
}

void StatementEvaluator::ExecuteWith(const Statement& statement) {
  // The values don't see each other.
  List values;
  for (const auto& value : statement.values) values.push_back(expressions_.Evaluate(*value));
  Scopes::Opened opened(scopes_, &scopes_.innermost());
  for (size_t i = 0; i < values.size(); ++i) {
    scopes_.innermost().Set(statement.targets[i], values[i]);
  }
  Execute(statement.body);
}

// The body becomes the macro `caller` of the macro that is called.
void StatementEvaluator::ExecuteCall(const Statement& statement) {
  scopes_.innermost().Keep();
  Callable body{Callable::kMacro, "caller", Value(), &statement, &scopes_.innermost()};
  const Value caller = Value::MakeCallable(std::move(body));
  Print(Str(context_, expressions_.Call(*statement.expression, &caller)));
}

void StatementEvaluator::BindParameters(const Statement& macro, const Callable& callable,
                                        const Arguments& arguments, Scope* scope) {
  const auto& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    context_.Fail(absl::StrCat("macro '", callable.name, "' takes not more than ",
                               parameters.size(), " arguments"));
  }
  for (const auto& [name, value] : arguments.keywords) {
    bool known = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      known = known || (parameters[i].name == name && i >= arguments.positional.size());
    }
    if (!known) {
      context_.Fail(absl::StrCat("macro '", callable.name, "' takes no argument '", name, "'"));
    }
  }
  for (size_t i = 0; i < parameters.size() && context_.ok(); ++i) {
    const Parameter& parameter = parameters[i];
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
    for (const auto& [name, value] : arguments.keywords) {
      if (name == parameter.name) given = &value;
    }
    if (given != nullptr) {
      scope->Set(parameter.name, *given);
    } else if (parameter.preset != nullptr) {
      scope->Set(parameter.name, expressions_.Evaluate(*parameter.preset));
    } else {
      scope->Set(parameter.name, Value::MakeUndefined(absl::StrCat("parameter '", parameter.name,
                                                                   "' was not provided")));
    }
  }
}

Value StatementEvaluator::CallMacro(const Callable& macro, const Arguments& arguments,
                                    const Value* caller) {
  const DepthGuard guard(context_, expressions_.depth());
  if (!context_.Step()) return Value();
  Scopes::Opened opened(scopes_, macro.scope);
  Scope& scope = scopes_.innermost();
  if (caller != nullptr) scope.Set("caller", *caller);
  BindParameters(*macro.macro, macro, arguments, &scope);
  std::string outside = std::exchange(output_, std::string());
  if (context_.ok()) Execute(macro.macro->body);
  return Value(std::exchange(output_, std::move(outside)));
}

absl::StatusOr<std::string> Render(const Block& block, const Map& variables, const Limits& limits,
                                   const std::tm& now) {
  Context context(limits, now);
  StatementEvaluator evaluator(context, variables);
  evaluator.Execute(block);
  if (!context.ok()) return context.status();
  return evaluator.TakeOutput();
}

}  // namespace isobit::jinja
