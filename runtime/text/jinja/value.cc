#include "runtime/text/jinja/value.h"

#include <algorithm>

namespace isobit::jinja {

const Value* Map::Find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text() != nullptr && *name.text() == key) return &value;
  }
  return nullptr;
}

const Value* Map::Find(const Value& key) const {
  if (key.text() != nullptr) return Find(std::string_view(*key.text()));
  for (const auto& [name, value] : entries) {
    if (key.integer() != nullptr && name.integer() != nullptr &&
        *name.integer() == *key.integer()) {
      return &value;
    }
  }
  return nullptr;
}

void Map::Set(Value key, Value value) {
  for (auto& [name, old] : entries) {
    const bool same = key.text() != nullptr
                          ? name.text() != nullptr && *name.text() == *key.text()
                          : name.integer() != nullptr && *name.integer() == *key.integer();
    if (same) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

Value::Value(List list) : Value(MakeSequence(std::move(list), Sequence::kList)) {}

Value::Value(Map map) {
  for (const auto& [key, value] : map.entries) depth_ = std::max(depth_, value.depth() + 1);
  depth_ = std::max(depth_, 1);
  data_ = std::make_shared<const Map>(std::move(map));
}

Value Value::MakeUndefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::move(what)};
  return value;
}

Value Value::MakeSafe(std::string text) {
  Value value(std::move(text));
  value.is_safe_ = true;
  return value;
}

Value Value::MakeSequence(List list, Sequence::Kind kind) {
  Value value;
  value.depth_ = 1;
  for (const Value& element : list) value.depth_ = std::max(value.depth_, element.depth() + 1);
  value.data_ = Sequence{std::make_shared<const List>(std::move(list)), kind};
  return value;
}

Value Value::MakeNamespace(Map map) {
  Value value;
  value.data_ = std::make_shared<Map>(std::move(map));
  value.depth_ = kMaxDepth;
  return value;
}

Value Value::MakeCallable(Callable callable) {
  Value value;
  value.data_ = std::make_shared<const Callable>(std::move(callable));
  value.depth_ = kMaxDepth;
  return value;
}

const std::string* Value::text() const {
  const auto* text = std::get_if<std::shared_ptr<const std::string>>(&data_);
  return text == nullptr ? nullptr : text->get();
}

const List* Value::list() const {
  const Sequence* found = sequence();
  return found == nullptr || found->kind > Sequence::kRange ? nullptr : found->list.get();
}

const Map* Value::map() const {
  const auto* map = std::get_if<std::shared_ptr<const Map>>(&data_);
  return map == nullptr ? nullptr : map->get();
}

Map* Value::name_space() const {
  const auto* map = std::get_if<Namespace>(&data_);
  return map == nullptr ? nullptr : map->get();
}

const Callable* Value::callable() const {
  const auto* callable = std::get_if<std::shared_ptr<const Callable>>(&data_);
  return callable == nullptr ? nullptr : callable->get();
}

bool Value::IsTrue() const {
  if (boolean() != nullptr) return *boolean();
  if (integer() != nullptr) return *integer() != 0;
  if (real() != nullptr) return *real() != 0;
  if (text() != nullptr) return !text()->empty();
  if (sequence() != nullptr) {
    return sequence()->kind == Sequence::kGenerator || !sequence()->list->empty();
  }
  if (map() != nullptr) return !map()->entries.empty();
  return name_space() != nullptr || callable() != nullptr;
}

std::string_view Value::TypeName() const {
  if (undefined() != nullptr) return "undefined";
  if (boolean() != nullptr) return "bool";
  if (integer() != nullptr) return "int";
  if (real() != nullptr) return "float";
  if (text() != nullptr) return "str";
  if (sequence() != nullptr) {
    constexpr std::string_view kNames[] = {"list",       "tuple",     "range",      "generator",
                                           "dict_items", "dict_keys", "dict_values"};
    return kNames[sequence()->kind];
  }
  if (map() != nullptr) return "dict";
  if (name_space() != nullptr) return "namespace";
  if (callable() != nullptr) return callable()->kind == Callable::kLoop ? "loop" : "function";
  return "None";
}

}  // namespace isobit::jinja
