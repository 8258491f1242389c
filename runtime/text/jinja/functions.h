#ifndef ISOBIT_RUNTIME_TEXT_JINJA_FUNCTIONS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_FUNCTIONS_H_

#include <string_view>

#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// Whether Jinja or Hugging Face's environment has a global function of this name.
bool IsFunction(std::string_view name);

// Calls one: raise_exception, strftime_now, range, namespace, dict; others are refused by name.
Value CallFunction(Context& context, std::string_view name, const Arguments& arguments);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_FUNCTIONS_H_
