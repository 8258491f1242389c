#ifndef ISOBIT_RUNTIME_TEXT_JINJA_EXPRESSION_PARSER_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_EXPRESSION_PARSER_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/token_stream.h"

namespace isobit::jinja {

using ExpressionOr = absl::StatusOr<std::unique_ptr<Expression>>;

// Recursive descent over Jinja's grammar of expressions, one function a level of precedence,
// loosest first. Both the depth of the recursion and the height of what is built are bounded by
// kMaxNesting.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream* tokens) : tokens_(*tokens) {}

  // One expression.
  ExpressionOr Parse() { return Conditional(); }

  // One expression or several with commas between, which are a tuple. `conditions`: whether
  // `x if c else y` may stand there; behind `if` and `for ... in` it may not.
  ExpressionOr ParseTuple(bool conditions = true);

  // `name(...) | name ...`, as in {% filter %} and behind {% set x %}.
  ExpressionOr ParseFilterNames();

 private:
  ExpressionOr Conditional();
  ExpressionOr Or();
  ExpressionOr And();
  ExpressionOr Not();
  ExpressionOr Compare();
  ExpressionOr Sum();
  ExpressionOr Concatenation();
  ExpressionOr Product();
  ExpressionOr Power();
  ExpressionOr Unary(bool with_filters);
  ExpressionOr Primary();
  ExpressionOr Number();
  ExpressionOr ListLiteral();
  ExpressionOr DictLiteral();
  ExpressionOr Postfix(std::unique_ptr<Expression> base);
  ExpressionOr Filters(std::unique_ptr<Expression> base);
  ExpressionOr Attribute(std::unique_ptr<Expression> base);
  ExpressionOr Item(std::unique_ptr<Expression> base);
  ExpressionOr Slice(std::unique_ptr<Expression> made);
  ExpressionOr Filter(std::unique_ptr<Expression> base);
  ExpressionOr Test(std::unique_ptr<Expression> base);
  bool AtTestArgument() const;
  // Appends the arguments in parentheses to `call`.
  ExpressionOr Arguments(std::unique_ptr<Expression> call);

  using Level = ExpressionOr (ExpressionParser::*)();
  // left (operator right)*, for operators that group from the left.
  ExpressionOr LeftAssociative(Expression::Kind kind,
                               std::initializer_list<std::string_view> symbols, Level operand);
  // Which comparison operator follows; "" if none. Takes it.
  std::string TakeComparison();

  std::unique_ptr<Expression> New(Expression::Kind kind, std::string_view text = {}) const;
  // Moves `arg` below `parent`; ResourceExhausted if that makes the tree too high.
  absl::Status Adopt(Expression* parent, ExpressionOr arg) const;

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_EXPRESSION_PARSER_H_
