#ifndef ISOBIT_RUNTIME_TEXT_JINJA_TOKEN_STREAM_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_TOKEN_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/lexer.h"

namespace isobit::jinja {

// The parsers' place in a list of tokens.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // The last token, kEnd, is never passed.
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[at_ + ahead < tokens_.size() ? at_ + ahead : tokens_.size() - 1];
  }
  Token Take() {
    Token token = Peek();
    if (token.kind != Token::kEnd) ++at_;
    return token;
  }
  int line() const { return Peek().line; }

  bool Is(Token::Kind kind) const { return Peek().kind == kind; }
  bool IsName(std::string_view name) const { return Is(Token::kName) && Peek().text == name; }
  bool IsSymbol(std::string_view symbol) const {
    return Is(Token::kSymbol) && Peek().text == symbol;
  }
  bool TakeName(std::string_view name) { return IsName(name) && (Take(), true); }
  bool TakeSymbol(std::string_view symbol) { return IsSymbol(symbol) && (Take(), true); }

  absl::Status Expect(Token::Kind kind, std::string_view what) {
    if (!Is(kind)) return Unexpected(what);
    Take();
    return absl::OkStatus();
  }
  absl::Status ExpectSymbol(std::string_view symbol) {
    if (!TakeSymbol(symbol)) return Unexpected(symbol);
    return absl::OkStatus();
  }
  absl::Status Unexpected(std::string_view wanted) const {
    return Error(line(), absl::StrCat("expected ", Absl(wanted), ", found ", Absl(Describe())));
  }

 private:
  std::string Describe() const {
    switch (Peek().kind) {
      case Token::kText:
        return "text";
      case Token::kBlockBegin:
        return "{%";
      case Token::kBlockEnd:
        return "%}";
      case Token::kOutputBegin:
        return "{{";
      case Token::kOutputEnd:
        return "}}";
      case Token::kInteger:
      case Token::kReal:
        return "a number";
      case Token::kString:
        return "a string";
      case Token::kEnd:
        return "the end of the template";
      case Token::kName:
      case Token::kSymbol:
        break;
    }
    return absl::StrCat("'", Peek().text, "'");
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_TOKEN_STREAM_H_
