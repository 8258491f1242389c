#ifndef ISOBIT_RUNTIME_TEXT_JINJA_METHODS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_METHODS_H_

#include <optional>
#include <string_view>

#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// The method `name` of a text, list or dict, bound to it; nothing if Python has no such method. Of
// those that change their value, which templates may not call, an undefined value that says so.
std::optional<Value> Method(const Value& self, std::string_view name);

// Calls a bound method. Methods that Python has and this interpreter has not are refused by name.
Value CallMethod(Context& context, const Callable& method, const Arguments& arguments);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_METHODS_H_
