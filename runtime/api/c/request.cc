// Requests under way, scoring and replay.

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/api/c/handles.h"
#include "runtime/api/c/isobit.h"
#include "runtime/api/c/marshal.h"
#include "runtime/api/c/parameters.h"
#include "runtime/api/c/status.h"
#include "runtime/receipt/receipt.h"

namespace isobit::c {

void RequestState::Cancel() {
  RequestHandle running;
  {
    const std::lock_guard lock(mutex);
    aborted = true;
    if (!handle.has_value() || result.has_value()) return;  // Start() looks at `aborted`
    running = *handle;
  }
  const std::shared_lock lock(gate->mutex);
  if (gate->engine != nullptr) gate->engine->Cancel(running);
}

namespace {

isobit_token TokenOf(const TokenEvent& event, std::vector<isobit_token_logprob>& top) {
  isobit_token token = {};
  token.struct_size = sizeof(token);
  token.choice = event.choice;
  token.token_id = event.token_id;
  token.text = event.text.c_str();
  token.text_length = event.text.size();
  if (event.logprobs != nullptr) {
    token.has_logprob = 1;
    token.logprob = event.logprobs->logprob;
    for (const TokenLogProb& t : event.logprobs->top) top.push_back({t.token, t.logprob});
    token.top = top.data();
    token.top_count = top.size();
  }
  return token;
}

void Deliver(RequestState& state, const TokenEvent& event) {
  {
    const std::lock_guard lock(state.mutex);
    if (state.aborted) return;
  }
  std::vector<isobit_token_logprob> top;
  const isobit_token token = TokenOf(event, top);
  if (state.on_token(&token, state.user_data) != 0) state.Cancel();
}

void Finish(RequestState& state, absl::StatusOr<Completion> result) {
  {
    const std::lock_guard lock(state.mutex);
    state.result = std::move(result);
  }
  state.changed.notify_all();
  if (state.on_done != nullptr) state.on_done(state.user_data);
  {
    const std::lock_guard lock(state.mutex);
    state.callbacks_over = true;
  }
  state.changed.notify_all();
}

absl::Status Start(Engine& engine, Request request, const std::shared_ptr<RequestState>& state) {
  RequestCallbacks callbacks;
  if (state->on_token != nullptr) {
    callbacks.on_token = [state](const TokenEvent& event) { Deliver(*state, event); };
  }
  callbacks.on_done = [state](absl::StatusOr<Completion> c) { Finish(*state, std::move(c)); };
  const absl::StatusOr<RequestHandle> handle =
      engine.Submit(std::move(request), std::move(callbacks));
  if (!handle.ok()) return handle.status();
  bool aborted;
  {
    const std::lock_guard lock(state->mutex);
    state->handle = *handle;
    aborted = state->aborted;
  }
  if (aborted) state->Cancel();
  return absl::OkStatus();
}

// The request's end as a record that completions share.
absl::StatusOr<std::shared_ptr<const CompletionRecord>> TakeRecord(RequestState& state,
                                                                   int64_t timeout_ms) {
  std::unique_lock lock(state.mutex);
  const auto ended = [&] { return state.result.has_value(); };
  if (timeout_ms < 0) {
    state.changed.wait(lock, ended);
  } else if (!state.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ended)) {
    return absl::DeadlineExceededError("the request still runs");
  }
  if (!state.result->ok()) return state.result->status();
  if (state.record == nullptr) {
    auto record = std::make_shared<CompletionRecord>();
    record->completion = **std::move(state.result);
    state.result->emplace();
    record->sampling = state.sampling;
    record->receipt = state.receipt;
    state.record = std::move(record);
  }
  return state.record;
}

// Runs one request to its end.
absl::StatusOr<Completion> Run(isobit_engine* engine, Request request) {
  const auto state = std::make_shared<RequestState>();
  state->gate = engine->gate;
  if (absl::Status s = Start(*engine->engine, std::move(request), state); !s.ok()) return s;
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->callbacks_over; });
  return *std::move(state->result);
}

absl::StatusOr<std::vector<float>> Score(isobit_engine* engine, std::vector<int32_t> ids) {
  Request request;
  request.prompt = std::move(ids);
  request.sampling.max_tokens = 0;
  request.sampling.temperature = 0;
  request.sampling.prompt_logprobs = 0;
  const absl::StatusOr<Completion> completion = Run(engine, std::move(request));
  if (!completion.ok()) return completion.status();
  std::vector<float> logprobs;
  for (const TokenLogProbs& token : *completion->prompt_logprobs) {
    if (token.token_id >= 0) logprobs.push_back(token.logprob);
  }
  return logprobs;
}

absl::Status Replay(isobit_engine* engine, const std::string& text) {
  const absl::StatusOr<Receipt> receipt = ParseReceipt(text);
  if (!receipt.ok()) {
    return absl::Status(receipt.status().code(),
                        absl::StrCat("receipt: ", receipt.status().message()));
  }
  const Digest model = engine->engine->shared_model()->digest();
  if (absl::Status s = CheckReplayable(*receipt, model); !s.ok()) return s;
  const absl::StatusOr<Completion> replayed = Run(engine, RequestOf(*receipt));
  if (!replayed.ok()) return replayed.status();
  return Compare(*receipt, *replayed);
}

}  // namespace
}  // namespace isobit::c

using namespace isobit::c;  // NOLINT(build/namespaces)

void isobit_sampling_params_init(isobit_sampling_params* params, size_t struct_size) {
  WriteStruct(DefaultSamplingParams(), params, struct_size);
}

void isobit_request_params_init(isobit_request_params* params, size_t struct_size) {
  WriteStruct(isobit_request_params{}, params, struct_size);
}

isobit_status isobit_submit(isobit_engine* engine, const isobit_request_params* params,
                            isobit_request** request) {
  return Guard([&]() -> absl::Status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return s;
    if (absl::Status s = NotNull(params, "params"); !s.ok()) return s;
    if (absl::Status s = NotNull(request, "request"); !s.ok()) return s;
    isobit_request_params from = {};
    if (absl::Status s = ReadStruct(params, "params", from); !s.ok()) return s;
    absl::StatusOr<isobit::Request> read = ReadRequest(from);
    if (!read.ok()) return read.status();
    if (from.receipt != 0) isobit::AskForReceipt(read->sampling);
    auto handle = std::make_unique<isobit_request>();
    handle->state = std::make_shared<RequestState>();
    RequestState& state = *handle->state;
    state.on_token = from.on_token;
    state.on_done = from.on_done;
    state.user_data = from.user_data;
    state.sampling = read->sampling;
    state.receipt = from.receipt != 0;
    state.gate = engine->gate;
    if (absl::Status s = Start(*engine->engine, *std::move(read), handle->state); !s.ok()) return s;
    *request = handle.release();
    return absl::OkStatus();
  });
}

isobit_status isobit_request_wait(isobit_request* request, int64_t timeout_ms,
                                  isobit_completion** completion) {
  return Guard([&]() -> absl::Status {
    if (absl::Status s = NotNull(request, "request"); !s.ok()) return s;
    if (absl::Status s = NotNull(completion, "completion"); !s.ok()) return s;
    auto record = TakeRecord(*request->state, timeout_ms);
    if (!record.ok()) return record.status();
    *completion = new isobit_completion{*std::move(record)};
    return absl::OkStatus();
  });
}

void isobit_request_cancel(isobit_request* request) {
  if (request != nullptr) request->state->Cancel();
}

void isobit_request_free(isobit_request* request) {
  if (request == nullptr) return;
  RequestState& state = *request->state;
  state.Cancel();
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.callbacks_over; });
  }
  delete request;
}

isobit_status isobit_score(isobit_engine* engine, const int32_t* token_ids, size_t token_count,
                           float* logprobs, size_t capacity, size_t* count) {
  return Guard([&]() -> isobit_status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return Report(s);
    std::vector<int32_t> ids;
    if (absl::Status s = ReadIds(token_ids, token_count, "token_ids", ids); !s.ok()) {
      return Report(s);
    }
    // What can't be written need not be computed.
    const size_t size = token_count == 0 ? 0 : token_count - 1;
    if (size > capacity) {
      if (count != nullptr) *count = size;
      return TooSmall(size, capacity);
    }
    const absl::StatusOr<std::vector<float>> scored = Score(engine, std::move(ids));
    if (!scored.ok()) return Report(scored.status());
    return WriteArray(
        scored->size(), [&](size_t i) { return (*scored)[i]; }, logprobs, capacity, count);
  });
}

isobit_status isobit_replay(isobit_engine* engine, const char* receipt, size_t receipt_length) {
  return Guard([&]() -> absl::Status {
    if (absl::Status s = NotNull(engine, "engine"); !s.ok()) return s;
    std::string text;
    if (absl::Status s = ReadText(receipt, receipt_length, "receipt", text); !s.ok()) return s;
    return Replay(engine, text);
  });
}
