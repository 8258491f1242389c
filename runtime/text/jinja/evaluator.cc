#include "runtime/text/jinja/evaluator.h"

#include <utility>
#include <vector>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/operators.h"

namespace isobit::jinja {
namespace {

using ValueOr = absl::StatusOr<Value>;

// Recursion follows the tree, whose height the parser has bounded.
class Evaluator {
 public:
  Evaluator(const Map& variables, const Limits& limits) : budget_(limits) {
    scopes_.push_back(variables);
  }

  absl::Status Execute(const Block& block);
  std::string TakeOutput() { return std::move(output_); }

 private:
  absl::Status Execute(const Statement& statement);
  absl::Status ExecuteFor(const Statement& statement);
  absl::Status Print(std::string_view text);

  ValueOr Evaluate(const Expression& e);
  ValueOr EvaluateName(const Expression& e);
  ValueOr EvaluateList(const Expression& e);
  ValueOr EvaluateCall(const Expression& e);
  ValueOr EvaluateFilter(const Expression& e);
  ValueOr EvaluateCompare(const Expression& e);
  ValueOr EvaluateConditional(const Expression& e);

  const Value* Find(std::string_view name) const;
  void Assign(const std::string& name, Value value);
  Operators At(const Expression& e) { return {budget_, e.line}; }

  Budget budget_;
  std::vector<Map> scopes_;  // the innermost last; a loop's body has one of its own
  std::string output_;
};

const Value* Evaluator::Find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const Value* value = scope->Find(name)) return value;
  }
  return nullptr;
}

void Evaluator::Assign(const std::string& name, Value value) {
  for (auto& [known, old] : scopes_.back().entries) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  scopes_.back().entries.emplace_back(name, std::move(value));
}

absl::Status Evaluator::Print(std::string_view text) {
  if (auto s = budget_.Bytes(text.size()); !s.ok()) return s;
  output_ += text;
  return absl::OkStatus();
}

absl::Status Evaluator::Execute(const Block& block) {
  for (const auto& statement : block) {
    if (auto s = Execute(*statement); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Evaluator::Execute(const Statement& statement) {
  if (auto s = budget_.Step(); !s.ok()) return s;
  if (statement.kind == Statement::kText) return Print(statement.text);
  if (statement.kind == Statement::kFor) return ExecuteFor(statement);
  ValueOr value = Evaluate(*statement.expression);
  if (!value.ok()) return value.status();
  if (statement.kind == Statement::kIf) {
    return Execute(value->IsTrue() ? statement.body : statement.otherwise);
  }
  if (statement.kind == Statement::kSet) {
    Assign(statement.text, *std::move(value));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> text = At(*statement.expression).Text(*value);
  if (!text.ok()) return text.status();
  return Print(*text);
}

// What `loop` is in round `index` of `count`.
Map LoopObject(int64_t index, int64_t count) {
  Map loop;
  loop.builtin = "loop";
  loop.entries = {{"index0", Value(index)},
                  {"index", Value(index + 1)},
                  {"revindex0", Value(count - 1 - index)},
                  {"revindex", Value(count - index)},
                  {"first", Value(index == 0)},
                  {"last", Value(index + 1 == count)},
                  {"length", Value(count)}};
  return loop;
}

absl::Status Evaluator::ExecuteFor(const Statement& statement) {
  ValueOr value = Evaluate(*statement.expression);
  if (!value.ok()) return value.status();
  absl::StatusOr<List> elements = At(*statement.expression).Elements(*value);
  if (!elements.ok()) return elements.status();
  if (elements->empty()) return Execute(statement.otherwise);
  const auto count = static_cast<int64_t>(elements->size());
  for (int64_t i = 0; i < count; ++i) {
    Map scope;
    scope.entries.emplace_back(statement.text, (*elements)[static_cast<size_t>(i)]);
    scope.entries.emplace_back("loop", Value(LoopObject(i, count)));
    scopes_.push_back(std::move(scope));
    absl::Status status = budget_.Step();
    if (status.ok()) status = Execute(statement.body);
    scopes_.pop_back();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

ValueOr Evaluator::Evaluate(const Expression& e) {
  if (auto s = budget_.Step(); !s.ok()) return s;
  switch (e.kind) {
    case Expression::kLiteral:
      return e.value;
    case Expression::kName:
      return EvaluateName(e);
    case Expression::kList:
      return EvaluateList(e);
    case Expression::kCall:
      return EvaluateCall(e);
    case Expression::kFilter:
      return EvaluateFilter(e);
    case Expression::kCompare:
      return EvaluateCompare(e);
    case Expression::kConditional:
      return EvaluateConditional(e);
    default:
      break;
  }
  ValueOr first = Evaluate(*e.args[0]);
  if (!first.ok()) return first;
  switch (e.kind) {
    case Expression::kAttribute:
      return At(e).Attribute(*first, e.text);
    case Expression::kTest:
      return At(e).Test(e.text, *first);
    case Expression::kNot:
      return Value(!first->IsTrue());
    case Expression::kNegate:
      return At(e).Negate(*first);
    case Expression::kAnd:
      return first->IsTrue() ? Evaluate(*e.args[1]) : first;
    case Expression::kOr:
      return first->IsTrue() ? first : Evaluate(*e.args[1]);
    default:
      break;
  }
  ValueOr second = Evaluate(*e.args[1]);
  if (!second.ok()) return second;
  if (e.kind == Expression::kItem) return At(e).Item(*first, *second);
  return At(e).Binary(e.text, *first, *second);
}

ValueOr Evaluator::EvaluateName(const Expression& e) {
  if (const Value* value = Find(e.text)) return *value;
  // Functions of Jinja and of Hugging Face's environment.
  for (const std::string_view function : {"raise_exception", "strftime_now", "range", "namespace",
                                          "dict", "lipsum", "cycler", "joiner"}) {
    if (e.text == function) return Unsupported(e.line, e.text);
  }
  return Value::MakeUndefined(absl::StrCat("'", e.text, "' is undefined"));
}

ValueOr Evaluator::EvaluateList(const Expression& e) {
  if (auto s = budget_.Bytes(e.args.size() * sizeof(Value)); !s.ok()) return s;
  List list;
  for (const auto& arg : e.args) {
    ValueOr value = Evaluate(*arg);
    if (!value.ok()) return value;
    // So values don't nest: what the caller's variables hold is as deep as it gets.
    if (value->list() != nullptr || value->map() != nullptr) {
      return Unsupported(e.line, absl::StrCat("a list of ", Absl(value->TypeName())));
    }
    list.push_back(*std::move(value));
  }
  return Value(std::move(list));
}

ValueOr Evaluator::EvaluateCall(const Expression& e) {
  const Expression& callee = *e.args[0];
  if (callee.kind == Expression::kAttribute) {
    return Unsupported(e.line, absl::StrCat(".", callee.text, "()"));
  }
  if (callee.kind != Expression::kName || Find(callee.text) != nullptr) {
    return Error(e.line, "what is called is not a function");
  }
  if (callee.text != "raise_exception") return Unsupported(e.line, callee.text + "()");
  std::string message;
  if (e.args.size() > 1) {
    ValueOr value = Evaluate(*e.args[1]);
    if (!value.ok()) return value;
    absl::StatusOr<std::string> text = At(e).Text(*value);
    if (!text.ok()) return text.status();
    message = *std::move(text);
  }
  return absl::InvalidArgumentError(absl::StrCat("chat template: ", message));
}

ValueOr Evaluator::EvaluateFilter(const Expression& e) {
  if (e.args.size() > 1) return Unsupported(e.line, absl::StrCat("|", e.text, "(...)"));
  ValueOr value = Evaluate(*e.args[0]);
  if (!value.ok()) return value;
  return At(e).Filter(e.text, *value);
}

ValueOr Evaluator::EvaluateCompare(const Expression& e) {
  ValueOr left = Evaluate(*e.args[0]);
  if (!left.ok()) return left;
  for (size_t i = 0; i < e.operators.size(); ++i) {
    ValueOr right = Evaluate(*e.args[i + 1]);
    if (!right.ok()) return right;
    absl::StatusOr<bool> holds = At(e).Compare(e.operators[i], *left, *right);
    if (!holds.ok()) return holds.status();
    if (!*holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

ValueOr Evaluator::EvaluateConditional(const Expression& e) {
  ValueOr condition = Evaluate(*e.args[1]);
  if (!condition.ok()) return condition;
  if (condition->IsTrue()) return Evaluate(*e.args[0]);
  if (e.args.size() > 2) return Evaluate(*e.args[2]);
  return Value::MakeUndefined("an if without else gave no value");
}

}  // namespace

absl::StatusOr<std::string> Render(const Block& block, const Map& variables, const Limits& limits) {
  Evaluator evaluator(variables, limits);
  if (auto s = evaluator.Execute(block); !s.ok()) return s;
  return evaluator.TakeOutput();
}

}  // namespace isobit::jinja
