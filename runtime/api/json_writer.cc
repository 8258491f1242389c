#include "runtime/api/json_writer.h"

#include <charconv>
#include <cmath>

#include "nlohmann/json.hpp"

namespace isobit {
namespace {

// Long enough for any 64-bit integer and for the shortest form of any double.
using NumberText = char[40];

template <typename T>
std::string_view Print(T value, NumberText& buffer) {
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return {buffer, static_cast<size_t>(result.ptr - buffer)};
}

}  // namespace

void JsonWriter::Separate() {
  if (need_comma_) out_ += ',';
  need_comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  Value(name);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Value(bool value) {
  Separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Integer(int64_t value) {
  Separate();
  NumberText buffer;
  out_ += Print(value, buffer);
  return *this;
}

JsonWriter& JsonWriter::Unsigned(uint64_t value) {
  Separate();
  NumberText buffer;
  out_ += Print(value, buffer);
  return *this;
}

template <typename T>
JsonWriter& JsonWriter::Floating(T value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  NumberText buffer;
  const std::string_view digits = Print(value, buffer);
  out_ += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  return *this;
}

JsonWriter& JsonWriter::Value(float value) { return Floating(value); }
JsonWriter& JsonWriter::Value(double value) { return Floating(value); }

JsonWriter& JsonWriter::Value(std::string_view text) {
  using nlohmann::json;
  Separate();
  out_ += json(text).dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  return *this;
}

}  // namespace isobit
