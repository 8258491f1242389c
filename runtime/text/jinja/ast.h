#ifndef ISOBIT_RUNTIME_TEXT_JINJA_AST_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_AST_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

struct Expression {
  enum Kind {
    kLiteral,      // `value`
    kList,         // [args...]
    kName,         // `text`
    kAttribute,    // args[0].text
    kItem,         // args[0][args[1]]
    kCall,         // args[0](args[1], ...)
    kFilter,       // args[0] | text(args[1], ...)
    kTest,         // args[0] is text(args[1], ...)
    kNot,          // not args[0]
    kNegate,       // -args[0]
    kAnd,          // args[0] and args[1]
    kOr,           // args[0] or args[1]
    kBinary,       // args[0] text args[1], with text one of + - * / // % ** ~
    kCompare,      // args[0] operators[0] args[1] operators[1] args[2] ...
    kConditional,  // args[0] if args[1] else args[2]; the last may be missing
  };
  Kind kind;
  int line = 1;
  std::string text;
  Value value;
  std::vector<std::string> operators;
  std::vector<std::unique_ptr<Expression>> args;
  int height = 1;  // of the tree below; bounded by the parser, so recursion over it is safe
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum Kind {
    kText,    // `text`
    kOutput,  // {{ expression }}
    kIf,      // {% if expression %} body {% else %} otherwise; elif is an if within `otherwise`
    kFor,     // {% for text in expression %} body {% else %} otherwise
    kSet,     // {% set text = expression %}
  };
  Kind kind;
  int line = 1;
  std::string text;
  std::unique_ptr<Expression> expression;
  Block body;
  Block otherwise;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_AST_H_
