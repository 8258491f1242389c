#ifndef ISOBIT_RUNTIME_PYTHON_TOKEN_STREAM_H_
#define ISOBIT_RUNTIME_PYTHON_TOKEN_STREAM_H_

// A request under way as Python sees it. The engine's thread never waits for Python's lock: it
// leaves tokens here and says so to Wakeups. Thread-safe.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isobit.hpp"
#include "runtime/python/wakeups.h"

namespace isobit::python {

struct Token {
  int32_t choice = 0;
  int32_t token_id = -1;
  std::string text;
  std::optional<float> logprob;
  std::vector<std::pair<int32_t, float>> top;
};

class TokenStream {
 public:
  // Submits. With `tokens` false only the end is news. News go to `wakeups` under `key`.
  TokenStream(const Engine& engine, Request request, std::shared_ptr<Wakeups> wakeups, uint64_t key,
              bool tokens);

  // What was drawn since the last call, and whether it was all.
  std::vector<Token> Take();
  bool done() const;

  // Waits for the end.
  Completion Result() const { return pending_.Wait(); }
  void Cancel() const { pending_.Cancel(); }

 private:
  // What the callbacks use. Outlives the pending request, which waits for them when it goes.
  struct Channel {
    std::shared_ptr<Wakeups> wakeups;
    uint64_t key = 0;
    std::mutex mutex;  // guards all below
    std::vector<Token> tokens;
    bool done = false;
  };
  static Pending Submit(const Engine& engine, Request request, Channel* channel, bool tokens);

  const std::unique_ptr<Channel> channel_;
  const Pending pending_;
};

}  // namespace isobit::python

#endif  // ISOBIT_RUNTIME_PYTHON_TOKEN_STREAM_H_
