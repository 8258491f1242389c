#include "runtime/python/token_stream.h"

#include <utility>

namespace isobit::python {
namespace {

Token Copy(const isobit_token& from) {
  Token token;
  token.choice = from.choice;
  token.token_id = from.token_id;
  token.text.assign(from.text, from.text_length);
  if (from.has_logprob) token.logprob = from.logprob;
  for (size_t i = 0; i < from.top_count; ++i) {
    token.top.emplace_back(from.top[i].token_id, from.top[i].logprob);
  }
  return token;
}

}  // namespace

TokenStream::TokenStream(const Engine& engine, Request request, std::shared_ptr<Wakeups> wakeups,
                         uint64_t key, bool tokens)
    : channel_(std::make_unique<Channel>()), pending_([&] {
        channel_->wakeups = std::move(wakeups);
        channel_->key = key;
        return Submit(engine, std::move(request), channel_.get(), tokens);
      }()) {}

Pending TokenStream::Submit(const Engine& engine, Request request, Channel* channel, bool tokens) {
  if (tokens) {
    request.on_token = [channel](const isobit_token& token) {
      bool first;
      {
        const std::lock_guard lock(channel->mutex);
        first = channel->tokens.empty();
        channel->tokens.push_back(Copy(token));
      }
      if (first) channel->wakeups->Push(channel->key);
      return true;
    };
  }
  request.on_done = [channel] {
    {
      const std::lock_guard lock(channel->mutex);
      channel->done = true;
    }
    channel->wakeups->Push(channel->key);
  };
  return engine.Submit(request);
}

std::vector<Token> TokenStream::Take() {
  const std::lock_guard lock(channel_->mutex);
  return std::exchange(channel_->tokens, {});
}

bool TokenStream::done() const {
  const std::lock_guard lock(channel_->mutex);
  return channel_->done;
}

}  // namespace isobit::python
