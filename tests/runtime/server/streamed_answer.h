#ifndef ISOBIT_TESTS_RUNTIME_SERVER_STREAMED_ANSWER_H_
#define ISOBIT_TESTS_RUNTIME_SERVER_STREAMED_ANSWER_H_

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/runtime/server/http_client.h"

namespace isobit {

// What a stream of /v1/completions said, however it was cut into events. By choice.
struct StreamedAnswer {
  std::map<int, std::string> texts;
  std::map<int, nlohmann::json> ids;  // with return_token_ids
  std::map<int, std::string> digests;
  std::string digest;  // of all
  friend bool operator==(const StreamedAnswer&, const StreamedAnswer&) = default;
};

inline StreamedAnswer ReadStreamedAnswer(const HttpReply& reply) {
  StreamedAnswer answer;
  for (const nlohmann::json& event : reply.Events()) {
    const nlohmann::json& choice = event["choices"][0];
    const int index = choice["index"];
    answer.texts[index] += choice["text"];
    if (choice.contains("token_ids")) {
      for (const nlohmann::json& id : choice["token_ids"]) answer.ids[index].push_back(id);
    }
    if (choice.contains("digest")) answer.digests[index] = choice["digest"];
    if (event.contains("digest")) answer.digest = event["digest"];
  }
  return answer;
}

// The body of a request of /v1/completions that streams: of each kind, always the same one.
using RequestOfKind = nlohmann::json (*)(int kind);

// Answers to the requests of kinds 0 to `kinds` - 1, one at a time.
inline void AskEachAlone(int port, RequestOfKind request, int kinds,
                         std::vector<StreamedAnswer>& answers) {
  for (int kind = 0; kind < kinds; ++kind) {
    answers.push_back(ReadStreamedAnswer(Post(port, "/v1/completions", request(kind))));
    ASSERT_FALSE(answers.back().digest.empty());
  }
}

// Sends `count` requests, the kinds in turn, each on a connection of its own; reads nothing.
inline void SendAll(int port, RequestOfKind request, int kinds, int count,
                    std::vector<HttpClient>& clients) {
  clients.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    clients.emplace_back(port);
    ASSERT_TRUE(
        clients.back().Send(RequestText("POST", "/v1/completions", request(i % kinds).dump())));
  }
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_SERVER_STREAMED_ANSWER_H_
