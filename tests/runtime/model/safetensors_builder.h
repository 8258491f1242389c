#ifndef ISOBIT_TESTS_RUNTIME_MODEL_SAFETENSORS_BUILDER_H_
#define ISOBIT_TESTS_RUNTIME_MODEL_SAFETENSORS_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace isobit {

// Writes small safetensors files for tests; `header` may be changed before Build, so that any of
// them can lie.
class SafetensorsBuilder {
 public:
  nlohmann::json header = nlohmann::json::object();

  SafetensorsBuilder& Tensor(const std::string& name, const std::string& dtype,
                             const std::vector<int64_t>& shape, const std::string& data) {
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {data_.size(), data_.size() + data.size()}}};
    data_ += data;
    return *this;
  }

  // The header's text padded with spaces to a multiple of 8 bytes, as the format asks of writers.
  std::string Build() const {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return WithHeader(text, data_);
  }

  static std::string WithHeader(const std::string& text, const std::string& data) {
    const auto size = static_cast<uint64_t>(text.size());
    std::string bytes(sizeof(size), '\0');
    std::memcpy(bytes.data(), &size, sizeof(size));
    return bytes + text + data;
  }

 private:
  std::string data_;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_MODEL_SAFETENSORS_BUILDER_H_
