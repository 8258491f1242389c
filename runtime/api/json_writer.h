#ifndef ISOBIT_RUNTIME_API_JSON_WRITER_H_
#define ISOBIT_RUNTIME_API_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit {

// Writes one JSON text piece by piece, fields in the order of the calls, without white space.
// Numbers have the fewest digits that give back their own type's bits; those of floating-point
// always look like it ("-3.0"), so that readers with types keep them apart. What is not finite is
// written as null. Text is UTF-8; bytes that are not become U+FFFD.
//
// Not thread-safe. The caller keeps to JSON's grammar: a Key before each value in an object.
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view name);

  JsonWriter& Null();
  JsonWriter& Value(bool value);
  template <std::integral T>
  JsonWriter& Value(T value) {
    if constexpr (std::is_signed_v<T>) {
      return Integer(int64_t{value});
    } else {
      return Unsigned(uint64_t{value});
    }
  }
  JsonWriter& Value(float value);
  JsonWriter& Value(double value);
  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const std::string& text) { return Value(std::string_view(text)); }
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  // A value that is JSON already.
  JsonWriter& Raw(std::string_view json);
  template <typename T>
  JsonWriter& Value(const std::optional<T>& value) {
    return value.has_value() ? Value(*value) : Null();
  }
  template <typename T>
  JsonWriter& Value(const std::vector<T>& values) {
    BeginArray();
    for (const T& value : values) Value(value);
    return EndArray();
  }

  // Key and value of an object's member.
  template <typename T>
  JsonWriter& Field(std::string_view name, const T& value) {
    return Key(name).Value(value);
  }

  std::string Take() { return std::move(out_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  JsonWriter& Integer(int64_t value);
  JsonWriter& Unsigned(uint64_t value);
  template <typename T>
  JsonWriter& Floating(T value);
  void Separate();

  std::string out_;
  bool need_comma_ = false;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_JSON_WRITER_H_
