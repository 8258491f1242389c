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
};

absl::StatusOr<Block> Parser::ParseBlock() {
  if (depth_ >= kMaxNesting) return LimitReached("statements are nested too deeply", kMaxNesting);
  ++depth_;
  Block block;
  while (!tokens_.Is(Token::kEnd)) {
    if (IsTag("elif") || IsTag("else") || IsTag("endif") || IsTag("endfor")) break;
    const int line = tokens_.line();
    if (tokens_.Is(Token::kText)) {
      block.push_back(New(Statement::kText, line));
      block.back()->text = tokens_.Take().text;
    } else if (tokens_.Is(Token::kOutputBegin)) {
      tokens_.Take();
      ExpressionOr expression = expressions_.Parse();
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
  ExpressionOr condition = expressions_.ParseOr();  // a bare `x if y` is no condition
  if (!condition.ok()) return condition.status();
  made->expression = *std::move(condition);
  if (tokens_.IsSymbol(",")) return Unsupported(tokens_.line(), "a tuple");
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
  if (tokens_.IsSymbol(",")) return Unsupported(tokens_.line(), "several targets");
  if (tokens_.IsSymbol(".")) return Unsupported(tokens_.line(), name + ".");
  return name;
}

StatementOr Parser::ParseFor() {
  auto made = New(Statement::kFor, tokens_.line());
  tokens_.Take();
  absl::StatusOr<std::string> target = ParseTarget();
  if (!target.ok()) return target.status();
  if (*target == "loop") return Error(tokens_.line(), "can't assign to 'loop'");
  made->text = *std::move(target);
  if (!tokens_.TakeName("in")) return tokens_.Unexpected("'in'");
  ExpressionOr list = expressions_.ParseOr();
  if (!list.ok()) return list.status();
  made->expression = *std::move(list);
  if (tokens_.IsName("if")) return Unsupported(tokens_.line(), "for ... if");
  if (tokens_.IsName("recursive")) return Unsupported(tokens_.line(), "for ... recursive");
  if (tokens_.IsSymbol(",")) return Unsupported(tokens_.line(), "a tuple");
  if (auto s = tokens_.Expect(Token::kBlockEnd, "%}"); !s.ok()) return s;
  absl::StatusOr<Block> body = ParseBlock();
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
  absl::StatusOr<std::string> target = ParseTarget();
  if (!target.ok()) return target.status();
  made->text = *std::move(target);
  if (!tokens_.IsSymbol("=")) return Unsupported(tokens_.line(), "set ... endset");
  tokens_.Take();
  ExpressionOr value = expressions_.Parse();
  if (!value.ok()) return value.status();
  made->expression = *std::move(value);
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
