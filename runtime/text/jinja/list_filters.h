// Internal to filters.cc: filters that look into lists and dicts.
#ifndef ISOBIT_RUNTIME_TEXT_JINJA_LIST_FILTERS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_LIST_FILTERS_H_

#include "runtime/text/jinja/context.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

Value JoinFilter(Context& context, const Value& value, const Arguments& arguments);
Value ListFilter(Context& context, const Value& value, const Arguments& arguments);
Value ItemsFilter(Context& context, const Value& value, const Arguments& arguments);
Value DictSortFilter(Context& context, const Value& value, const Arguments& arguments);
Value FirstFilter(Context& context, const Value& value, const Arguments& arguments);
Value LastFilter(Context& context, const Value& value, const Arguments& arguments);
Value ReverseFilter(Context& context, const Value& value, const Arguments& arguments);
Value SortFilter(Context& context, const Value& value, const Arguments& arguments);
Value UniqueFilter(Context& context, const Value& value, const Arguments& arguments);
Value MinFilter(Context& context, const Value& value, const Arguments& arguments);
Value MaxFilter(Context& context, const Value& value, const Arguments& arguments);
Value SumFilter(Context& context, const Value& value, const Arguments& arguments);
Value MapFilter(Context& context, const Value& value, const Arguments& arguments);
Value SelectFilter(Context& context, const Value& value, const Arguments& arguments);
Value RejectFilter(Context& context, const Value& value, const Arguments& arguments);
Value SelectAttrFilter(Context& context, const Value& value, const Arguments& arguments);
Value RejectAttrFilter(Context& context, const Value& value, const Arguments& arguments);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_LIST_FILTERS_H_
