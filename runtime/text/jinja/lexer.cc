#include "runtime/text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/jinja/string_literal.h"
#include "runtime/text/unicode_classes.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// All line breaks as \n, without the last.
std::string NormalizedSource(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      if (auto s = Text(); !s.ok()) return s;
    }
    Add(Token::kEnd);
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool Follows(std::string_view what) const { return source_.substr(at_, what.size()) == what; }
  void Advance(size_t count) {
    const std::string_view passed = source_.substr(at_, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += count;
  }
  void Add(Token::Kind kind, std::string_view text = {}) {
    tokens_.push_back({kind, std::string(text), 0, 0, line_});
  }

  absl::Status Text();
  absl::Status Comment();
  absl::Status Tag(bool block);
  absl::StatusOr<bool> TagEnd(bool block);
  absl::Status Element();
  absl::Status Number();
  absl::Status String();
  void SkipBehindTag(char sign, bool block);

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // whether the literal text at `at_` begins a line
  std::string brackets_;       // the closing brackets that are due inside a tag
  std::vector<Token> tokens_;
};

// Literal text up to the next tag, and the tag.
absl::Status Lexer::Text() {
  size_t begin = at_;
  while (true) {
    begin = source_.find('{', begin);
    if (begin == source_.npos || begin + 1 == source_.size()) {
      begin = source_.size();
      break;
    }
    const char next = source_[begin + 1];
    if (next == '%' || next == '{' || next == '#') break;
    ++begin;
  }
  std::string_view text = source_.substr(at_, begin - at_);
  const size_t length = text.size();
  const char kind = begin < source_.size() ? source_[begin + 1] : '\0';
  const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
  if (kind != '\0' && sign == '-') {
    text = StripRight(text);
  } else if ((kind == '%' || kind == '#') && sign != '+') {
    const size_t line = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
    const bool only_blanks = StripLeft(text.substr(line)).empty();
    if (only_blanks && (line > 0 || line_starting_)) text = text.substr(0, line);
  }
  if (!text.empty()) Add(Token::kText, text);
  Advance(length);
  line_starting_ = false;
  if (kind == '\0') return absl::OkStatus();
  Advance(2);
  if (sign == '-' || sign == '+') Advance(1);
  return kind == '#' ? Comment() : Tag(kind == '%');
}

absl::Status Lexer::Comment() {
  const size_t end = source_.find("#}", at_);
  if (end == source_.npos) return Error(line_, "a comment has no end");
  const char sign = end > at_ ? source_[end - 1] : '\0';
  Advance(end + 2 - at_);
  SkipBehindTag(sign, true);
  return absl::OkStatus();
}

void Lexer::SkipBehindTag(char sign, bool block) {
  if (sign == '-') {
    const std::string_view rest = source_.substr(at_);
    const size_t blanks = rest.size() - StripLeft(rest).size();
    line_starting_ = blanks > 0 && rest[blanks - 1] == '\n';
    Advance(blanks);
  } else if (block && sign != '+' && Peek() == '\n') {
    Advance(1);
    line_starting_ = true;
  }
}

absl::Status Lexer::Tag(bool block) {
  const int begun = line_;
  Add(block ? Token::kBlockBegin : Token::kOutputBegin);
  brackets_.clear();
  while (true) {
    const std::string_view rest = source_.substr(at_);
    Advance(rest.size() - StripLeft(rest).size());
    if (at_ == source_.size()) return Error(begun, "a tag has no end");
    absl::StatusOr<bool> ended = TagEnd(block);
    if (!ended.ok()) return ended.status();
    if (*ended) return absl::OkStatus();
    if (auto s = Element(); !s.ok()) return s;
    // What follows would not be tokens but text.
    const Token* last = tokens_.data() + tokens_.size() - 1;
    if (last->text == "raw" && last[-1].kind == Token::kBlockBegin)
      return Unsupported(begun, "raw");
  }
}

// Takes the end of the tag, if it is here.
absl::StatusOr<bool> Lexer::TagEnd(bool block) {
  if (!brackets_.empty()) return false;
  const char sign = Peek();
  const size_t skip = sign == '-' || (sign == '+' && block) ? 1 : 0;
  if (source_.substr(std::min(at_ + skip, source_.size()), 2) != (block ? "%}" : "}}")) {
    return false;
  }
  Add(block ? Token::kBlockEnd : Token::kOutputEnd);
  Advance(skip + 2);
  SkipBehindTag(skip == 1 ? sign : '\0', block);
  return true;
}

// One token inside a tag.
absl::Status Lexer::Element() {
  const char c = Peek();
  if (IsNameStart(c)) {
    size_t length = 1;
    while (IsNameStart(Peek(length)) || IsDigit(Peek(length))) ++length;
    Add(Token::kName, source_.substr(at_, length));
    Advance(length);
    return absl::OkStatus();
  }
  if (IsDigit(c)) return Number();
  if (c == '\'' || c == '"') return String();
  for (const std::string_view symbol : {"==", "!=", "<=", ">=", "//", "**"}) {
    if (Follows(symbol)) {
      Add(Token::kSymbol, symbol);
      Advance(symbol.size());
      return absl::OkStatus();
    }
  }
  if (std::string_view("+-*/%~<>=.,:|()[]{};").find(c) == std::string_view::npos || c == '\0') {
    const Utf8Step step = StepUtf8(source_.substr(at_));
    return Error(
        line_, absl::StrCat("unexpected character '", Absl(source_.substr(at_, step.length)), "'"));
  }
  const size_t opening = std::string_view("([{").find(c);
  if (opening != std::string_view::npos) brackets_ += ")]}"[opening];
  if (c == ')' || c == ']' || c == '}') {
    if (brackets_.empty() || brackets_.back() != c) {
      return Error(line_, absl::StrCat("unexpected '", std::string(1, c), "'"));
    }
    brackets_.pop_back();
  }
  Add(Token::kSymbol, source_.substr(at_, 1));
  Advance(1);
  return absl::OkStatus();
}

// 12, 1.5, 1e-3, 1.5e3.
absl::Status Lexer::Number() {
  const auto digits = [this](size_t from) {
    size_t end = from;
    while (IsDigit(Peek(end))) ++end;
    return end;
  };
  size_t length = digits(0);
  bool real = false;
  if (Peek(length) == '.' && IsDigit(Peek(length + 1))) {
    length = digits(length + 1);
    real = true;
  }
  if (Peek(length) == 'e' || Peek(length) == 'E') {
    const size_t sign = Peek(length + 1) == '-' || Peek(length + 1) == '+' ? 1 : 0;
    if (IsDigit(Peek(length + 1 + sign))) {
      length = digits(length + 1 + sign);
      real = true;
    }
  }
  if (IsNameStart(Peek(length))) {
    size_t end = length;
    while (IsNameStart(Peek(end)) || IsDigit(Peek(end)) || Peek(end) == '.') ++end;
    return Unsupported(line_, source_.substr(at_, end));  // 0x1F, 1_000
  }
  const std::string_view text = source_.substr(at_, length);
  Add(real ? Token::kReal : Token::kInteger);
  Token& token = tokens_.back();
  const char* const end = text.data() + text.size();
  const auto result = real ? std::from_chars(text.data(), end, token.real)
                           : std::from_chars(text.data(), end, token.integer);
  if (result.ec != std::errc()) return Error(line_, "a number is too large");
  Advance(length);
  return absl::OkStatus();
}

absl::Status Lexer::String() {
  const char quote = Peek();
  size_t length = 1;
  while (at_ + length < source_.size() && Peek(length) != quote) {
    length += Peek(length) == '\\' ? 2 : 1;
  }
  if (at_ + length >= source_.size()) return Error(line_, "a string has no end");
  absl::StatusOr<std::string> text = Unescape(source_.substr(at_ + 1, length - 1), line_);
  if (!text.ok()) return text.status();
  Add(Token::kString, *text);
  Advance(length + 1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Token>> Lex(std::string_view source) {
  if (const size_t valid = ValidUtf8Prefix(source); valid < source.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat template is not valid UTF-8 at byte offset ", valid));
  }
  const std::string normalized = NormalizedSource(source);
  return Lexer(normalized).Run();
}

bool IsPythonSpace(char32_t point) {
  return IsIn(ClassOf(point), kSpaces) || (point >= 0x1C && point <= 0x1F);
}

std::string_view StripLeft(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = StepUtf8(text);
    if (!IsPythonSpace(step.point)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = LastUtf8(text);
    if (!IsPythonSpace(StepUtf8(text.substr(begin)).point)) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace isobit::jinja
