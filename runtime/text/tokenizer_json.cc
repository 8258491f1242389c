// Reads a tokenizer's tables from the files of a Hugging Face folder.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_json_file.h"
#include "runtime/text/tokenizer_json_pipeline.h"

namespace isobit {
namespace {

// Far above the largest published vocabulary; a lying id must not reserve memory.
constexpr int64_t kMaxVocab = int64_t{1} << 22;

absl::Status In(std::string_view file, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(Absl(file), ": ", status.message()));
}

struct OwnedAddedToken {
  std::string content;
  AddedToken token;  // its content is a view of the above
};

// Reads step by step; what tables' views look at lives here until the tokenizer is built.
class HuggingFaceReader {
 public:
  explicit HuggingFaceReader(const HuggingFaceTokenizerFiles& files) : files_(files) {}

  absl::StatusOr<std::unique_ptr<Tokenizer>> Run();

 private:
  absl::Status ReadTokenizerJson();
  absl::Status ReadModel(const Json& model);
  absl::Status CheckModelOptions(const Json& model) const;
  absl::Status ReadAddedTokens(const Json& list);
  absl::Status ReadVocabulary();
  absl::Status Place(int64_t id, const std::string& token);
  void SetKinds();
  absl::Status ReadUnknown(const Json& model);
  absl::Status ReadPostProcessor(const Json& part);
  absl::Status ReadTemplate(const Json& part);
  absl::Status ReadConfig();
  absl::Status ReadSpecialToken(const Json& config, const char* name, std::optional<int32_t>* id);
  absl::Status ReadAffixes(const Json& config);
  absl::Status ReadChatTemplate(const Json& config);
  std::optional<int32_t> FindToken(std::string_view token) const;

  const HuggingFaceTokenizerFiles& files_;
  TokenizerJsonFile file_;
  TokenizerTables tables_;
  std::vector<OwnedAddedToken> added_;
  std::vector<std::string> padding_;
  std::vector<bool> placed_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::vector<int32_t> prefix_, suffix_;  // of the post-processor
  std::string chat_template_;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> HuggingFaceReader::Run() {
  if (auto s = In("tokenizer.json", ReadTokenizerJson()); !s.ok()) return s;
  if (auto s = In("tokenizer_config.json", ReadConfig()); !s.ok()) return s;
  tables_.more_stop_ids.insert(tables_.more_stop_ids.end(), files_.stop_ids.begin(),
                               files_.stop_ids.end());
  absl::StatusOr<std::unique_ptr<Tokenizer>> made = Tokenizer::Create(tables_);
  if (!made.ok()) return In("tokenizer.json", made.status());
  return made;
}

absl::Status HuggingFaceReader::ReadTokenizerJson() {
  absl::StatusOr<TokenizerJsonFile> file = ParseTokenizerJson(files_.tokenizer_json);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  const Json& root = file_.root;
  tables_.alphabet = TokenizerTables::Alphabet::kCharacters;  // until a step ByteLevel comes
  if (auto s = ReadModel(Member(root, "model")); !s.ok()) return s;
  if (auto s = ReadAddedTokens(Member(root, "added_tokens")); !s.ok()) return s;
  if (auto s = ReadVocabulary(); !s.ok()) return s;
  if (auto s = ReadNormalizer(Member(root, "normalizer"), &tables_); !s.ok()) return s;
  if (auto s = ReadPreTokenizer(Member(root, "pre_tokenizer"), &tables_); !s.ok()) return s;
  if (auto s = ReadDecoder(Member(root, "decoder"), &tables_); !s.ok()) return s;
  SetKinds();
  if (auto s = ReadUnknown(Member(root, "model")); !s.ok()) return s;
  return ReadPostProcessor(Member(root, "post_processor"));
}

absl::Status HuggingFaceReader::CheckModelOptions(const Json& model) const {
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string value;
    if (auto s = ReadMember(model, option, &value); !s.ok()) return s;
    if (!value.empty()) {
      return absl::UnimplementedError(
          absl::StrCat("model.", option, " ", Quoted(value), " is not supported"));
    }
  }
  const Json& dropout = Member(model, "dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0)) {
    return absl::UnimplementedError("model.dropout is not supported");
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceReader::ReadModel(const Json& model) {
  if (!model.is_object()) return absl::InvalidArgumentError("'model' is missing");
  std::string type = file_.has_merges ? "BPE" : "";  // old files name none
  if (auto s = ReadMember(model, "type", &type); !s.ok()) return s;
  if (type != "BPE") {
    return absl::UnimplementedError(
        absl::StrCat("model ", Quoted(type), " is not supported (supported: BPE)"));
  }
  if (!file_.has_vocab) return absl::InvalidArgumentError("'model.vocab' is missing");
  if (!file_.has_merges) return absl::InvalidArgumentError("'model.merges' is missing");
  if (auto s = CheckModelOptions(model); !s.ok()) return s;
  if (auto s = ReadMember(model, "byte_fallback", &tables_.byte_fallback); !s.ok()) return s;
  if (auto s = ReadMember(model, "fuse_unk", &tables_.fuse_unknown); !s.ok()) return s;
  if (auto s = ReadMember(model, "ignore_merges", &tables_.ignore_merges); !s.ok()) return s;
  tables_.merges.reserve(file_.merges.size());
  for (const auto& [left, right] : file_.merges) tables_.merges.push_back({left, right});
  return absl::OkStatus();
}

absl::Status HuggingFaceReader::ReadUnknown(const Json& model) {
  std::string unknown;
  if (auto s = ReadMember(model, "unk_token", &unknown); !s.ok()) return s;
  if (!Member(model, "unk_token").is_string()) return absl::OkStatus();
  tables_.unknown_id = FindToken(unknown);
  if (tables_.unknown_id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.unk_token ", Quoted(unknown), " is not in the vocabulary"));
}

absl::Status HuggingFaceReader::ReadAddedTokens(const Json& list) {
  if (list.is_null()) return absl::OkStatus();
  if (!list.is_array()) return absl::InvalidArgumentError("'added_tokens' is not a list");
  for (const Json& element : list) {
    const std::string where = absl::StrCat("added_tokens[", added_.size(), "]");
    if (!element.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is not a JSON object"));
    }
    OwnedAddedToken& added = added_.emplace_back();
    AddedToken& token = added.token;
    int64_t id = -1;
    token.normalized = true;  // what the file leaves out
    for (const absl::Status& status :
         {ReadMember(element, "content", &added.content), ReadMember(element, "id", &id),
          ReadMember(element, "special", &token.special),
          ReadMember(element, "lstrip", &token.lstrip),
          ReadMember(element, "rstrip", &token.rstrip),
          ReadMember(element, "single_word", &token.single_word),
          ReadMember(element, "normalized", &token.normalized)}) {
      if (!status.ok()) return In(where, status);
    }
    if (added.content.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has no 'content'"));
    }
    if (id < 0 || id >= kMaxVocab) {
      return absl::InvalidArgumentError(absl::StrCat(where, " ", Quoted(added.content), " has id ",
                                                     id, ", expected 0 to ", kMaxVocab - 1));
    }
    token.id = static_cast<int32_t>(id);
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceReader::Place(int64_t id, const std::string& token) {
  const auto index = static_cast<size_t>(id);
  if (placed_[index]) {
    if (tables_.tokens[index] == token) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "id ", id, " belongs to ", Quoted(tables_.tokens[index]), " and to ", Quoted(token)));
  }
  const auto [found, is_new] = ids_.try_emplace(token, static_cast<int32_t>(id));
  if (!is_new) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", Quoted(token), " has the ids ", found->second, " and ", id));
  }
  placed_[index] = true;
  tables_.tokens[index] = token;
  return absl::OkStatus();
}

// Tokens by id; ids that nothing has are unused tokens.
absl::Status HuggingFaceReader::ReadVocabulary() {
  int64_t count = files_.vocab_size;
  if (count < 0 || count > kMaxVocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocab_size is ", count, ", expected 0 to ", kMaxVocab));
  }
  for (const auto& [token, id] : file_.vocab) {
    if (id < 0 || id >= kMaxVocab) {
      return absl::InvalidArgumentError(absl::StrCat("model.vocab: ", Quoted(token), " has id ", id,
                                                     ", expected 0 to ", kMaxVocab - 1));
    }
    count = std::max(count, id + 1);
  }
  for (const OwnedAddedToken& added : added_) count = std::max<int64_t>(count, added.token.id + 1);
  tables_.tokens.resize(static_cast<size_t>(count));
  placed_.resize(static_cast<size_t>(count));
  ids_.reserve(static_cast<size_t>(count));
  for (const auto& [token, id] : file_.vocab) {
    if (auto s = Place(id, token); !s.ok()) return In("model.vocab", s);
  }
  for (const OwnedAddedToken& added : added_) {
    if (auto s = Place(added.token.id, added.content); !s.ok()) return In("added_tokens", s);
  }
  padding_.reserve(static_cast<size_t>(count) - ids_.size());
  for (size_t id = 0; id < placed_.size(); ++id) {
    if (!placed_[id]) tables_.tokens[id] = padding_.emplace_back(absl::StrCat("[PAD", id, "]"));
  }
  return absl::OkStatus();
}

void HuggingFaceReader::SetKinds() {
  const bool of_bytes = tables_.alphabet == TokenizerTables::Alphabet::kBytes;
  tables_.kinds.assign(tables_.tokens.size(), TokenKind::kNormal);
  for (size_t id = 0; id < placed_.size(); ++id) {
    if (!placed_[id]) tables_.kinds[id] = TokenKind::kUnused;
  }
  if (!of_bytes && tables_.byte_fallback) {
    for (int byte = 0; byte < 256; ++byte) {
      const std::string hex = absl::StrCat(absl::Hex(byte, absl::kZeroPad2));
      std::string name = "<0x";
      for (const char c : hex) name += c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
      const auto found = ids_.find(name + ">");
      if (found != ids_.end()) tables_.kinds[static_cast<size_t>(found->second)] = TokenKind::kByte;
    }
  }
  std::vector<AddedToken>& added = tables_.added_tokens.emplace();
  for (OwnedAddedToken& owned : added_) {
    owned.token.content = owned.content;
    tables_.kinds[static_cast<size_t>(owned.token.id)] =
        owned.token.special ? TokenKind::kControl : TokenKind::kUserDefined;
    added.push_back(owned.token);
  }
}

// What stands in front of and behind the text of a template.
absl::Status HuggingFaceReader::ReadTemplate(const Json& part) {
  const Json& single = Member(part, "single");
  const Json& special = Member(part, "special_tokens");
  if (!single.is_array() || !special.is_object()) {
    return absl::InvalidArgumentError("post_processor: 'single' or 'special_tokens' is missing");
  }
  bool behind = false;
  for (const Json& piece : single) {
    if (piece.is_object() && piece.contains("Sequence")) {
      if (behind) return absl::UnimplementedError("post_processor: a text twice is not supported");
      behind = true;
      continue;
    }
    std::string name;
    const Json& token = piece.is_object() ? Member(piece, "SpecialToken") : piece;
    if (!token.is_object()) return absl::InvalidArgumentError("post_processor: a bad piece");
    if (auto s = ReadMember(token, "id", &name); !s.ok()) return In("post_processor", s);
    const Json& entry = Member(special, name.c_str());
    const Json& ids = entry.is_object() ? Member(entry, "ids") : entry;
    if (!ids.is_array()) {
      return absl::InvalidArgumentError(
          absl::StrCat("post_processor: special token ", Quoted(name), " has no 'ids'"));
    }
    for (const Json& id : ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= tables_.tokens.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("post_processor: special token ", Quoted(name),
                         " has an id that is not below ", tables_.tokens.size()));
      }
      (behind ? suffix_ : prefix_).push_back(id.get<int32_t>());
    }
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceReader::ReadPostProcessor(const Json& part) {
  if (part.is_null()) return absl::OkStatus();
  absl::StatusOr<std::string> type = TypeOf(part, "post_processor");
  if (!type.ok()) return type.status();
  if (*type == "ByteLevel") return absl::OkStatus();  // only moves offsets
  if (*type == "TemplateProcessing") return ReadTemplate(part);
  if (*type != "Sequence") {
    return absl::UnimplementedError(
        absl::StrCat("post_processor ", Quoted(*type), " is not supported"));
  }
  const Json& list = Member(part, "processors");
  if (!list.is_array()) return absl::InvalidArgumentError("'processors' is missing");
  for (const Json& element : list) {
    if (auto s = ReadPostProcessor(element); !s.ok()) return s;
  }
  return absl::OkStatus();
}

std::optional<int32_t> HuggingFaceReader::FindToken(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

// A special token is written as text or as an object with its properties.
absl::Status HuggingFaceReader::ReadSpecialToken(const Json& config, const char* name,
                                                 std::optional<int32_t>* id) {
  const Json& member = Member(config, name);
  if (member.is_null()) return absl::OkStatus();
  std::string text;
  if (auto s = member.is_object() ? ReadMember(member, "content", &text)
                                  : ReadMember(config, name, &text);
      !s.ok()) {
    return s;
  }
  *id = FindToken(text);
  if (*id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " ", Quoted(text), " is not a token of tokenizer.json"));
}

// BOS and EOS among what the post-processor adds. Classes of SentencePiece tokenizers build their
// own post-processor from two flags.
absl::Status HuggingFaceReader::ReadAffixes(const Json& config) {
  std::string name;
  if (auto s = ReadMember(config, "tokenizer_class", &name); !s.ok()) return s;
  const bool own = name == "LlamaTokenizer" || name == "LlamaTokenizerFast" ||
                   name == "GemmaTokenizer" || name == "GemmaTokenizerFast" ||
                   name == "CodeLlamaTokenizer" || name == "CodeLlamaTokenizerFast";
  const auto apply = [&](const char* flag, std::optional<int32_t> id, std::vector<int32_t>* ids) {
    if (!own || !Member(config, flag).is_boolean() || !id) return;
    ids->clear();
    if (Member(config, flag).get<bool>()) ids->push_back(*id);
  };
  apply("add_bos_token", tables_.bos_id, &prefix_);
  apply("add_eos_token", tables_.eos_id, &suffix_);
  if (tables_.bos_id && !prefix_.empty() && prefix_.front() == *tables_.bos_id) {
    tables_.add_bos = true;
    prefix_.erase(prefix_.begin());
  }
  if (tables_.eos_id && !suffix_.empty() && suffix_.back() == *tables_.eos_id) {
    tables_.add_eos = true;
    suffix_.pop_back();
  }
  tables_.more_prefix_ids = prefix_;
  tables_.more_suffix_ids = suffix_;
  return absl::OkStatus();
}

// Text, or a list of named templates of which the one named "default" is taken.
absl::Status HuggingFaceReader::ReadChatTemplate(const Json& config) {
  if (!files_.chat_template_jinja.empty()) {
    tables_.chat_template = files_.chat_template_jinja;
    return absl::OkStatus();
  }
  const Json& member = Member(config, "chat_template");
  if (member.is_null()) return absl::OkStatus();
  if (!member.is_array()) {
    if (auto s = ReadMember(config, "chat_template", &chat_template_); !s.ok()) return s;
    tables_.chat_template = chat_template_;
    return absl::OkStatus();
  }
  for (const Json& element : member) {
    std::string name;
    if (!element.is_object()) return absl::InvalidArgumentError("'chat_template' has a bad entry");
    if (auto s = ReadMember(element, "name", &name); !s.ok()) return s;
    if (name != "default") continue;
    if (auto s = ReadMember(element, "template", &chat_template_); !s.ok()) return s;
    tables_.chat_template = chat_template_;
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceReader::ReadConfig() {
  Json config = Json::object();
  if (!files_.tokenizer_config_json.empty()) {
    absl::StatusOr<Json> parsed = ParseJsonObject(files_.tokenizer_config_json);
    if (!parsed.ok()) return parsed.status();
    config = *std::move(parsed);
  }
  if (auto s = ReadSpecialToken(config, "bos_token", &tables_.bos_id); !s.ok()) return s;
  if (auto s = ReadSpecialToken(config, "eos_token", &tables_.eos_id); !s.ok()) return s;
  if (auto s = ReadAffixes(config); !s.ok()) return s;
  return ReadChatTemplate(config);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromHuggingFace(
    const HuggingFaceTokenizerFiles& files) {
  return HuggingFaceReader(files).Run();
}

}  // namespace isobit
