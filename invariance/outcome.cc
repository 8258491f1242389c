#include "invariance/outcome.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

std::string PlaceOf(const Outcome& outcome, int choice) {
  return absl::StrCat(outcome.completion.id, ", choice ", choice);
}

// `first`: the index in the sequence of the first entry's token.
void CompareLogProbs(std::span<const TokenLogProbs> expected, std::span<const TokenLogProbs> got,
                     const std::string& what, size_t first, Comparison* comparison) {
  const auto place = [&](size_t i) { return absl::StrCat(what, ", position ", first + i); };
  std::vector<float> values[2];
  std::vector<int32_t> ids[2], top_ids[2];
  std::vector<float> top_values[2];
  std::vector<size_t> top_of[2];  // entry that an alternative belongs to
  const std::span<const TokenLogProbs> sides[2] = {expected, got};
  for (int side = 0; side < 2; ++side) {
    for (size_t i = 0; i < sides[side].size(); ++i) {
      const TokenLogProbs& entry = sides[side][i];
      ids[side].push_back(entry.token_id);
      values[side].push_back(entry.logprob);
      for (const TokenLogProb& t : entry.top) {
        top_ids[side].push_back(t.token);
        top_values[side].push_back(t.logprob);
        top_of[side].push_back(i);
      }
    }
  }
  const auto top_place = [&](size_t i) {
    return absl::StrCat(place(i < top_of[0].size() ? top_of[0][i] : expected.size()),
                        ", alternatives");
  };
  comparison->Floats(values[0], values[1],
                     [&](size_t i) { return place(i) + ", log-probability"; });
  comparison->Integers(ids[0], ids[1], [&](size_t i) { return place(i) + ", token"; });
  comparison->Floats(top_values[0], top_values[1], top_place);
  comparison->Integers(top_ids[0], top_ids[1], top_place);
}

void CompareLogits(const Outcome& expected, const Outcome& got, CompareScope scope,
                   Comparison* comparison) {
  for (const auto& [key, logits] : expected.logits) {
    const std::string at =
        absl::StrCat(PlaceOf(expected, key.first), ", position ", key.second, ", logit ");
    const auto other = got.logits.find(key);
    if (other != got.logits.end()) {
      comparison->Floats(logits, other->second, [&](size_t i) { return absl::StrCat(at, i); });
    } else if (scope == CompareScope::kAll) {
      comparison->Fail(at + "0: not computed here");
    }
  }
  if (scope == CompareScope::kShared) return;
  for (const auto& [key, logits] : got.logits) {
    if (expected.logits.contains(key)) continue;
    comparison->Fail(absl::StrCat(PlaceOf(expected, key.first), ", position ", key.second,
                                  ": computed here only"));
  }
}

// False: there is nothing on both sides to compare.
template <typename T>
bool Both(const std::optional<T>& expected, const std::optional<T>& got, CompareScope scope,
          const std::string& what, Comparison* comparison) {
  if (expected.has_value() != got.has_value() && scope == CompareScope::kAll) {
    comparison->Fail(absl::StrCat(what, " ", got ? "here only" : "missing here"));
  }
  return expected && got;
}

void CompareChoices(const Outcome& expected, const Outcome& got, size_t index, CompareScope scope,
                    Comparison* comparison) {
  const Choice& a = expected.completion.choices[index];
  const Choice& b = got.completion.choices[index];
  const std::string where = PlaceOf(expected, static_cast<int>(index));
  const size_t prompt = expected.completion.prompt_token_ids.size();
  if (Both(a.logprobs, b.logprobs, scope, where + ", log-probabilities", comparison)) {
    CompareLogProbs(*a.logprobs, *b.logprobs, where, prompt, comparison);
  }
  comparison->Integers(a.token_ids, b.token_ids, [&](size_t i) {
    return absl::StrCat(where, ", position ", prompt + i, ", token");
  });
  comparison->Text(a.text, b.text, where + ", text");
  comparison->Text(FinishReasonName(a.finish_reason), FinishReasonName(b.finish_reason),
                   where + ", finish reason");
  comparison->Text(a.digest.ToHex(), b.digest.ToHex(), where + ", digest");
}

}  // namespace

void CompareOutcomes(const Outcome& expected, const Outcome& got, CompareScope scope,
                     Comparison* comparison) {
  const Completion& a = expected.completion;
  const Completion& b = got.completion;
  if (!expected.status.ok() || !got.status.ok()) {
    const absl::Status& status = expected.status.ok() ? got.status : expected.status;
    comparison->Fail(absl::StrCat(a.id, ": ", status.message()));
    return;
  }
  CompareLogits(expected, got, scope, comparison);
  comparison->Integers(a.prompt_token_ids, b.prompt_token_ids,
                       [&](size_t i) { return absl::StrCat(a.id, ", prompt token ", i); });
  if (Both(a.prompt_logprobs, b.prompt_logprobs, scope, a.id + ", prompt log-probabilities",
           comparison)) {
    CompareLogProbs(*a.prompt_logprobs, *b.prompt_logprobs, a.id + ", prompt", 0, comparison);
  }
  if (a.choices.size() != b.choices.size()) {
    comparison->Fail(absl::StrCat(a.id, ": ", a.choices.size(), " choices expected, ",
                                  b.choices.size(), " here"));
    return;
  }
  for (size_t i = 0; i < a.choices.size(); ++i) CompareChoices(expected, got, i, scope, comparison);
  comparison->Text(a.digest.ToHex(), b.digest.ToHex(), a.id + ", digest");
}

void CompareDecodedWithScored(const Outcome& decoded, int choice, const Outcome& scored,
                              Comparison* comparison) {
  const Completion& d = decoded.completion;
  const std::string where = PlaceOf(decoded, choice) + ", scored";
  if (!decoded.status.ok() || !scored.status.ok() || !scored.completion.prompt_logprobs) {
    comparison->Fail(where + ": no outcome to compare");
    return;
  }
  const Choice& c = d.choices[static_cast<size_t>(choice)];
  const size_t prompt = d.prompt_token_ids.size();
  for (size_t i = 0; i < c.token_ids.size(); ++i) {
    // The logits at a position predict the token after it.
    const auto position = static_cast<int64_t>(prompt + i) - 1;
    const auto from_decode = decoded.logits.find({choice, position});
    const auto from_score = scored.logits.find({0, position});
    if (from_decode == decoded.logits.end() || from_score == scored.logits.end()) {
      comparison->Fail(absl::StrCat(where, ", position ", position, ": no logits to compare"));
      return;
    }
    comparison->Floats(from_decode->second, from_score->second, [&](size_t k) {
      return absl::StrCat(where, ", position ", position, ", logit ", k);
    });
  }
  const std::span<const TokenLogProbs> of_scored = *scored.completion.prompt_logprobs;
  if (!c.logprobs || of_scored.size() != prompt + c.token_ids.size()) {
    comparison->Fail(where + ": no log-probabilities to compare");
    return;
  }
  CompareLogProbs(*c.logprobs, of_scored.subspan(prompt), where, prompt, comparison);
}

}  // namespace isobit
