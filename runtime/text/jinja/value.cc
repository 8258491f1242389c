#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

const Value* Map::Find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

Value::Value(Map map) : data_(std::make_shared<const Map>(std::move(map))) {}

const std::string* Value::text() const {
  const auto* text = std::get_if<std::shared_ptr<const std::string>>(&data_);
  return text == nullptr ? nullptr : text->get();
}

const List* Value::list() const {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&data_);
  return list == nullptr ? nullptr : list->get();
}

const Map* Value::map() const {
  const auto* map = std::get_if<std::shared_ptr<const Map>>(&data_);
  return map == nullptr ? nullptr : map->get();
}

bool Value::IsTrue() const {
  if (boolean() != nullptr) return *boolean();
  if (integer() != nullptr) return *integer() != 0;
  if (text() != nullptr) return !text()->empty();
  if (list() != nullptr) return !list()->empty();
  if (map() != nullptr) return !map()->entries.empty();
  return false;
}

std::string_view Value::TypeName() const {
  if (undefined() != nullptr) return "undefined";
  if (boolean() != nullptr) return "bool";
  if (integer() != nullptr) return "int";
  if (text() != nullptr) return "str";
  if (list() != nullptr) return "list";
  if (map() != nullptr) return "dict";
  return "None";
}

}  // namespace isobit::jinja
