#ifndef ISOBIT_RUNTIME_TEXT_JINJA_TEXT_FORM_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_TEXT_FORM_H_

#include <string>

#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// Values as text, as Python writes them. Each charges the context for what it makes.

// str(value): what {{ value }} prints.
std::string Str(Context& context, const Value& value);

// repr(value): strings in quotes.
std::string Repr(Context& context, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  int indent = -1;                            // blanks a level; -1: all on one line
  std::string item_separator, key_separator;  // empty: Python's for the indent
};

// json.dumps(value).
std::string ToJson(Context& context, const Value& value, const JsonStyle& style);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_TEXT_FORM_H_
