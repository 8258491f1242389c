#ifndef ISOBIT_RUNTIME_TEXT_JINJA_LEXER_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace isobit::jinja {

struct Token {
  enum Kind {
    kText,         // literal output; `text`
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kName,         // identifier or keyword; `text`
    kString,       // `text`, escapes resolved
    kInteger,      // `integer`
    kReal,         // `real`
    kSymbol,       // operator or bracket; `text`
    kEnd,          // of the template
  };
  Kind kind;
  std::string text;
  int64_t integer = 0;
  double real = 0;
  int line = 1;
};

// Cuts a template into tokens, the last of which is kEnd. White space in literal output follows
// Jinja with trim_blocks and lstrip_blocks, as Hugging Face renders chat templates: a block tag
// takes the line break behind it and the blanks before it on its line; `-` takes all white space on
// its side, `+` none; one line break at the end of the template is dropped.
absl::StatusOr<std::vector<Token>> Lex(std::string_view source);

// White space as Python's str.strip() and regular expressions see it.
bool IsPythonSpace(char32_t point);
// `text` without white space at its ends. REQUIRES: valid UTF-8.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_LEXER_H_
