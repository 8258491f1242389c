#include "runtime/api/openai_logprobs.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

// JSON has no infinity; this is what OpenAI writes for what is too improbable to say.
constexpr float kLeastLogProb = -9999.0f;

float Sayable(float logprob) { return std::max(logprob, kLeastLogProb); }

}  // namespace

std::string OpenAiLogProbs::NameOf(int32_t token) const {
  if (tokens_as_ids_) return absl::StrCat("token_id:", token);
  const std::string_view piece = tokenizer_.Piece(token);
  if (ValidUtf8Prefix(piece) == piece.size()) return std::string(piece);
  std::string name = "bytes:";
  for (const char byte : piece) {
    absl::StrAppendFormat(&name, "\\x%02x",
                          static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  return name;
}

// The token itself and the most likely ones, each name once.
void OpenAiLogProbs::WriteTopOf(const TokenLogProbs& position, JsonWriter& out) const {
  std::set<std::string> names;
  out.BeginObject();
  for (const TokenLogProb& top : position.top) {
    std::string name = NameOf(top.token);
    if (!names.insert(name).second) continue;
    out.Field(name, Sayable(top.logprob));
  }
  if (std::string name = NameOf(position.token_id); names.insert(name).second) {
    out.Field(name, Sayable(position.logprob));
  }
  out.EndObject();
}

void OpenAiLogProbs::WriteCompletions(std::span<const TokenLogProbs> positions, int64_t& characters,
                                      JsonWriter& out) const {
  out.BeginObject();
  out.Key("tokens").BeginArray();
  for (const TokenLogProbs& p : positions) out.Value(NameOf(p.token_id));
  out.EndArray().Key("token_logprobs").BeginArray();
  for (const TokenLogProbs& p : positions) {
    std::isnan(p.logprob) ? out.Null() : out.Value(Sayable(p.logprob));
  }
  out.EndArray().Key("top_logprobs").BeginArray();
  for (const TokenLogProbs& p : positions) {
    if (std::isnan(p.logprob)) {
      out.Null();
    } else {
      WriteTopOf(p, out);
    }
  }
  out.EndArray().Key("text_offset").BeginArray();
  for (const TokenLogProbs& p : positions) {
    const std::string_view piece = tokenizer_.Piece(p.token_id);
    // A token that goes on with a character lies where that character begins.
    const bool inside = !piece.empty() && !BeginsCharacter(piece.front()) && characters > 0;
    out.Value(characters - (inside ? 1 : 0));
    characters += CountCharacters(piece);
  }
  out.EndArray().EndObject();
}

void OpenAiLogProbs::WriteChatToken(int32_t token, float logprob, JsonWriter& out) const {
  out.Field("token", NameOf(token)).Field("logprob", Sayable(logprob));
  out.Key("bytes").BeginArray();
  for (const char byte : tokenizer_.Piece(token)) out.Value(static_cast<unsigned char>(byte));
  out.EndArray();
}

void OpenAiLogProbs::WriteChat(std::span<const TokenLogProbs> positions, JsonWriter& out) const {
  out.BeginObject().Key("content").BeginArray();
  for (const TokenLogProbs& position : positions) {
    WriteChatToken(position.token_id, position.logprob, out.BeginObject());
    out.Key("top_logprobs").BeginArray();
    for (const TokenLogProb& top : position.top) {
      WriteChatToken(top.token, top.logprob, out.BeginObject());
      out.EndObject();
    }
    out.EndArray().EndObject();
  }
  out.EndArray().Key("refusal").Null().EndObject();
}

void OpenAiLogProbs::WritePrompt(std::span<const TokenLogProbs> positions, JsonWriter& out) const {
  const auto write = [&](int32_t token, float logprob) {
    out.Key(std::to_string(token)).BeginObject();
    out.Field("logprob", Sayable(logprob)).Field("decoded_token", NameOf(token)).EndObject();
  };
  out.BeginArray();
  for (const TokenLogProbs& position : positions) {
    if (position.token_id < 0) {  // the first token has none
      out.Null();
      continue;
    }
    out.BeginObject();
    bool written = false;
    for (const TokenLogProb& top : position.top) {
      write(top.token, top.logprob);
      written = written || top.token == position.token_id;
    }
    if (!written) write(position.token_id, position.logprob);
    out.EndObject();
  }
  out.EndArray();
}

}  // namespace isobit
