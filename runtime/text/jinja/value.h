#ifndef ISOBIT_RUNTIME_TEXT_JINJA_VALUE_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace isobit::jinja {

class Value;

using List = std::vector<Value>;

// Keys are unique and keep their order.
struct Map {
  std::vector<std::pair<std::string, Value>> entries;
  // Of an object of the language itself (`loop`): its name. Reading an entry that such an object
  // does not have is refused, since the full language may have it.
  std::string builtin;

  const Value* Find(std::string_view key) const;
};

// What an expression gives: Python's values as far as chat templates see them. Copies are cheap:
// strings, lists and maps are shared and never change.
class Value {
 public:
  struct Undefined {
    std::string what;  // for messages: "'x'", "'dict object' has no attribute 'y'"
  };
  struct None {};

  Value() : data_(None{}) {}
  Value(bool b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(List list) : data_(std::make_shared<const List>(std::move(list))) {}
  Value(Map map);
  static Value MakeUndefined(std::string what) {
    Value value;
    value.data_ = Undefined{std::move(what)};
    return value;
  }

  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const std::string* text() const;
  const List* list() const;
  const Map* map() const;

  // Python's truth of the value.
  bool IsTrue() const;

  // The type as Jinja's messages name it: "str", "int", "list" ...
  std::string_view TypeName() const;

 private:
  std::variant<None, Undefined, bool, int64_t, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Map>>
      data_;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_VALUE_H_
