#include "runtime/text/tokenizer_json_file.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"

namespace isobit {
namespace {

constexpr int kMaxDepth = 64;

using Event = Json::parse_event_t;

// Takes the entries of model.vocab and model.merges out of the stream of events, so that hundreds
// of thousands of them never become JSON values, and a token that stands there twice is seen.
class TableReader {
 public:
  TableReader(TokenizerJsonFile* file, absl::Status* status) : file_(*file), status_(*status) {}

  // For nlohmann's parser: false drops the value.
  bool operator()(int depth, Event event, Json& parsed) {
    if (depth > kMaxDepth && status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("JSON is nested deeper than ", kMaxDepth));
    }
    if (!status_.ok()) return false;
    if (event == Event::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (depth == 1) in_model_ = key == "model";
      if (depth == 2)
        table_ = !in_model_ ? kNone : key == "vocab" ? kVocab : key == "merges" ? kMerges : kNone;
      if (depth == 2 && table_ == kVocab) file_.has_vocab = true;
      if (depth == 2 && table_ == kMerges) file_.has_merges = true;
      if (depth < 3 || !in_model_ || table_ != kVocab) return true;
      token_ = key;
      return false;
    }
    if (depth == 2 && event == Event::array_start && in_model_ && table_ == kVocab) {
      table_ = kNone;  // pieces and scores of another type of model
    }
    if (!in_model_ || table_ == kNone || depth < 3) return true;
    if (table_ == kVocab) return TakeToken(depth, event, parsed);
    return TakeMerge(depth, event, parsed);
  }

 private:
  enum Table { kNone, kVocab, kMerges };

  bool TakeToken(int depth, Event event, const Json& parsed) {
    if (depth != 3 || event != Event::value || !parsed.is_number_integer()) {
      Fail(absl::StrCat("model.vocab: the id of ", Quoted(token_), " is not an integer"));
      return false;
    }
    const bool fits = !parsed.is_number_unsigned() || parsed.get<uint64_t>() <= INT64_MAX;
    file_.vocab.emplace_back(token_, fits ? parsed.get<int64_t>() : INT64_MAX);
    return false;
  }

  // A merge is "left right" or ["left", "right"].
  bool TakeMerge(int depth, Event event, const Json& parsed) {
    const std::string what = absl::StrCat("model.merges: merge ", file_.merges.size());
    if (event == Event::array_start && depth == 3) {
      parts_.emplace();
      return true;  // of a dropped list the elements would not be told
    } else if (event == Event::array_end && depth == 3) {
      if (parts_->size() != 2) return Fail(absl::StrCat(what, " is not two pieces")), false;
      file_.merges.emplace_back((*parts_)[0], (*parts_)[1]);
      parts_.reset();
    } else if (event == Event::value && parsed.is_string()) {
      const std::string& text = parsed.get_ref<const std::string&>();
      if (parts_) {
        parts_->push_back(text);
        return false;
      }
      const size_t space = text.find(' ');
      if (space == text.npos || space == 0 || space + 1 == text.size() ||
          text.find(' ', space + 1) != text.npos) {
        return Fail(absl::StrCat(what, " ", Quoted(text),
                                 " is not two pieces with a space between them")),
               false;
      }
      file_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      Fail(absl::StrCat(what, " is not two pieces"));
    }
    return false;
  }

  void Fail(std::string message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  }

  TokenizerJsonFile& file_;
  absl::Status& status_;
  bool in_model_ = false;
  Table table_ = kNone;
  std::string token_;
  std::optional<std::vector<std::string>> parts_;
};

absl::Status NotJson(std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("the file is empty");
  return absl::InvalidArgumentError("not valid JSON");
}

std::string Shown(const Json& value) {
  return Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace

absl::StatusOr<TokenizerJsonFile> ParseTokenizerJson(std::string_view text) {
  TokenizerJsonFile file;
  absl::Status status;
  TableReader reader(&file, &status);
  file.root = Json::parse(
      text.begin(), text.end(),
      [&reader](int depth, Event event, Json& parsed) { return reader(depth, event, parsed); },
      /*allow_exceptions=*/false);
  if (!status.ok()) return status;
  if (file.root.is_discarded()) return NotJson(text);
  if (!file.root.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return file;
}

absl::StatusOr<Json> ParseJsonObject(std::string_view text) {
  bool too_deep = false;
  Json root = Json::parse(
      text.begin(), text.end(),
      [&too_deep](int depth, Event, Json&) { return !(too_deep = too_deep || depth > kMaxDepth); },
      /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(absl::StrCat("JSON is nested deeper than ", kMaxDepth));
  }
  if (root.is_discarded()) return NotJson(text);
  if (!root.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return root;
}

const Json& Member(const Json& object, const char* name) {
  static const Json* const kNull = new Json(nullptr);
  const auto found = object.find(name);
  return found == object.end() ? *kNull : *found;
}

absl::Status ReadMember(const Json& object, const char* name, bool* out) {
  const Json& member = Member(object, name);
  if (member.is_null()) return absl::OkStatus();
  if (!member.is_boolean()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is ", Shown(member), ", expected true or false"));
  }
  *out = member.get<bool>();
  return absl::OkStatus();
}

absl::Status ReadMember(const Json& object, const char* name, std::string* out) {
  const Json& member = Member(object, name);
  if (member.is_null()) return absl::OkStatus();
  if (!member.is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is ", Shown(member), ", expected a string"));
  }
  *out = member.get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadMember(const Json& object, const char* name, int64_t* out) {
  const Json& member = Member(object, name);
  if (member.is_null()) return absl::OkStatus();
  if (!member.is_number_integer() ||
      (member.is_number_unsigned() && member.get<uint64_t>() > INT64_MAX)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is ", Shown(member), ", expected an integer"));
  }
  *out = member.get<int64_t>();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TypeOf(const Json& part, std::string_view what) {
  std::string type;
  if (!part.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(Absl(what), " is not a JSON object"));
  }
  if (auto s = ReadMember(part, "type", &type); !s.ok()) return s;
  if (type.empty()) return absl::InvalidArgumentError(absl::StrCat(Absl(what), " has no 'type'"));
  return type;
}

}  // namespace isobit
