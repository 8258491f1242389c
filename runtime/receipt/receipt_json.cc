// Receipts as text: writing and strict reading.

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/api/json_writer.h"
#include "runtime/api/sampling_json.h"
#include "runtime/json/strict_json.h"
#include "runtime/receipt/receipt.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "isobit receipt";
constexpr int64_t kVersion = 1;

// ---- Writing

void WriteLogProbs(const std::vector<TokenLogProbs>& positions, JsonWriter& out) {
  out.BeginArray();
  for (const TokenLogProbs& position : positions) {
    if (position.token_id < 0) {
      out.Null();
    } else {
      out.Value(position.logprob);
    }
  }
  out.EndArray();
}

void WriteChoice(const Choice& choice, JsonWriter& out) {
  out.BeginObject();
  out.Field("index", choice.index);
  out.Field("finish_reason", FinishReasonName(choice.finish_reason));
  out.Field("text", choice.text);
  out.Field("token_ids", choice.token_ids);
  WriteLogProbs(choice.logprobs.value(), out.Key("logprobs"));
  out.Field("digest", choice.digest.ToHex());
  out.EndObject();
}

// ---- Reading

// The members of one object, each of which is read once. The first error sticks; Finish() adds
// fields that nobody asked for.
class Members {
 public:
  Members(const json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) status_ = JsonTypeError(name_, "an object", object);
  }

  // Null if missing or after an error.
  const json* Find(const std::string& field) {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(field);
    if (found == object_.end()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(Name(field), " is missing"));
      return nullptr;
    }
    ++read_;
    return &*found;
  }

  template <typename T>
  void Read(const std::string& field, T& out) {
    if (const json* value = Find(field)) status_ = ReadJson(*value, Name(field), out);
  }

  void Read(const std::string& field, Digest& out) {
    std::string text;
    Read(field, text);
    if (!status_.ok()) return;
    absl::StatusOr<Digest> digest = Digest::FromHex(text);
    if (digest.ok()) {
      out = *digest;
    } else {
      Fail(absl::StrCat(Name(field), ": ", digest.status().message()));
    }
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  }
  void Set(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  std::string Name(const std::string& field) const {
    return name_.empty() ? field : absl::StrCat(name_, ".", field);
  }

  bool ok() const { return status_.ok(); }

  absl::Status Finish() {
    if (status_.ok() && read_ != object_.size()) {
      Fail(absl::StrCat(name_.empty() ? "the receipt" : name_, " has ", object_.size() - read_,
                        " fields that receipts of version ", kVersion, " do not have"));
    }
    return status_;
  }

 private:
  const json& object_;
  const std::string name_;
  size_t read_ = 0;
  absl::Status status_;
};

// `ids` are the tokens that the log-probabilities belong to.
absl::Status ReadLogProbs(const json& value, const std::string& name,
                          const std::vector<int32_t>& ids, bool first_has_none,
                          std::vector<TokenLogProbs>& out) {
  if (!value.is_array() || value.size() != ids.size()) {
    return JsonTypeError(name, absl::StrCat("an array of ", ids.size(), ", one for each token"),
                         value);
  }
  out.clear();
  out.reserve(ids.size());
  for (const json& element : value) {
    const size_t i = out.size();
    TokenLogProbs& position = out.emplace_back();
    if (i == 0 && first_has_none) {
      if (!element.is_null()) return JsonTypeError(absl::StrCat(name, "[0]"), "null", element);
      continue;
    }
    position.token_id = ids[i];
    double logprob = -std::numeric_limits<double>::infinity();
    if (!element.is_null()) {
      if (const absl::Status status = ReadJson(element, absl::StrCat(name, "[", i, "]"), logprob);
          !status.ok()) {
        return status;
      }
      if (std::fabs(logprob) > std::numeric_limits<float>::max()) {
        return JsonTypeError(absl::StrCat(name, "[", i, "]"), "a number of fp32's range", element);
      }
    }
    position.logprob = static_cast<float>(logprob);
  }
  return absl::OkStatus();
}

absl::Status ReadFinishReason(const std::string& text, const std::string& name, FinishReason& out) {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength}) {
    if (text != FinishReasonName(reason)) continue;
    out = reason;
    return absl::OkStatus();
  }
  return JsonTypeError(name, "\"stop\" or \"length\"", text);
}

absl::Status ReadChoice(const json& value, size_t index, Choice& choice) {
  Members members(value, absl::StrCat("choices[", index, "]"));
  std::string finish_reason;
  members.Read("index", choice.index);
  if (members.ok() && choice.index != static_cast<int>(index)) {
    members.Fail(absl::StrCat(members.Name("index"), " must be ", index, ", got ", choice.index));
  }
  members.Read("finish_reason", finish_reason);
  if (members.ok()) {
    members.Set(
        ReadFinishReason(finish_reason, members.Name("finish_reason"), choice.finish_reason));
  }
  members.Read("text", choice.text);
  members.Read("token_ids", choice.token_ids);
  if (const json* logprobs = members.Find("logprobs")) {
    members.Set(ReadLogProbs(*logprobs, members.Name("logprobs"), choice.token_ids,
                             /*first_has_none=*/false, choice.logprobs.emplace()));
  }
  members.Read("digest", choice.digest);
  return members.Finish();
}

absl::Status ReadSampling(const json& value, SamplingParams& params) {
  if (!value.is_object()) return JsonTypeError("sampling", "an object", value);
  for (const auto& [name, field] : value.items()) {
    if (!IsSamplingField(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown field ", DescribeJson(name), " in sampling"));
    }
    if (const absl::Status s = ReadSamplingField(field, name, params); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckFormat(Members& members) {
  std::string format;
  int64_t version = 0;
  members.Read("format", format);
  if (members.ok() && format != kFormat) {
    members.Set(JsonTypeError("format", absl::StrCat("\"", std::string(kFormat), "\""), format));
  }
  members.Read("version", version);
  if (members.ok() && version != kVersion) {
    members.Fail(
        absl::StrCat("version must be ", kVersion, ", the one this build reads, got ", version));
  }
  return members.ok() ? absl::OkStatus() : members.Finish();
}

}  // namespace

std::string ReceiptToJson(const Receipt& receipt) {
  const Completion& completion = receipt.completion;
  JsonWriter out;
  out.BeginObject();
  out.Field("format", kFormat);
  out.Field("version", kVersion);
  out.Field("build", receipt.build);
  out.Field("contract", receipt.contract);
  out.Key("model").BeginObject();
  out.Field("name", receipt.model_name).Field("digest", receipt.model_digest.ToHex());
  out.EndObject();
  out.Field("id", completion.id);
  out.Field("digest", completion.digest.ToHex());
  out.Key("sampling").BeginObject();
  WriteSamplingFields(receipt.sampling, out);
  out.EndObject();
  out.Field("prompt_token_ids", completion.prompt_token_ids);
  out.Key("prompt_logprobs");
  if (completion.prompt_logprobs.has_value()) {
    WriteLogProbs(*completion.prompt_logprobs, out);
  } else {
    out.Null();
  }
  out.Key("choices").BeginArray();
  for (const Choice& choice : completion.choices) WriteChoice(choice, out);
  out.EndArray();
  return out.EndObject().Take() + "\n";
}

absl::StatusOr<Receipt> ParseReceipt(std::string_view text) {
  absl::StatusOr<json> document = ParseStrictJson(text);
  if (!document.ok()) return document.status();
  Members members(*document, "");
  if (const absl::Status status = CheckFormat(members); !status.ok()) return status;

  Receipt receipt;
  Completion& completion = receipt.completion;
  members.Read("build", receipt.build);
  members.Read("contract", receipt.contract);
  if (const json* value = members.Find("model")) {
    Members model(*value, "model");
    model.Read("name", receipt.model_name);
    model.Read("digest", receipt.model_digest);
    members.Set(model.Finish());
  }
  members.Read("id", completion.id);
  members.Read("digest", completion.digest);
  if (const json* sampling = members.Find("sampling")) {
    members.Set(ReadSampling(*sampling, receipt.sampling));
  }
  completion.seed = receipt.sampling.seed;
  members.Read("prompt_token_ids", completion.prompt_token_ids);
  if (const json* logprobs = members.Find("prompt_logprobs"); logprobs && !logprobs->is_null()) {
    members.Set(ReadLogProbs(*logprobs, "prompt_logprobs", completion.prompt_token_ids,
                             /*first_has_none=*/true, completion.prompt_logprobs.emplace()));
  }
  if (const json* choices = members.Find("choices")) {
    if (!choices->is_array() || choices->empty()) {
      members.Set(JsonTypeError("choices", "an array of at least one choice", *choices));
    } else {
      for (size_t i = 0; i < choices->size(); ++i) {
        members.Set(ReadChoice((*choices)[i], i, completion.choices.emplace_back()));
      }
    }
  }
  if (const absl::Status status = members.Finish(); !status.ok()) return status;
  return receipt;
}

}  // namespace isobit
