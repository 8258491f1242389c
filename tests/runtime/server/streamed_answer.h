#ifndef ISOBIT_TESTS_RUNTIME_SERVER_STREAMED_ANSWER_H_
#define ISOBIT_TESTS_RUNTIME_SERVER_STREAMED_ANSWER_H_

#include <map>
#include <string>

#include "tests/runtime/server/http_client.h"

namespace isobit {

// What a stream of /v1/completions said, however it was cut into events. By choice.
struct StreamedAnswer {
  std::map<int, std::string> texts;
  std::map<int, nlohmann::json> ids;  // with return_token_ids
  std::string digest;
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
    if (event.contains("digest")) answer.digest = event["digest"];
  }
  return answer;
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_SERVER_STREAMED_ANSWER_H_
