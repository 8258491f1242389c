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

ExpressionOr ExpressionParser::ParseTuple(bool conditions) {
  ExpressionOr first = conditions ? Conditional() : Or();
  if (!first.ok() || !tokens_.IsSymbol(",")) return first;
  auto made = New(Expression::kTuple);
  if (auto s = Adopt(made.get(), std::move(first)); !s.ok()) return s;
  while (tokens_.TakeSymbol(",")) {
    const bool ends =
        tokens_.Is(Token::kBlockEnd) || tokens_.Is(Token::kOutputEnd) || tokens_.IsSymbol(")");
    if (ends) break;
    if (auto s = Adopt(made.get(), conditions ? Conditional() : Or()); !s.ok()) return s;
  }
  return made;
}

ExpressionOr ExpressionParser::ParseFilterNames() {
  ExpressionOr result = New(Expression::kLiteral);
  *result = nullptr;  // what the first filter works on is the block's text
  do {
    result = Filter(*std::move(result));
  } while (result.ok() && tokens_.TakeSymbol("|"));
  return result;
}

ExpressionOr ExpressionParser::Conditional() {
  if (depth_ >= kMaxNesting) return TooDeep();
  ++depth_;
  ExpressionOr left = Or();
  while (left.ok() && tokens_.TakeName("if")) {
    auto made = New(Expression::kConditional);
    if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
    if (auto s = Adopt(made.get(), Or()); !s.ok()) return s;
    if (tokens_.TakeName("else")) {
      if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
    }
    left = std::move(made);
  }
  --depth_;
  return left;
}

ExpressionOr ExpressionParser::Or() {
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
  ExpressionOr left = Unary(true);
  while (left.ok() && tokens_.TakeSymbol("**")) {
    auto made = New(Expression::kBinary, "**");
    if (auto s = Adopt(made.get(), std::move(left)); !s.ok()) return s;
    if (auto s = Adopt(made.get(), Unary(true)); !s.ok()) return s;
    left = std::move(made);
  }
  return left;
}

ExpressionOr ExpressionParser::Unary(bool with_filters) {
  ExpressionOr operand = absl::UnknownError("");
  if (tokens_.IsSymbol("-") || tokens_.IsSymbol("+")) {
    if (depth_ >= kMaxNesting) return TooDeep();
    ++depth_;
    auto made = New(tokens_.IsSymbol("-") ? Expression::kNegate : Expression::kPositive);
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

ExpressionOr ExpressionParser::Number() {
  auto made = New(Expression::kLiteral);
  const Token token = tokens_.Take();
  made->value = token.kind == Token::kReal ? Value(token.real) : Value(token.integer);
  return made;
}

ExpressionOr ExpressionParser::Primary() {
  if (tokens_.Is(Token::kString)) {
    auto made = New(Expression::kLiteral);
    std::string text;
    while (tokens_.Is(Token::kString)) text += tokens_.Take().text;  // adjacent strings are one
    made->value = Value(std::move(text));
    return made;
  }
  if (tokens_.Is(Token::kInteger) || tokens_.Is(Token::kReal)) return Number();
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
  if (tokens_.IsSymbol("{")) return DictLiteral();
  if (!tokens_.IsSymbol("(")) return tokens_.Unexpected("an expression");
  auto empty = New(Expression::kTuple);
  tokens_.Take();
  if (tokens_.TakeSymbol(")")) return empty;
  ExpressionOr inner = ParseTuple();
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

ExpressionOr ExpressionParser::DictLiteral() {
  auto made = New(Expression::kDict);
  tokens_.Take();
  while (!tokens_.IsSymbol("}")) {
    if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
    if (auto s = tokens_.ExpectSymbol(":"); !s.ok()) return s;
    if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
    if (!tokens_.TakeSymbol(",")) break;
  }
  if (auto s = tokens_.ExpectSymbol("}"); !s.ok()) return s;
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
  if (tokens_.IsSymbol(":")) {
    made->args.push_back(nullptr);
    return Slice(std::move(made));
  }
  if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
  if (tokens_.IsSymbol(":")) return Slice(std::move(made));
  if (auto s = tokens_.ExpectSymbol("]"); !s.ok()) return s;
  return made;
}

// At the first colon; what stands before it is the last argument of `made`.
ExpressionOr ExpressionParser::Slice(std::unique_ptr<Expression> made) {
  made->kind = Expression::kSlice;
  for (int part = 0; part < 2; ++part) {
    const bool is_there = tokens_.TakeSymbol(":");
    if (!is_there || tokens_.IsSymbol("]") || tokens_.IsSymbol(":")) {
      made->args.push_back(nullptr);
      continue;
    }
    if (auto s = Adopt(made.get(), Conditional()); !s.ok()) return s;
  }
  if (auto s = tokens_.ExpectSymbol("]"); !s.ok()) return s;
  return made;
}

// At a filter's name; `base` may be null.
ExpressionOr ExpressionParser::Filter(std::unique_ptr<Expression> base) {
  if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a filter's name behind '|'");
  auto made = New(Expression::kFilter, tokens_.Peek().text);
  tokens_.Take();
  if (base == nullptr) {
    made->args.push_back(nullptr);
  } else if (auto s = Adopt(made.get(), std::move(base)); !s.ok()) {
    return s;
  }
  if (tokens_.IsSymbol("(")) return Arguments(std::move(made));
  return made;
}

ExpressionOr ExpressionParser::Filters(std::unique_ptr<Expression> base) {
  ExpressionOr result = std::move(base);
  while (result.ok()) {
    if (tokens_.TakeSymbol("|")) {
      result = Filter(*std::move(result));
    } else if (tokens_.IsName("is")) {
      result = Test(*std::move(result));
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

ExpressionOr ExpressionParser::Test(std::unique_ptr<Expression> base) {
  tokens_.Take();
  auto negation = tokens_.TakeName("not") ? New(Expression::kNot) : nullptr;
  if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a test's name behind 'is'");
  auto made = New(Expression::kTest, tokens_.Peek().text);
  tokens_.Take();
  if (auto s = Adopt(made.get(), std::move(base)); !s.ok()) return s;
  if (tokens_.IsSymbol("(")) {
    ExpressionOr call = Arguments(std::move(made));
    if (!call.ok()) return call;
    made = *std::move(call);
  } else if (AtTestArgument()) {
    // Jinja lets one argument stand without parentheses.
    if (tokens_.IsName("is")) return Error(tokens_.line(), "tests can't be chained with 'is'");
    ExpressionOr arg = Primary();
    if (arg.ok()) arg = Postfix(*std::move(arg));
    if (auto s = Adopt(made.get(), std::move(arg)); !s.ok()) return s;
  }
  if (negation == nullptr) return made;
  if (auto s = Adopt(negation.get(), std::move(made)); !s.ok()) return s;
  return negation;
}

bool ExpressionParser::AtTestArgument() const {
  const bool operand = tokens_.Is(Token::kName) || tokens_.Is(Token::kString) ||
                       tokens_.Is(Token::kInteger) || tokens_.Is(Token::kReal) ||
                       tokens_.IsSymbol("[") || tokens_.IsSymbol("{");
  return operand && !tokens_.IsName("else") && !tokens_.IsName("or") && !tokens_.IsName("and");
}

ExpressionOr ExpressionParser::Arguments(std::unique_ptr<Expression> call) {
  if (depth_ >= kMaxNesting) return TooDeep();
  ++depth_;
  tokens_.Take();
  while (!tokens_.IsSymbol(")")) {
    const Token& next = tokens_.Peek(1);
    if (tokens_.IsSymbol("*") || tokens_.IsSymbol("**")) {
      return Unsupported(tokens_.line(), tokens_.Peek().text + "arguments");
    }
    if (tokens_.Is(Token::kName) && next.kind == Token::kSymbol && next.text == "=") {
      const std::string name = tokens_.Take().text;
      tokens_.Take();
      ExpressionOr value = Conditional();
      if (!value.ok()) return value;
      call->height = std::max(call->height, (*value)->height + 1);
      if (call->height > kMaxNesting) return TooDeep();
      call->keywords.emplace_back(name, *std::move(value));
    } else {
      if (!call->keywords.empty()) {
        return Error(tokens_.line(), "an argument without a name behind one with a name");
      }
      if (auto s = Adopt(call.get(), Conditional()); !s.ok()) return s;
    }
    if (!tokens_.TakeSymbol(",")) break;
  }
  --depth_;
  if (auto s = tokens_.ExpectSymbol(")"); !s.ok()) return s;
  return call;
}

}  // namespace isobit::jinja
