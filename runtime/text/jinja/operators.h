#ifndef ISOBIT_RUNTIME_TEXT_JINJA_OPERATORS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_OPERATORS_H_

#include <string>
#include <string_view>

#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// The language's operators on values, with Python's meaning. Each costs steps and bytes in
// proportion to its work, taken before the work is done; an error goes to the context.

// `symbol` is one of + - * / // % ** ~.
Value Binary(Context& context, std::string_view symbol, const Value& left, const Value& right);
// `symbol` is one of == != < <= > >= in, not in.
bool Compare(Context& context, std::string_view symbol, const Value& left, const Value& right);
bool Equal(Context& context, const Value& left, const Value& right);
bool Less(Context& context, const Value& left, const Value& right);
Value Negate(Context& context, const Value& value);

// value.name: a method before an entry; undefined if there is neither.
Value Attribute(Context& context, const Value& base, std::string_view name);
// base[index]: an entry before a method.
Value Item(Context& context, const Value& base, const Value& index);
// base[start:stop:step]; null is left out.
Value Slice(Context& context, const Value& base, const Value* start, const Value* stop,
            const Value* step);

// What `for` visits.
List Elements(Context& context, const Value& value);
// Characters, elements or entries; -1 and an error if the value has no length.
int64_t Length(Context& context, const Value& value);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_OPERATORS_H_
