#include "runtime/text/tokenizer_json_pipeline.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/pretokenizer_rules.h"

namespace isobit {
namespace {

using Behavior = PreTokenizer::Behavior;

// \w+|[^\w\s]+ with Hugging Face's \w in full; see IsWordChar.
std::string WordsAndSigns() {
  const absl::string_view word =
      "\\w\\p{Nl}\u200C\u200D\u24B6-\u24E9\U0001F130-\U0001F149\U0001F150-\U0001F169"
      "\U0001F170-\U0001F189";
  return absl::StrCat("[", word, "]+|[^\\s", word, "]+");
}

absl::Status Unsupported(std::string_view what, std::string_view name) {
  return absl::UnimplementedError(absl::StrCat(Absl(what), " ", Quoted(name), " is not supported"));
}

absl::Status Missing(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(what), " is missing or of another type"));
}

// {"String": "x"} or {"Regex": "x"}.
absl::Status ReadPattern(const Json& part, std::string* text, bool* is_regex) {
  const Json& pattern = Member(part, "pattern");
  if (!pattern.is_object()) return Missing("'pattern'");
  *is_regex = pattern.contains("Regex");
  *text = "";
  if (auto s = ReadMember(pattern, *is_regex ? "Regex" : "String", text); !s.ok()) return s;
  return text->empty() ? Missing("'pattern'") : absl::OkStatus();
}

// Calls `read` for each element of a list.
template <typename Read>
absl::Status ForEach(const Json& list, std::string_view name, Read read) {
  if (!list.is_array()) return Missing(name);
  for (const Json& element : list) {
    if (absl::Status s = read(element); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ReadReplace(const Json& part, Normalizer* normalizer) {
  std::string pattern, content;
  bool is_regex = false;
  if (auto s = ReadPattern(part, &pattern, &is_regex); !s.ok()) return s;
  if (auto s = ReadMember(part, "content", &content); !s.ok()) return s;
  if (is_regex) return normalizer->AddReplacePattern(pattern, content);
  normalizer->AddReplace(pattern, content);
  return absl::OkStatus();
}

absl::StatusOr<Behavior> BehaviorOf(const Json& part) {
  std::string name;
  if (auto s = ReadMember(part, "behavior", &name); !s.ok()) return s;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return Unsupported("behavior", name);
}

absl::Status AddSplit(const Json& part, TokenizerTables* tables) {
  std::string pattern;
  bool is_regex = false, invert = false;
  if (auto s = ReadPattern(part, &pattern, &is_regex); !s.ok()) return s;
  if (auto s = ReadMember(part, "invert", &invert); !s.ok()) return s;
  absl::StatusOr<Behavior> behavior = BehaviorOf(part);
  if (!behavior.ok()) return behavior.status();
  if (is_regex) return tables->splitter.AddPattern(pattern, *behavior, invert);
  tables->splitter.AddLiteral(pattern, *behavior, invert);
  return absl::OkStatus();
}

absl::Status AddByteLevel(const Json& part, TokenizerTables* tables) {
  bool add_prefix_space = true, use_regex = true;
  if (auto s = ReadMember(part, "add_prefix_space", &add_prefix_space); !s.ok()) return s;
  if (auto s = ReadMember(part, "use_regex", &use_regex); !s.ok()) return s;
  if (tables->alphabet == TokenizerTables::Alphabet::kBytes) {
    return Unsupported("pre-tokenizer", "ByteLevel behind ByteLevel");
  }
  if (add_prefix_space) {
    if (!tables->splitter.empty()) return Unsupported("add_prefix_space behind", "another step");
    tables->rewriter.AddDummyPrefix(" ", /*first_only=*/false);
  }
  if (use_regex) {
    if (auto s = tables->splitter.AddPattern(pretokenizer_internal::kGpt2Pattern); !s.ok()) {
      return s;
    }
  }
  tables->splitter.AddByteLevel();
  tables->alphabet = TokenizerTables::Alphabet::kBytes;
  return absl::OkStatus();
}

// Whether a Metaspace puts its mark in front of a text: "always", "first" or "never". Older files
// have add_prefix_space instead.
absl::StatusOr<std::string> PrependScheme(const Json& part) {
  bool add_prefix_space = true;
  if (auto s = ReadMember(part, "add_prefix_space", &add_prefix_space); !s.ok()) return s;
  std::string scheme = add_prefix_space ? "always" : "never";
  if (auto s = ReadMember(part, "prepend_scheme", &scheme); !s.ok()) return s;
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return Unsupported("prepend_scheme", scheme);
  }
  return scheme;
}

absl::Status AddMetaspace(const Json& part, TokenizerTables* tables) {
  std::string replacement(kSpaceMarker);
  bool split = true;
  if (auto s = ReadMember(part, "replacement", &replacement); !s.ok()) return s;
  if (auto s = ReadMember(part, "split", &split); !s.ok()) return s;
  absl::StatusOr<std::string> scheme = PrependScheme(part);
  if (!scheme.ok()) return scheme.status();
  if (replacement.empty()) return Missing("'replacement'");
  if (!tables->splitter.empty()) return Unsupported("Metaspace behind", "another step");
  tables->rewriter.AddReplace(" ", replacement);
  if (*scheme != "never") tables->rewriter.AddDummyPrefix(replacement, *scheme == "first");
  if (split) tables->splitter.AddLiteral(replacement, Behavior::kMergedWithNext, false);
  return absl::OkStatus();
}

absl::Status AddPunctuation(const Json& part, TokenizerTables* tables) {
  absl::StatusOr<Behavior> behavior = Behavior::kIsolated;
  if (part.contains("behavior")) behavior = BehaviorOf(part);
  if (!behavior.ok()) return behavior.status();
  // All of ASCII's signs count, whatever their category.
  if (*behavior == Behavior::kContiguous) {
    return tables->splitter.AddPattern(R"([\p{P}\$\+<=>\^~\|`]+)");
  }
  return tables->splitter.AddPattern(R"([\p{P}\$\+<=>\^~\|`])", *behavior);
}

absl::Status AddDigits(const Json& part, TokenizerTables* tables) {
  bool individual = false;
  if (auto s = ReadMember(part, "individual_digits", &individual); !s.ok()) return s;
  return tables->splitter.AddPattern(individual ? R"(\p{N})" : R"(\p{N}+)");
}

}  // namespace

absl::Status ReadNormalizer(const Json& part, TokenizerTables* tables) {
  if (part.is_null()) return absl::OkStatus();
  absl::StatusOr<std::string> type = TypeOf(part, "normalizer");
  if (!type.ok()) return type.status();
  Normalizer& normalizer = tables->normalizer;
  if (*type == "Sequence") {
    return ForEach(Member(part, "normalizers"), "'normalizers'",
                   [tables](const Json& element) { return ReadNormalizer(element, tables); });
  }
  if (*type == "Replace") return ReadReplace(part, &normalizer);
  if (*type == "Prepend") {
    std::string prefix;
    if (auto s = ReadMember(part, "prepend", &prefix); !s.ok()) return s;
    normalizer.AddPrepend(prefix);
  } else if (*type == "Strip") {
    bool left = true, right = true;
    if (auto s = ReadMember(part, "strip_left", &left); !s.ok()) return s;
    if (auto s = ReadMember(part, "strip_right", &right); !s.ok()) return s;
    normalizer.AddStrip(left, right);
  } else if (*type == "NFC") {
    normalizer.AddNfc();
  } else if (*type == "NFD") {
    normalizer.AddNfd();
  } else if (*type == "NFKC") {
    normalizer.AddNfkc();
  } else if (*type == "NFKD") {
    normalizer.AddNfkd();
  } else if (*type == "Lowercase") {
    normalizer.AddLowercase();
  } else {
    return Unsupported("normalizer", *type);
  }
  return absl::OkStatus();
}

absl::Status ReadPreTokenizer(const Json& part, TokenizerTables* tables) {
  if (part.is_null()) return absl::OkStatus();
  absl::StatusOr<std::string> type = TypeOf(part, "pre-tokenizer");
  if (!type.ok()) return type.status();
  if (*type == "Sequence") {
    return ForEach(Member(part, "pretokenizers"), "'pretokenizers'",
                   [tables](const Json& element) { return ReadPreTokenizer(element, tables); });
  }
  if (*type == "Split") return AddSplit(part, tables);
  if (*type == "ByteLevel") return AddByteLevel(part, tables);
  if (*type == "Metaspace") return AddMetaspace(part, tables);
  if (*type == "Punctuation") return AddPunctuation(part, tables);
  if (*type == "Digits") return AddDigits(part, tables);
  if (*type == "Whitespace") {
    return tables->splitter.AddPattern(WordsAndSigns(), Behavior::kRemoved, /*inverted=*/true);
  }
  if (*type == "WhitespaceSplit") return tables->splitter.AddPattern(R"(\s)", Behavior::kRemoved);
  return Unsupported("pre-tokenizer", *type);
}

absl::Status ReadDecoder(const Json& part, TokenizerTables* tables) {
  if (part.is_null()) return absl::OkStatus();
  absl::StatusOr<std::string> type = TypeOf(part, "decoder");
  if (!type.ok()) return type.status();
  if (*type == "Sequence") {
    return ForEach(Member(part, "decoders"), "'decoders'",
                   [tables](const Json& element) { return ReadDecoder(element, tables); });
  }
  if (*type == "ByteLevel" || *type == "ByteFallback" || *type == "Fuse") return absl::OkStatus();
  if (*type == "Metaspace") {
    absl::StatusOr<std::string> scheme = PrependScheme(part);
    if (!scheme.ok()) return scheme.status();
    std::string replacement(kSpaceMarker);
    if (auto s = ReadMember(part, "replacement", &replacement); !s.ok()) return s;
    if (replacement != kSpaceMarker) return Unsupported("decoder: replacement", replacement);
    tables->space_marker = kSpaceMarker;
    tables->strips_first_space = *scheme != "never";
    return absl::OkStatus();
  }
  if (*type == "Replace") {
    std::string pattern, content;
    bool is_regex = false;
    if (auto s = ReadPattern(part, &pattern, &is_regex); !s.ok()) return s;
    if (auto s = ReadMember(part, "content", &content); !s.ok()) return s;
    if (is_regex || pattern != kSpaceMarker || content != " ") {
      return Unsupported("decoder: Replace of", pattern);
    }
    tables->space_marker = kSpaceMarker;
    return absl::OkStatus();
  }
  if (*type == "Strip") {
    int64_t start = 0, stop = 0;
    std::string content = " ";
    if (auto s = ReadMember(part, "content", &content); !s.ok()) return s;
    if (auto s = ReadMember(part, "start", &start); !s.ok()) return s;
    if (auto s = ReadMember(part, "stop", &stop); !s.ok()) return s;
    if (content != " " || start > 1 || start < 0 || stop != 0) {
      return Unsupported("decoder: Strip with", absl::StrCat(content, ",", start, ",", stop));
    }
    tables->strips_first_space = start == 1;
    return absl::OkStatus();
  }
  return Unsupported("decoder", *type);
}

}  // namespace isobit
