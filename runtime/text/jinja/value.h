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
struct Callable;

using List = std::vector<Value>;

// Keys are texts or integers, unique, and keep their order.
struct Map {
  std::vector<std::pair<Value, Value>> entries;

  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;  // none for what can't be a key
  void Set(Value key, Value value);
};

// What an expression gives: Python's values as far as chat templates see them. Copies are cheap:
// strings, lists and maps are shared and, but for namespaces, never change.
class Value {
 public:
  struct Undefined {
    std::string what;  // for messages: "'x' is undefined", "'dict object' has no attribute 'y'"
  };
  struct None {};
  // What has elements. Generators and views are lists that hide parts of what a list can do.
  struct Sequence {
    enum Kind { kList, kTuple, kRange, kGenerator, kItems, kKeys, kValues };
    std::shared_ptr<const List> list;
    Kind kind;
  };
  // The one value that changes: {% set ns.x = 1 %}.
  using Namespace = std::shared_ptr<Map>;

  Value() : data_(None{}) {}
  Value(bool b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  Value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(List list);
  Value(Map map);
  static Value MakeUndefined(std::string what);
  // Text that |safe or |escape has marked: what is added to it with + is escaped.
  static Value MakeSafe(std::string text);
  static Value MakeSequence(List list, Sequence::Kind kind);
  static Value MakeNamespace(Map map);
  static Value MakeCallable(Callable callable);

  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* text() const;
  bool is_safe() const { return is_safe_; }
  const Sequence* sequence() const { return std::get_if<Sequence>(&data_); }
  const List* list() const;  // of a list, a tuple or a range
  const Map* map() const;
  Map* name_space() const;
  const Callable* callable() const;
  // Python's bool is an int.
  bool is_number() const {
    return boolean() != nullptr || integer() != nullptr || real() != nullptr;
  }

  // How deeply lists and maps nest in it: 0 for a text. What changes or can be called counts as
  // kMaxDepth, so that it does not get into lists and maps and no value can hold itself.
  static constexpr int kMaxDepth = 100;
  int depth() const { return depth_; }

  // Python's truth of the value.
  bool IsTrue() const;

  // The type as Python names it: "str", "int", "list" ...
  std::string_view TypeName() const;

 private:
  std::variant<None, Undefined, bool, int64_t, double, std::shared_ptr<const std::string>, Sequence,
               std::shared_ptr<const Map>, Namespace, std::shared_ptr<const Callable>>
      data_;
  int depth_ = 0;
  bool is_safe_ = false;
};

struct Statement;
class Scope;

// What can be called: a function of the language, a method of a value, a macro, or `loop`, whose
// attributes make it callable in the full language.
struct Callable {
  enum Kind { kFunction, kMethod, kMacro, kLoop };
  Kind kind;
  std::string name;                  // of the function, method or macro
  Value self = {};                   // kMethod: what it is called on
  const Statement* macro = nullptr;  // kMacro; or the {% call %} whose body it is
  Scope* scope = nullptr;            // kMacro: where it was defined
  // kLoop: all elements, and the round.
  std::shared_ptr<const List> elements = {};
  size_t index = 0;
};

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_VALUE_H_
