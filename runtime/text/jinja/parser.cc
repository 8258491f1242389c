#include "runtime/text/jinja/parser.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/expression_parser.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/token_stream.h"

namespace isobit::jinja {
namespace {

using StatementOr = absl::StatusOr<std::unique_ptr<Statement>>;

// Names that are no variables.
constexpr std::string_view kReserved[] = {"and",   "else", "elif", "for",   "if",
                                          "in",    "is",   "not",  "or",    "true",
                                          "false", "none", "True", "False", "None"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(&tokens_) {}

  absl::StatusOr<Block> Run() {
    absl::StatusOr<Block> block = ParseBlock();
    if (block.ok() && !tokens_.Is(Token::kEnd)) {
      return Error(tokens_.line(),
                   absl::StrCat("'", tokens_.Peek(1).text, "' without what it belongs to"));
    }
    return block;
  }

 private:
  // Statements up to the end or to a tag that closes or continues a block, which is not taken.
  absl::StatusOr<Block> ParseBlock();
  StatementOr ParseTag();
  StatementOr ParseIf();
  StatementOr ParseFor();
  StatementOr ParseSet();
  StatementOr ParseMacro();
  StatementOr ParseCall();
  StatementOr ParseFilter();
  StatementOr ParseWith();
  StatementOr ParseGeneration();
  StatementOr ParseJump(Statement::Kind kind);
  absl::Status ParseTargets(Statement* statement);
  absl::Status ParseParameters(Statement* statement);
  // The statements of a block, with what ends its opening and its closing tag.
  absl::Status ParseBody(Statement* statement, std::string_view end);
  absl::StatusOr<std::string> ParseTarget();
  // Takes `{% name %}`.
  absl::Status TakeTag(std::string_view name);
  bool IsTag(std::string_view name) const {
    return tokens_.Is(Token::kBlockBegin) && tokens_.Peek(1).kind == Token::kName &&
           tokens_.Peek(1).text == name;
  }
  static std::unique_ptr<Statement> New(Statement::Kind kind, int line) {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->line = line;
    return made;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // around here, within the same macro
};

absl::StatusOr<Block> Parser::ParseBlock() {
  if (depth_ >= kMaxNesting) return LimitReached("statements are nested too deeply", kMaxNesting);
  ++depth_;
  Block block;
  while (!tokens_.Is(Token::kEnd)) {
    if (IsTag("elif") || IsTag("else") ||
        (tokens_.Is(Token::kBlockBegin) && tokens_.Peek(1).text.starts_with("end"))) {
      break;
    }
    const int line = tokens_.line();
    if (tokens_.Is(Token::kText)) {
      block.push_back(New(Statement::kText, line));
      block.back()->text = tokens_.Take().text;
    } else if (tokens_.Is(Token::kOutputBegin)) {
      tokens_.Take();
      ExpressionOr expression = expressions_.ParseTuple();
      if (!expression.ok()) return expression.status();
      if (auto s = tokens_.Expect(Token::kOutputEnd, "}}"); !s.ok()) return s;
      block.push_back(New(Statement::kOutput, line));
      block.back()->expression = *std::move(expression);
    } else {
      StatementOr statement = ParseTag();
      if (!statement.ok()) return statement.status();
      block.push_back(*std::move(statement));
    }
  }
  --depth_;
  return block;
}

StatementOr Parser::ParseTag() {
  if (!tokens_.Is(Token::kBlockBegin)) return tokens_.Unexpected("a tag");
  tokens_.Take();
  if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a statement");
  if (tokens_.IsName("if")) return ParseIf();
  if (tokens_.IsName("for")) return ParseFor();
  if (tokens_.IsName("set")) return ParseSet();
  if (tokens_.IsName("macro")) return ParseMacro();
  if (tokens_.IsName("call")) return ParseCall();
  if (tokens_.IsName("filter")) return ParseFilter();
  if (tokens_.IsName("with")) return ParseWith();
  if (tokens_.IsName("generation")) return ParseGeneration();
  if (tokens_.IsName("break")) return ParseJump(Statement::kBreak);
  if (tokens_.IsName("continue")) return ParseJump(Statement::kContinue);
  return Unsupported(tokens_.line(), tokens_.Peek().text);
}

absl::Status Parser::TakeTag(std::string_view name) {
  if (!IsTag(name)) {
    return Error(tokens_.line(), absl::StrCat("expected {% ", Absl(name), " %}"));
  }
  tokens_.Take();
  tokens_.Take();
  return tokens_.Expect(Token::kBlockEnd, "%}");
}

// At `if` or `elif`. What follows the first condition is the else branch: nothing, a block, or one
// further if. elif chains are therefore nested, and count as such.
StatementOr Parser::ParseIf() {
  if (depth_ >= kMaxNesting) return LimitReached("statements are nested too deeply", kMaxNesting);
  auto made = New(Statement::kIf, tokens_.line());
  tokens_.Take();
  // A bare `x if y` is no condition.
  ExpressionOr condition = expressions_.ParseTuple(/*conditions=*/false);
  if (!condition.ok()) return condition.status();
  made->expression = *std::move(condition);
  if (auto s = tokens_.Expect(Token::kBlockEnd, "%}"); !s.ok()) return s;
  absl::StatusOr<Block> body = ParseBlock();
  if (!body.ok()) return body.status();
  made->body = *std::move(body);
  if (IsTag("elif")) {
    tokens_.Take();
    ++depth_;
    StatementOr next = ParseIf();
    --depth_;
    if (!next.ok()) return next;
    made->otherwise.push_back(*std::move(next));
    return made;  // the innermost elif took the endif
  }
  if (IsTag("else")) {
    if (auto s = TakeTag("else"); !s.ok()) return s;
    absl::StatusOr<Block> otherwise = ParseBlock();
    if (!otherwise.ok()) return otherwise.status();
    made->otherwise = *std::move(otherwise);
  }
  if (auto s = TakeTag("endif"); !s.ok()) return s;
  return made;
}

absl::StatusOr<std::string> Parser::ParseTarget() {
  if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a variable's name");
  const std::string name = tokens_.Take().text;
  if (std::count(std::begin(kReserved), std::end(kReserved), name) > 0) {
    return Error(tokens_.line(), absl::StrCat("can't assign to '", name, "'"));
  }
  return name;
}

// a, b or (a, b)
absl::Status Parser::ParseTargets(Statement* statement) {
  const bool parentheses = tokens_.TakeSymbol("(");
  do {
    if (parentheses && tokens_.IsSymbol(")")) break;
    if (tokens_.IsSymbol("(")) return Unsupported(tokens_.line(), "targets within targets");
    if (!statement->targets.empty() && !tokens_.Is(Token::kName)) break;
    absl::StatusOr<std::string> target = ParseTarget();
    if (!target.ok()) return target.status();
    statement->targets.push_back(*std::move(target));
  } while (tokens_.TakeSymbol(","));
  if (parentheses) return tokens_.ExpectSymbol(")");
  return absl::OkStatus();
}

absl::Status Parser::ParseBody(Statement* statement, std::string_view end) {
  if (auto s = tokens_.Expect(Token::kBlockEnd, "%}"); !s.ok()) return s;
  absl::StatusOr<Block> body = ParseBlock();
  if (!body.ok()) return body.status();
  statement->body = *std::move(body);
  return TakeTag(end);
}

StatementOr Parser::ParseFor() {
  auto made = New(Statement::kFor, tokens_.line());
  tokens_.Take();
  if (auto s = ParseTargets(made.get()); !s.ok()) return s;
  if (std::count(made->targets.begin(), made->targets.end(), "loop") > 0) {
    return Error(tokens_.line(), "can't assign to 'loop'");
  }
  if (!tokens_.TakeName("in")) return tokens_.Unexpected("'in'");
  ExpressionOr list = expressions_.ParseTuple(/*conditions=*/false);
  if (!list.ok()) return list.status();
  made->expression = *std::move(list);
  if (tokens_.TakeName("if")) {
    ExpressionOr condition = expressions_.Parse();
    if (!condition.ok()) return condition.status();
    made->condition = *std::move(condition);
  }
  if (tokens_.IsName("recursive")) return Unsupported(tokens_.line(), "for ... recursive");
  if (auto s = tokens_.Expect(Token::kBlockEnd, "%}"); !s.ok()) return s;
  ++loops_;
  absl::StatusOr<Block> body = ParseBlock();
  --loops_;
  if (!body.ok()) return body.status();
  made->body = *std::move(body);
  if (IsTag("else")) {
    if (auto s = TakeTag("else"); !s.ok()) return s;
    absl::StatusOr<Block> otherwise = ParseBlock();
    if (!otherwise.ok()) return otherwise.status();
    made->otherwise = *std::move(otherwise);
  }
  if (auto s = TakeTag("endfor"); !s.ok()) return s;
  return made;
}

StatementOr Parser::ParseSet() {
  auto made = New(Statement::kSet, tokens_.line());
  tokens_.Take();
  if (auto s = ParseTargets(made.get()); !s.ok()) return s;
  if (made->targets.size() == 1 && tokens_.TakeSymbol(".")) {
    if (!tokens_.Is(Token::kName)) return tokens_.Unexpected("a name behind '.'");
    made->attribute = tokens_.Take().text;
  }
  if (tokens_.TakeSymbol("=")) {
    ExpressionOr value = expressions_.ParseTuple();
    if (!value.ok()) return value.status();
    made->expression = *std::move(value);
    if (auto s = tokens_.Expect(Token::kBlockEnd, "%}"); !s.ok()) return s;
    return made;
  }
  if (made->targets.size() > 1) return tokens_.Unexpected("'='");
  made->kind = Statement::kSetBlock;
  if (tokens_.TakeSymbol("|")) {
    ExpressionOr filters = expressions_.ParseFilterNames();
    if (!filters.ok()) return filters.status();
    made->expression = *std::move(filters);
  }
  if (auto s = ParseBody(made.get(), "endset"); !s.ok()) return s;
  return made;
}

absl::Status Parser::ParseParameters(Statement* statement) {
  if (auto s = tokens_.ExpectSymbol("("); !s.ok()) return s;
  while (!tokens_.IsSymbol(")")) {
    absl::StatusOr<std::string> name = ParseTarget();
    if (!name.ok()) return name.status();
    Parameter& parameter = statement->parameters.emplace_back();
    parameter.name = *std::move(name);
    if (tokens_.TakeSymbol("=")) {
      ExpressionOr preset = expressions_.Parse();
      if (!preset.ok()) return preset.status();
      parameter.preset = *std::move(preset);
    } else if (statement->parameters.size() > 1 &&
               statement->parameters[statement->parameters.size() - 2].preset != nullptr) {
      return Error(tokens_.line(), "a parameter without a preset value behind one with it");
    }
    if (!tokens_.TakeSymbol(",")) break;
  }
  return tokens_.ExpectSymbol(")");
}

StatementOr Parser::ParseMacro() {
  auto made = New(Statement::kMacro, tokens_.line());
  tokens_.Take();
  absl::StatusOr<std::string> name = ParseTarget();
  if (!name.ok()) return name.status();
  made->text = *std::move(name);
  if (auto s = ParseParameters(made.get()); !s.ok()) return s;
  const int loops = std::exchange(loops_, 0);
  if (auto s = ParseBody(made.get(), "endmacro"); !s.ok()) return s;
  loops_ = loops;
  return made;
}

StatementOr Parser::ParseCall() {
  auto made = New(Statement::kCall, tokens_.line());
  tokens_.Take();
  if (tokens_.IsSymbol("(")) {
    if (auto s = ParseParameters(made.get()); !s.ok()) return s;
  }
  ExpressionOr call = expressions_.Parse();
  if (!call.ok()) return call.status();
  if ((*call)->kind != Expression::kCall) return Error(made->line, "expected a call");
  made->expression = *std::move(call);
  const int loops = std::exchange(loops_, 0);
  if (auto s = ParseBody(made.get(), "endcall"); !s.ok()) return s;
  loops_ = loops;
  return made;
}

StatementOr Parser::ParseFilter() {
  auto made = New(Statement::kFilter, tokens_.line());
  tokens_.Take();
  ExpressionOr filters = expressions_.ParseFilterNames();
  if (!filters.ok()) return filters.status();
  made->expression = *std::move(filters);
  if (auto s = ParseBody(made.get(), "endfilter"); !s.ok()) return s;
  return made;
}

StatementOr Parser::ParseWith() {
  auto made = New(Statement::kWith, tokens_.line());
  tokens_.Take();
  while (!tokens_.Is(Token::kBlockEnd)) {
    absl::StatusOr<std::string> target = ParseTarget();
    if (!target.ok()) return target.status();
    made->targets.push_back(*std::move(target));
    if (auto s = tokens_.ExpectSymbol("="); !s.ok()) return s;
    ExpressionOr value = expressions_.Parse();
    if (!value.ok()) return value.status();
    made->values.push_back(*std::move(value));
    if (!tokens_.TakeSymbol(",")) break;
  }
  if (auto s = ParseBody(made.get(), "endwith"); !s.ok()) return s;
  return made;
}

// Hugging Face's mark around what a model said; it changes no text.
StatementOr Parser::ParseGeneration() {
  auto made = New(Statement::kScope, tokens_.line());
  tokens_.Take();
  if (auto s = ParseBody(made.get(), "endgeneration"); !s.ok()) return s;
  return made;
}

StatementOr Parser::ParseJump(Statement::Kind kind) {
  auto made = New(kind, tokens_.line());
  const std::string name = tokens_.Take().text;
  if (loops_ == 0) return Error(made->line, absl::StrCat("'", name, "' outside of a loop"));
  if (auto s = tokens_.Expect(Token::kBlockEnd, "%}"); !s.ok()) return s;
  return made;
}

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  absl::StatusOr<std::vector<Token>> tokens = Lex(source);
  if (!tokens.ok()) return tokens.status();
  return Parser(*std::move(tokens)).Run();
}

}  // namespace isobit::jinja
