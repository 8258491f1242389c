#ifndef ISOBIT_RUNTIME_TEXT_JINJA_FILTERS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_FILTERS_H_

#include <string_view>

#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// value | name(arguments). Jinja's filters and Hugging Face's tojson; those of Jinja that are not
// here are refused by name, others are errors.
Value ApplyFilter(Context& context, std::string_view name, const Value& value,
                  const Arguments& arguments);

// value is name(arguments).
bool ApplyTest(Context& context, std::string_view name, const Value& value,
               const Arguments& arguments);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_FILTERS_H_
