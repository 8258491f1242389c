#include "kernels/cuda/gemm_plan_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace isobit::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "isobit gemm plans";
constexpr int kFormatVersion = 2;
constexpr int64_t kMostRows = int64_t{1} << 31;  // of anything: keeps sizes far from overflow

constexpr std::array kEpilogues = {
    std::pair{Gemm::Epilogue::kBf16, "bf16"}, std::pair{Gemm::Epilogue::kSiluGate, "silu gate"},
    std::pair{Gemm::Epilogue::kFp32, "fp32"}, std::pair{Gemm::Epilogue::kGeluGate, "gelu gate"}};

absl::Status Wrong(std::string_view what) {
  return absl::DataLossError(absl::StrCat("GEMM plans: ", std::string(what)));
}

// Reads fields of one object; the first that is missing or of another type is kept as the error.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  int64_t Integer(const char* name, int64_t least, int64_t most) {
    const Json* value = Find(name);
    if (value == nullptr) return least;
    const bool fits =
        value->is_number_integer() && (!value->is_number_unsigned() ||
                                       value->get<uint64_t>() <= static_cast<uint64_t>(kMostRows));
    const int64_t number = fits ? value->get<int64_t>() : 0;
    if (fits && number >= least && number <= most) return number;
    Keep(name, absl::StrCat("is ", value->dump(), ", not a number from ", least, " to ", most));
    return least;
  }
  int Int(const char* name, int least, int most) {
    return static_cast<int>(Integer(name, least, most));
  }
  double Number(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return 0;
    if (!value->is_number()) Keep(name, "is no number");
    return value->is_number() ? value->get<double>() : 0;
  }
  bool Flag(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) Keep(name, "is neither true nor false");
    return value->is_boolean() && value->get<bool>();
  }
  std::string Text(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return "";
    if (!value->is_string()) Keep(name, "is no string");
    return value->is_string() ? value->get<std::string>() : "";
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* name) {
    if (!object_.is_object() || !object_.contains(name)) {
      Keep(name, "is missing");
      return nullptr;
    }
    return &object_.at(name);
  }
  void Keep(const char* name, std::string_view what) {
    if (status_.ok()) status_ = Wrong(absl::StrCat(where_, name, " ", std::string(what)));
  }

  const Json& object_;
  const std::string where_;
  absl::Status status_;
};

absl::StatusOr<GemmPlanKey> ParseKey(const Json& file) {
  Reader in(file, "");
  const std::string format = in.Text("format");
  if (!in.status().ok() || format != kFormat) {
    return Wrong(absl::StrCat("this is no file of \"", kFormat, "\""));
  }
  in.Int("version", kFormatVersion, kFormatVersion);
  constexpr int kAny = 1 << 30;
  GemmPlanKey key;
  key.gpu = in.Text("gpu");
  key.multiprocessors = in.Int("multiprocessors", 1, 1 << 16);
  key.driver = in.Int("driver", 0, kAny);
  key.runtime = in.Int("runtime", 0, kAny);
  key.kernels = in.Int("kernels", 0, kAny);
  if (!in.status().ok()) return in.status();
  return key;
}

absl::StatusOr<GemmChoice> ParseChoice(const Json& object, size_t index) {
  const std::string where = absl::StrCat("choice ", index, ": ");
  Reader in(object, where);
  GemmChoice choice;
  choice.weight.rows = in.Integer("weight_rows", 1, kMostRows);
  choice.weight.cols = in.Integer("weight_cols", 1, kMostRows);
  const std::string epilogue = in.Text("epilogue");
  choice.first_rows = in.Integer("first_rows", 1, kMostRows);
  choice.last_rows = in.Integer("last_rows", choice.first_rows, kMostRows);
  choice.kernel.tile_rows = in.Int("tile_rows", 1, 1 << 16);
  choice.kernel.warpgroups = in.Int("warpgroups", 1, 1 << 16);
  choice.kernel.pair = in.Flag("pair");
  choice.tile_tokens = in.Int("tile_tokens", 1, MostTokens(choice.kernel));
  choice.microseconds = in.Number("microseconds");
  if (!in.status().ok()) return in.status();
  const auto* known = std::find_if(kEpilogues.begin(), kEpilogues.end(),
                                   [&](const auto& e) { return epilogue == e.second; });
  if (known == kEpilogues.end()) {
    return Wrong(absl::StrCat(where, "there is no epilogue \"", epilogue, "\""));
  }
  choice.epilogue = known->first;
  choice.weight.gate_up = IsGate(choice.epilogue);
  const auto kernels = GemmKernels();
  const bool exists = std::find(kernels.begin(), kernels.end(), choice.kernel) != kernels.end();
  if (!exists || choice.kernel.tile_rows % choice.weight.GroupRows() != 0) {
    return Wrong(absl::StrCat(where, "no kernel of ", choice.kernel.tile_rows, " rows and ",
                              choice.kernel.warpgroups, " warpgroups serves it"));
  }
  return choice;
}

}  // namespace

std::string ToString(const GemmPlanKey& key) {
  return absl::StrCat(key.gpu, " (", key.multiprocessors, " multiprocessors), driver ", key.driver,
                      ", runtime ", key.runtime, ", kernels ", key.kernels);
}

const char* Name(Gemm::Epilogue epilogue) {
  for (const auto& [value, name] : kEpilogues) {
    if (value == epilogue) return name;
  }
  return "";
}

std::string ToJson(const GemmPlanFile& file) {
  Json out = {{"format", kFormat},           {"version", kFormatVersion},
              {"gpu", file.key.gpu},         {"multiprocessors", file.key.multiprocessors},
              {"driver", file.key.driver},   {"runtime", file.key.runtime},
              {"kernels", file.key.kernels}, {"choices", Json::array()}};
  for (const GemmChoice& c : file.choices) {
    out["choices"].push_back({{"weight_rows", c.weight.rows},
                              {"weight_cols", c.weight.cols},
                              {"epilogue", Name(c.epilogue)},
                              {"first_rows", c.first_rows},
                              {"last_rows", c.last_rows},
                              {"tile_rows", c.kernel.tile_rows},
                              {"warpgroups", c.kernel.warpgroups},
                              {"pair", c.kernel.pair},
                              {"tile_tokens", c.tile_tokens},
                              {"microseconds", c.microseconds}});
  }
  return out.dump(1) + "\n";
}

absl::StatusOr<GemmPlanFile> ParseGemmPlanFile(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Wrong("this is no JSON");
  GemmPlanFile file;
  absl::StatusOr<GemmPlanKey> key = ParseKey(json);
  if (!key.ok()) return key.status();
  file.key = *std::move(key);
  if (!json.contains("choices") || !json.at("choices").is_array()) {
    return Wrong("choices is missing or no list");
  }
  for (const Json& object : json.at("choices")) {
    absl::StatusOr<GemmChoice> choice = ParseChoice(object, file.choices.size());
    if (!choice.ok()) return choice.status();
    file.choices.push_back(*choice);
  }
  return file;
}

}  // namespace isobit::cuda
