#include "runtime/json/strict_json.h"

#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What the parser says about an error, without its error number, position and quotation of the
// input, which may be long and not UTF-8.
std::string Reason(std::string_view what) {
  const size_t column = what.find(", column ");
  if (column != std::string_view::npos) {
    const size_t colon = what.find(": ", column);
    if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
  }
  return std::string(what.substr(0, what.find("; last read")));
}

// Builds the document from the parser's events. The parser itself keeps its nesting on the heap.
// Json is json or ordered_json, whose types of numbers, texts and bytes are the same.
template <typename Json>
class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  Json Take() { return std::move(root_); }
  const absl::Status& status() const { return status_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(json::number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(json::number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(json::number_float_t value, const std::string&) override {
    return Add(value) != nullptr;
  }
  bool string(std::string& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    slot_ = AddMember(name);
    if (slot_ != nullptr) return true;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(DescribeJson(name), " stands twice in the same object"));
    return false;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("not valid JSON at byte ", position, ": ", Reason(error.what())));
    return false;
  }

 private:
  struct OpenContainer {
    Json* value;
    absl::flat_hash_set<std::string> names;  // of an ordered object's members
  };

  Json* Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& container = *open_.back().value;
    if (container.is_array()) return &container.emplace_back(std::move(value));
    *slot_ = std::move(value);
    return slot_;
  }

  // The value of a new member of the innermost object; null if it has one of this name.
  Json* AddMember(const std::string& name) {
    auto& members = open_.back().value->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, ordered_json>) {
      // The members are a vector, whose own search for a name looks at all of them.
      if (!open_.back().names.insert(name).second) return nullptr;
      return &members.emplace_back(name, nullptr).second;
    } else {
      const auto [member, is_new] = members.try_emplace(name);
      return is_new ? &member->second : nullptr;
    }
  }

  bool Open(Json container) {
    if (open_.size() >= size_t{kMaxJsonDepth}) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("JSON is nested deeper than ", kMaxJsonDepth, " levels"));
      return false;
    }
    open_.push_back({.value = Add(std::move(container)), .names = {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  // Containers that are not closed yet, outermost first. Only the innermost one grows, so that
  // pointers to the others stay valid.
  std::vector<OpenContainer> open_;
  Json* slot_ = nullptr;  // where the value of the last name goes
  absl::Status status_;
};

template <typename Json>
absl::StatusOr<Json> Parse(std::string_view text) {
  DocumentBuilder<Json> builder;
  if (Json::sax_parse(text, &builder)) return builder.Take();
  return builder.status();
}

template <typename T>
absl::Status ReadInteger(const json& value, std::string_view name, T& out) {
  constexpr T kMin = std::numeric_limits<T>::min();
  constexpr T kMax = std::numeric_limits<T>::max();
  bool fits = false;
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    fits = std::in_range<T>(number);
    if (fits) out = static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    fits = std::in_range<T>(number);
    if (fits) out = static_cast<T>(number);
  }
  if (fits) return absl::OkStatus();
  return JsonTypeError(name, absl::StrCat("an integer from ", kMin, " to ", kMax), value);
}

}  // namespace

absl::StatusOr<json> ParseStrictJson(std::string_view text) { return Parse<json>(text); }

absl::StatusOr<ordered_json> ParseStrictJsonInOrder(std::string_view text) {
  return Parse<ordered_json>(text);
}

std::string DescribeJson(const json& value) {
  constexpr size_t kMaxBytes = 60;
  // A container is described by its kind: printing it could take long.
  if (value.is_array()) return absl::StrCat("an array of ", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMaxBytes) {
    return absl::StrCat("a string of ", value.get_ref<const std::string&>().size(), " bytes");
  }
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

absl::Status JsonTypeError(std::string_view name, std::string_view what, const json& value) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(name), " must be ", std::string(what),
                                                 ", got ", DescribeJson(value)));
}

absl::Status ReadJson(const json& value, std::string_view name, bool& out) {
  if (!value.is_boolean()) return JsonTypeError(name, "true or false", value);
  out = value.get<bool>();
  return absl::OkStatus();
}

absl::Status ReadJson(const json& value, std::string_view name, int32_t& out) {
  return ReadInteger(value, name, out);
}

absl::Status ReadJson(const json& value, std::string_view name, int64_t& out) {
  return ReadInteger(value, name, out);
}

absl::Status ReadJson(const json& value, std::string_view name, uint64_t& out) {
  return ReadInteger(value, name, out);
}

absl::Status ReadJson(const json& value, std::string_view name, double& out) {
  if (!value.is_number()) return JsonTypeError(name, "a number", value);
  out = value.get<double>();
  return absl::OkStatus();
}

absl::Status ReadJson(const json& value, std::string_view name, std::string& out) {
  if (!value.is_string()) return JsonTypeError(name, "a string", value);
  out = value.get_ref<const std::string&>();
  return absl::OkStatus();
}

absl::Status ReadJson(const json& value, std::string_view name, std::vector<int32_t>& out) {
  if (!value.is_array()) return JsonTypeError(name, "an array of token ids", value);
  out.clear();
  out.reserve(value.size());
  for (const json& element : value) {
    int32_t id = 0;
    if (!element.is_number_integer() || !ReadInteger(element, name, id).ok()) {
      return JsonTypeError(
          absl::StrCat(std::string(name), "[", out.size(), "]"),
          absl::StrCat("a token id, an integer from 0 to ", std::numeric_limits<int32_t>::max()),
          element);
    }
    out.push_back(id);
  }
  return absl::OkStatus();
}

}  // namespace isobit
