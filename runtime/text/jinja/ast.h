#ifndef ISOBIT_RUNTIME_TEXT_JINJA_AST_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

struct Expression {
  enum Kind {
    kLiteral,      // `value`
    kList,         // [args...]
    kTuple,        // (args...)
    kDict,         // {args[0]: args[1], ...}
    kName,         // `text`
    kAttribute,    // args[0].text
    kItem,         // args[0][args[1]]
    kSlice,        // args[0][args[1]:args[2]:args[3]]; what is left out is null
    kCall,         // args[0](args[1], ...), then `keywords`
    kFilter,       // args[0] | text(args[1], ..., keywords); args[0] is null in {% filter %}
    kTest,         // args[0] is text(args[1], ...)
    kNot,          // not args[0]
    kNegate,       // -args[0]
    kPositive,     // +args[0]
    kAnd,          // args[0] and args[1]
    kOr,           // args[0] or args[1]
    kBinary,       // args[0] text args[1], with text one of + - * / // % ** ~
    kCompare,      // args[0] operators[0] args[1] operators[1] args[2] ...
    kConditional,  // args[0] if args[1] else args[2]; the last may be missing
  };
  using Ptr = std::unique_ptr<Expression>;

  Kind kind;
  int line = 1;
  std::string text;
  Value value;
  std::vector<std::string> operators;
  std::vector<Ptr> args;
  std::vector<std::pair<std::string, Ptr>> keywords;
  int height = 1;  // of the tree below; bounded by the parser, so recursion over it is safe
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

// A parameter of a macro.
struct Parameter {
  std::string name;
  Expression::Ptr preset;  // its value if the caller gives none; may be null
};

struct Statement {
  enum Kind {
    kText,    // `text`
    kOutput,  // {{ expression }}
    kIf,      // {% if expression %} body {% else %} otherwise; elif is an if within `otherwise`
    kFor,     // {% for targets in expression if condition %} body {% else %} otherwise
    kSet,     // {% set targets = expression %}; with `attribute`: {% set target.attribute = ... %}
    kSetBlock,  // {% set target | filters %} body; `expression` is the filters, or null
    kMacro,     // {% macro text(parameters) %} body
    kCall,      // {% call(parameters) expression %} body
    kFilter,    // {% filter expression %} body
    kWith,      // {% with targets[i] = values[i] %} body
    kScope,     // {% generation %} body: no more than its body
    kBreak,
    kContinue,
  };
  Kind kind;
  int line = 1;
  std::string text;
  std::vector<std::string> targets;  // more than one: the value is unpacked
  std::string attribute;
  Expression::Ptr expression;
  Expression::Ptr condition;
  std::vector<Expression::Ptr> values;
  std::vector<Parameter> parameters;
  Block body;
  Block otherwise;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_AST_H_
