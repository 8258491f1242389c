#include "runtime/text/jinja/expression_parser.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/parser.h"

namespace isobit::jinja {
namespace {

absl::Status TooDeep() { return LimitReached("expressions are nested too deeply", kMaxNesting); }

constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};

}  // namespace

std::unique_ptr<Expression> ExpressionParser::New(Expression::Kind kind,
                                                  std::string_view text) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = tokens_.line();
  made->text = std::string(text);
  return made;
}

absl::Status ExpressionParser::Adopt(Expression* parent, ExpressionOr arg) const {
  if (!arg.ok()) return arg.status();
  parent->height = std::max(parent->height, (*arg)->height + 1);
  parent->args.push_back(*std::move(arg));
  return parent->height > kMaxNesting ? TooDeep() : absl::OkStatus();
}

ExpressionOr ExpressionParser::Parse() {
  ExpressionOr parsed = Conditional();
  if (parsed.ok() && tokens_.IsSymbol(",")) return Unsupported(tokens_.line(), "a tuple");
  return parsed;
}

ExpressionOr ExpressionParser::Conditional() {
  if (depth_ >= kMaxNesting) return TooDeep();
  ++depth_;
  ExpressionOr left = ParseOr();
  while (left.ok() && tokens_.TakeName("if")) {
    auto made = New(Expression::kConditional);
    if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
    if (auto s = Adopt(made.get(), ParseOr()); !s.ok()) return s;
    if (tokens_.TakeName("else")) {
      if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
    }
    left = std::move(made);
  }
  --depth_;
  return left;
}

ExpressionOr ExpressionParser::ParseOr() {
  ExpressionOr left = And();
  while (left.ok() && tokens_.TakeName("or")) {
    auto made = New(Expression::kOr);
    if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
    if (auto s = Adopt(made.get(), And()); !s.ok()) return s;
    left = std::move(made);
  }
  return left;
}

ExpressionOr ExpressionParser::And() {
  ExpressionOr left = Not();
  while (left.ok() && tokens_.TakeName("and")) {
    auto made = New(Expression::kAnd);
    if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
    if (auto s = Adopt(made.get(), Not()); !s.ok()) return s;
    left = std::move(made);
  }
  return left;
}

ExpressionOr ExpressionParser::Not() {
  if (!tokens_.IsName("not")) return Compare();
  if (depth_ >= kMaxNesting) return TooDeep();
  ++depth_;
  auto made = New(Expression::kNot);
  tokens_.Take();
  if (auto s = Adopt(made.get(), Not()); !s.ok()) return s;
  --depth_;
  return made;
}

std::string ExpressionParser::TakeComparison() {
  for (const std::string_view symbol : kComparisons) {
    if (tokens_.TakeSymbol(symbol)) return std::string(symbol);
  }
  if (tokens_.TakeName("in")) return "in";
  const Token& next = tokens_.Peek(1);
  if (tokens_.IsName("not") && next.kind == Token::kName && next.text == "in") {
    tokens_.Take();
    tokens_.Take();
    return "not in";
  }
  return "";
}

ExpressionOr ExpressionParser::Compare() {
  ExpressionOr left = Sum();
  if (!left.ok()) return left;
  std::string symbol = TakeComparison();
  if (symbol.empty()) return left;
  auto made = New(Expression::kCompare);
  if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
  for (; !symbol.empty(); symbol = TakeComparison()) {
    made->operators.push_back(symbol);
    if (auto s = Adopt(made.get(), Sum()); !s.ok()) return s;
  }
  return made;
}

ExpressionOr ExpressionParser::LeftAssociative(Expression::Kind kind,
                                               std::initializer_list<std::string_view> symbols,
                                               Level operand) {
  ExpressionOr left = (this->*operand)();
  while (left.ok()) {
    const auto found =
        std::find_if(symbols.begin(), symbols.end(),
                     [this](std::string_view symbol) { return tokens_.IsSymbol(symbol); });
    if (found == symbols.end()) break;
    auto made = New(kind, *found);
    tokens_.Take();
    if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
    if (auto s = Adopt(made.get(), (this->*operand)()); !s.ok()) return s;
    left = std::move(made);
  }
  return left;
}

// Jinja's `~` binds tighter than + and -.
ExpressionOr ExpressionParser::Sum() {
  return LeftAssociative(Expression::kBinary, {"+", "-"}, &ExpressionParser::Concatenation);
}

ExpressionOr ExpressionParser::Concatenation() {
  return LeftAssociative(Expression::kBinary, {"~"}, &ExpressionParser::Product);
}

ExpressionOr ExpressionParser::Product() {
  return LeftAssociative(Expression::kBinary, {"*", "/", "//", "%"}, &ExpressionParser::Power);
}

ExpressionOr ExpressionParser::Power() {
  ExpressionOr base = Unary(true);
  if (base.ok() && tokens_.IsSymbol("**")) return Unsupported(tokens_.line(), "**");
  return base;
}

ExpressionOr ExpressionParser::Unary(bool with_filters) {
  ExpressionOr operand = absl::UnknownError("");
  if (tokens_.IsSymbol("-") || tokens_.IsSymbol("+")) {
    if (tokens_.IsSymbol("+")) return Unsupported(tokens_.line(), "unary +");
    if (depth_ >= kMaxNesting) return TooDeep();
    ++depth_;
    auto made = New(Expression::kNegate);
    tokens_.Take();
    if (auto s = Adopt(made.get(), Unary(false)); !s.ok()) return s;
    --depth_;
    operand = std::move(made);
  } else {
    operand = Primary();
  }
  if (operand.ok()) operand = Postfix(*std::move(operand));
  if (operand.ok() && with_filters) operand = Filters(*std::move(operand));
  return operand;
}

ExpressionOr ExpressionParser::Primary() {
  if (tokens_.Is(Token::kString)) {
    auto made = New(Expression::kLiteral);
    std::string text;
    while (tokens_.Is(Token::kString)) text += tokens_.Take().text;  // adjacent strings are one
    made->value = Value(std::move(text));
    return made;
  }
  if (tokens_.Is(Token::kInteger)) {
    auto made = New(Expression::kLiteral);
    made->value = Value(tokens_.Take().integer);
    return made;
  }
  if (tokens_.Is(Token::kName)) {
    const std::string name = tokens_.Peek().text;
    auto made = New(Expression::kLiteral);
    if (name == "true" || name == "True") {
      made->value = Value(true);
    } else if (name == "false" || name == "False") {
      made->value = Value(false);
    } else if (name != "none" && name != "None") {
      made = New(Expression::kName, name);
    }
    tokens_.Take();
    return made;
  }
  if (tokens_.IsSymbol("[")) return ListLiteral();
  if (tokens_.IsSymbol("{")) return Unsupported(tokens_.line(), "{...}");
  if (!tokens_.IsSymbol("(")) return tokens_.Unexpected("an expression");
  tokens_.Take();
  if (tokens_.IsSymbol(")")) return Unsupported(tokens_.line(), "a tuple");
  ExpressionOr inner = Parse();
  if (!inner.ok()) return inner;
  if (auto s = tokens_.ExpectSymbol(")"); !s.ok()) return s;
  return inner;
}

ExpressionOr ExpressionParser::ListLiteral() {
  auto made = New(Expression::kList);
  tokens_.Take();
  while (!tokens_.IsSymbol("]")) {
    if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
    if (!tokens_.TakeSymbol(",")) break;
  }
  if (auto s = tokens_.ExpectSymbol("]"); !s.ok()) return s;
  return made;
}

ExpressionOr ExpressionParser::Postfix(std::unique_ptr<Expression> base) {
  ExpressionOr result = std::move(base);
  while (result.ok()) {
    if (tokens_.IsSymbol(".")) {
      result = Attribute(*std::move(result));
    } else if (tokens_.IsSymbol("[")) {
      result = Item(*std::move(result));
    } else if (tokens_.IsSymbol("(")) {
      auto call = New(Expression::kCall);
      if (auto s = Adopt(call.get(), std::move(result)); !s.ok()) return s;
      result = Arguments(std::move(call));
    } else {
      break;
    }
  }
  return result;
}

ExpressionOr ExpressionParser::Attribute(std::unique_ptr<Expression> base) {
  tokens_.Take();
  if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a name behind '.'");
  auto made = New(Expression::kAttribute, tokens_.Peek().text);
  tokens_.Take();
  if (auto s = Adopt(made.get(), std::move(base)); !s.ok()) return s;
  return made;
}

ExpressionOr ExpressionParser::Item(std::unique_ptr<Expression> base) {
  auto made = New(Expression::kItem);
  tokens_.Take();
  if (auto s = Adopt(made.get(), std::move(base)); !s.ok()) return s;
  if (tokens_.IsSymbol(":")) return Unsupported(tokens_.line(), "a slice");
  if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
  if (tokens_.IsSymbol(":")) return Unsupported(tokens_.line(), "a slice");
  if (auto s = tokens_.ExpectSymbol("]"); !s.ok()) return s;
  return made;
}

ExpressionOr ExpressionParser::Filters(std::unique_ptr<Expression> base) {
  ExpressionOr result = std::move(base);
  while (result.ok()) {
    if (tokens_.IsSymbol("|")) {
      tokens_.Take();
      if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a filter's name behind '|'");
      auto made = New(Expression::kFilter, tokens_.Peek().text);
      tokens_.Take();
      if (auto s = Adopt(made.get(), std::move(result)); !s.ok()) return s;
      result = std::move(made);
      if (tokens_.IsSymbol("(")) result = Arguments(*std::move(result));
    } else if (tokens_.IsName("is")) {
      result = Test(*std::move(result));
    } else {
      break;
    }
  }
  return result;
}

ExpressionOr ExpressionParser::Test(std::unique_ptr<Expression> base) {
  tokens_.Take();
  auto negation = tokens_.TakeName("not") ? New(Expression::kNot) : nullptr;
  if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a test's name behind 'is'");
  auto made = New(Expression::kTest, tokens_.Peek().text);
  tokens_.Take();
  if (auto s = Adopt(made.get(), std::move(base)); !s.ok()) return s;
  if (auto s = CheckNoTestArgument(made->text); !s.ok()) return s;
  if (negation == nullptr) return made;
  if (auto s = Adopt(negation.get(), std::move(made)); !s.ok()) return s;
  return negation;
}

// Jinja lets the argument of a test stand without parentheses; so no other name may follow either.
absl::Status ExpressionParser::CheckNoTestArgument(std::string_view test) const {
  if (tokens_.IsName("is")) return Error(tokens_.line(), "tests can't be chained with 'is'");
  const bool operand = tokens_.Is(Token::kName) || tokens_.Is(Token::kString) ||
                       tokens_.Is(Token::kInteger) || tokens_.IsSymbol("(") ||
                       tokens_.IsSymbol("[") || tokens_.IsSymbol("{");
  if (!operand || tokens_.IsName("else") || tokens_.IsName("or") || tokens_.IsName("and")) {
    return absl::OkStatus();
  }
  return Unsupported(tokens_.line(), absl::StrCat("is ", Absl(test), " with an argument"));
}

ExpressionOr ExpressionParser::Arguments(std::unique_ptr<Expression> call) {
  tokens_.Take();
  while (!tokens_.IsSymbol(")")) {
    const Token& next = tokens_.Peek(1);
    if (tokens_.Is(Token::kName) && next.kind == Token::kSymbol && next.text == "=") {
      return Unsupported(tokens_.line(), tokens_.Peek().text + "=");
    }
    if (auto s = Adopt(call.get(), Conditional()); !s.ok()) return s;
    if (!tokens_.TakeSymbol(",")) break;
  }
  if (auto s = tokens_.ExpectSymbol(")"); !s.ok()) return s;
  return call;
}

}  // namespace isobit::jinja
