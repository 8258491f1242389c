#ifndef ISOBIT_HPP_
#define ISOBIT_HPP_

// isobit for C++17: isobit.h with owners, containers and exceptions. Header only, so a program may
// be compiled with another compiler and standard library than libisobit was.
//
//   isobit::Engine engine("model.gguf");
//   isobit::Request request;
//   request.prompt = "The capital of France is";
//   std::cout << engine.Generate(request).text() << "\n";
//
// Errors are isobit::Error. Objects may be moved, not copied. Thread safety is that of isobit.h:
// every method from any thread; what callbacks may call is convention 8 there.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "isobit.h"

namespace isobit {
inline namespace v1 {  // keeps these names apart from the library's own

class Error : public std::runtime_error {
 public:
  explicit Error(isobit_status status)
      : std::runtime_error(isobit_error_message()), status_(status) {}
  isobit_status status() const { return status_; }

 private:
  isobit_status status_;
};

inline void Check(isobit_status status) {
  if (status != ISOBIT_OK) throw Error(status);
}

struct EngineParams {
  std::string device = "auto";  // "auto", "cpu", "cuda", "reference"
  int64_t threads = 0;          // 0: one a core
  int64_t max_model_len = 0;    // 0: the model's
  int64_t max_num_seqs = 0;     // 0: by memory
  int64_t max_num_batched_tokens = 0;
  int64_t block_size = 32;
  int64_t kv_cache_tokens = 0;
  bool prefix_cache = true;
  std::optional<uint64_t> seed;
};

struct Message {
  std::string role;
  std::string content;
};

// Messages as the isobit command takes them: tool calls, parts of content ...
struct MessagesJson {
  std::string json;  // a list of objects
};

struct SamplingParams {
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  std::optional<uint64_t> seed;
  int64_t n = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  std::vector<isobit_logit_bias> logit_bias;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::optional<int64_t> logprobs;
  std::optional<int64_t> prompt_logprobs;
  bool processed_logprobs = false;
};

struct Request {
  std::string id;
  std::variant<std::string, std::vector<int32_t>, std::vector<Message>, MessagesJson> prompt;
  // With messages, for the chat template. Empty: none.
  std::string tools;                 // a JSON list of objects
  std::string chat_template_kwargs;  // further variables: a JSON object
  SamplingParams sampling;
  bool receipt = false;
  // From a thread of the engine; false aborts. May be empty. Must not throw.
  std::function<bool(const isobit_token&)> on_token;
  std::function<void()> on_done;
};

namespace detail {

// Calls `read(buffer, capacity, &count)` for the size, and then for the content.
template <typename Container, typename Read>
Container ReadAll(const Read& read, size_t terminator = 0) {
  size_t count = 0;
  isobit_status status = read(nullptr, 0, &count);
  if (status != ISOBIT_BUFFER_TOO_SMALL) Check(status);
  Container out;
  if (status == ISOBIT_OK) return out;
  out.resize(count + terminator);
  Check(read(out.data(), out.size(), &count));
  out.resize(count);
  return out;
}

template <typename Read>
std::string ReadText(const Read& read) {
  return ReadAll<std::string>(read, 1);
}

inline std::vector<isobit_message> ToC(const std::vector<Message>& messages) {
  std::vector<isobit_message> out;
  for (const Message& m : messages) {
    out.push_back({m.role.c_str(), m.content.data(), m.content.size()});
  }
  return out;
}

struct Free {
  void operator()(isobit_engine* handle) const { isobit_engine_free(handle); }
  void operator()(isobit_request* handle) const { isobit_request_free(handle); }
  void operator()(isobit_completion* handle) const { isobit_completion_free(handle); }
};

struct Callbacks {
  std::function<bool(const isobit_token&)> on_token;
  std::function<void()> on_done;

  static int32_t OnToken(const isobit_token* token, void* self) {
    return static_cast<Callbacks*>(self)->on_token(*token) ? 0 : 1;
  }
  static void OnDone(void* self) { static_cast<Callbacks*>(self)->on_done(); }
};

}  // namespace detail

class Completion {
 public:
  explicit Completion(isobit_completion* handle) : handle_(handle) {
    Check(isobit_completion_get_info(handle, &info_, sizeof(info_)));
  }

  const isobit_completion_info& info() const { return info_; }
  std::string digest() const { return info_.digest; }
  std::optional<uint64_t> seed() const {
    return info_.has_seed ? std::optional<uint64_t>(info_.seed) : std::nullopt;
  }

  std::vector<int32_t> prompt_token_ids() const {
    return detail::ReadAll<std::vector<int32_t>>([&](int32_t* ids, size_t capacity, size_t* count) {
      return isobit_completion_prompt_token_ids(handle_.get(), ids, capacity, count);
    });
  }
  // Of prompt tokens 1, 2, ...
  std::vector<float> prompt_logprobs() const {
    return detail::ReadAll<std::vector<float>>([&](float* values, size_t capacity, size_t* count) {
      return isobit_completion_prompt_logprobs(handle_.get(), values, capacity, count);
    });
  }
  std::vector<isobit_token_logprob> prompt_top_logprobs(size_t position) const {
    return detail::ReadAll<std::vector<isobit_token_logprob>>([&](isobit_token_logprob* top,
                                                                  size_t capacity, size_t* count) {
      return isobit_completion_prompt_top_logprobs(handle_.get(), position, top, capacity, count);
    });
  }

  isobit_choice_info choice(int32_t index = 0) const {
    isobit_choice_info info;
    Check(isobit_completion_get_choice(handle_.get(), index, &info, sizeof(info)));
    return info;
  }
  std::string text(int32_t choice = 0) const {
    return detail::ReadText([&](char* text, size_t capacity, size_t* length) {
      return isobit_completion_text(handle_.get(), choice, text, capacity, length);
    });
  }
  std::vector<int32_t> token_ids(int32_t choice = 0) const {
    return detail::ReadAll<std::vector<int32_t>>([&](int32_t* ids, size_t capacity, size_t* count) {
      return isobit_completion_token_ids(handle_.get(), choice, ids, capacity, count);
    });
  }
  std::vector<float> logprobs(int32_t choice = 0) const {
    return detail::ReadAll<std::vector<float>>([&](float* values, size_t capacity, size_t* count) {
      return isobit_completion_logprobs(handle_.get(), choice, values, capacity, count);
    });
  }
  std::vector<isobit_token_logprob> top_logprobs(int32_t choice, size_t position) const {
    return detail::ReadAll<std::vector<isobit_token_logprob>>([&](isobit_token_logprob* top,
                                                                  size_t capacity, size_t* count) {
      return isobit_completion_top_logprobs(handle_.get(), choice, position, top, capacity, count);
    });
  }

  // What the isobit command would have answered.
  std::string json() const {
    return detail::ReadText([&](char* text, size_t capacity, size_t* length) {
      return isobit_completion_json(handle_.get(), text, capacity, length);
    });
  }
  // If the request asked for one.
  std::string receipt() const {
    return detail::ReadText([&](char* text, size_t capacity, size_t* length) {
      return isobit_completion_receipt(handle_.get(), text, capacity, length);
    });
  }

 private:
  std::unique_ptr<isobit_completion, detail::Free> handle_;
  isobit_completion_info info_;
};

// A request under way. Destroying it cancels it and waits for its end.
class Pending {
 public:
  Completion Wait() const {
    isobit_completion* completion = nullptr;
    Check(isobit_request_wait(handle_.get(), -1, &completion));
    return Completion(completion);
  }
  // None if it still runs after `timeout_ms`.
  std::optional<Completion> WaitFor(int64_t timeout_ms) const {
    isobit_completion* completion = nullptr;
    const isobit_status status = isobit_request_wait(handle_.get(), timeout_ms, &completion);
    if (status == ISOBIT_TIMEOUT) return std::nullopt;
    Check(status);
    return Completion(completion);
  }
  void Cancel() const { isobit_request_cancel(handle_.get()); }

 private:
  friend class Engine;
  Pending() = default;

  std::unique_ptr<detail::Callbacks> callbacks_;  // outlives the handle
  std::unique_ptr<isobit_request, detail::Free> handle_;
};

class Engine {
 public:
  explicit Engine(const std::string& path, const EngineParams& from = {}) {
    isobit_engine_params params;
    isobit_engine_params_init(&params, sizeof(params));
    params.device = from.device.c_str();
    params.threads = from.threads;
    params.max_model_len = from.max_model_len;
    params.max_num_seqs = from.max_num_seqs;
    params.max_num_batched_tokens = from.max_num_batched_tokens;
    params.block_size = from.block_size;
    params.kv_cache_tokens = from.kv_cache_tokens;
    params.prefix_cache = from.prefix_cache;
    params.has_seed = from.seed.has_value();
    params.seed = from.seed.value_or(0);
    isobit_engine* engine = nullptr;
    Check(isobit_engine_load(path.c_str(), &params, &engine));
    handle_.reset(engine);
  }

  isobit_engine* handle() const { return handle_.get(); }

  isobit_engine_info info() const {
    isobit_engine_info info;
    Check(isobit_engine_get_info(handle(), &info, sizeof(info)));
    return info;
  }
  isobit_engine_stats stats() const {
    isobit_engine_stats stats;
    Check(isobit_engine_get_stats(handle(), &stats, sizeof(stats)));
    return stats;
  }
  std::string model_digest() const { return info().model_digest; }

  std::vector<int32_t> Tokenize(std::string_view text,
                                int32_t flags = ISOBIT_ADD_SPECIAL | ISOBIT_PARSE_SPECIAL) const {
    return detail::ReadAll<std::vector<int32_t>>([&](int32_t* ids, size_t capacity, size_t* count) {
      return isobit_tokenize(handle(), text.data(), text.size(), flags, ids, capacity, count);
    });
  }
  std::string Detokenize(const std::vector<int32_t>& ids, int32_t flags = 0) const {
    return detail::ReadText([&](char* text, size_t capacity, size_t* length) {
      return isobit_detokenize(handle(), ids.data(), ids.size(), flags, text, capacity, length);
    });
  }
  std::string ApplyChatTemplate(const std::vector<Message>& messages,
                                bool add_generation_prompt = true) const {
    const std::vector<isobit_message> list = detail::ToC(messages);
    return detail::ReadText([&](char* text, size_t capacity, size_t* length) {
      return isobit_apply_chat_template(handle(), list.data(), list.size(), add_generation_prompt,
                                        text, capacity, length);
    });
  }

  // The prompt text of a request that has messages, with its tools and variables.
  std::string RenderConversation(const Request& request, bool add_generation_prompt = true) const;

  Pending Submit(const Request& request) const;

  Completion Generate(const Request& request) const { return Submit(request).Wait(); }
  // All together; the completions are in the order of the requests.
  std::vector<Completion> Generate(const std::vector<Request>& requests) const {
    std::vector<Pending> pending;
    for (const Request& request : requests) pending.push_back(Submit(request));
    std::vector<Completion> completions;
    for (const Pending& p : pending) completions.push_back(p.Wait());
    return completions;
  }

  // Log-probabilities of tokens 1, 2, ... in one prefill.
  std::vector<float> Score(const std::vector<int32_t>& ids) const {
    std::vector<float> logprobs(ids.empty() ? 0 : ids.size() - 1);
    Check(
        isobit_score(handle(), ids.data(), ids.size(), logprobs.data(), logprobs.size(), nullptr));
    return logprobs;
  }
  // Throws an Error of ISOBIT_DIFFERENT with the first difference.
  void Replay(std::string_view receipt) const {
    Check(isobit_replay(handle(), receipt.data(), receipt.size()));
  }
  void UpdateWeights(const std::string& path) const {
    Check(isobit_engine_update_weights(handle(), path.c_str()));
  }

 private:
  std::unique_ptr<isobit_engine, detail::Free> handle_;
};

namespace detail {

// Parameters as C takes them; points into what it was made from.
struct SamplingView {
  explicit SamplingView(const SamplingParams& from) {
    isobit_sampling_params_init(&params, sizeof(params));
    params.max_tokens = from.max_tokens;
    params.min_tokens = from.min_tokens;
    params.temperature = from.temperature;
    params.top_k = from.top_k;
    params.top_p = from.top_p;
    params.min_p = from.min_p;
    params.n = from.n;
    params.presence_penalty = from.presence_penalty;
    params.frequency_penalty = from.frequency_penalty;
    params.repetition_penalty = from.repetition_penalty;
    params.has_seed = from.seed.has_value();
    params.seed = from.seed.value_or(0);
    params.ignore_eos = from.ignore_eos;
    params.logprobs = from.logprobs.value_or(-1);
    params.prompt_logprobs = from.prompt_logprobs.value_or(-1);
    params.logprobs_mode =
        from.processed_logprobs ? ISOBIT_LOGPROBS_PROCESSED : ISOBIT_LOGPROBS_RAW;
    params.logit_bias = from.logit_bias.data();
    params.logit_bias_count = from.logit_bias.size();
    for (const std::string& text : from.stop) stop.push_back(text.c_str());
    params.stop = stop.data();
    params.stop_count = stop.size();
    params.stop_token_ids = from.stop_token_ids.data();
    params.stop_token_id_count = from.stop_token_ids.size();
  }

  std::vector<const char*> stop;
  isobit_sampling_params params;
};

struct RequestView {
  explicit RequestView(const Request& from) : sampling(from.sampling) {
    isobit_request_params_init(&params, sizeof(params));
    params.id = from.id.c_str();
    params.sampling = &sampling.params;
    params.receipt = from.receipt;
    std::visit([this](const auto& prompt) { Set(prompt); }, from.prompt);
    if (!from.tools.empty()) params.tools = from.tools.c_str();
    params.tools_length = from.tools.size();
    if (!from.chat_template_kwargs.empty()) {
      params.chat_template_kwargs = from.chat_template_kwargs.c_str();
    }
    params.chat_template_kwargs_length = from.chat_template_kwargs.size();
  }
  RequestView(const RequestView&) = delete;  // `params` points into it
  RequestView& operator=(const RequestView&) = delete;

  SamplingView sampling;
  std::vector<isobit_message> messages;
  isobit_request_params params;

 private:
  void Set(const std::string& text) {
    params.text = text.c_str();
    params.text_length = text.size();
  }
  void Set(const std::vector<int32_t>& ids) {
    static constexpr int32_t kNone = 0;  // an empty list, unlike no list
    params.token_ids = ids.empty() ? &kNone : ids.data();
    params.token_id_count = ids.size();
  }
  void Set(const std::vector<Message>& list) {
    static constexpr isobit_message kNone = {};
    messages = ToC(list);
    params.messages = messages.empty() ? &kNone : messages.data();
    params.message_count = messages.size();
  }
  void Set(const MessagesJson& list) {
    params.messages_json = list.json.c_str();
    params.messages_json_length = list.json.size();
  }
};

}  // namespace detail

inline std::string Engine::RenderConversation(const Request& request,
                                              bool add_generation_prompt) const {
  const detail::RequestView view(request);
  return detail::ReadText([&](char* text, size_t capacity, size_t* length) {
    return isobit_render_conversation(handle(), &view.params, add_generation_prompt, text, capacity,
                                      length);
  });
}

inline Pending Engine::Submit(const Request& request) const {
  detail::RequestView view(request);
  isobit_request_params& params = view.params;
  Pending pending;
  pending.callbacks_ =
      std::make_unique<detail::Callbacks>(detail::Callbacks{request.on_token, request.on_done});
  params.user_data = pending.callbacks_.get();
  if (request.on_token) params.on_token = &detail::Callbacks::OnToken;
  if (request.on_done) params.on_done = &detail::Callbacks::OnDone;
  isobit_request* handle = nullptr;
  Check(isobit_submit(handle_.get(), &params, &handle));
  pending.handle_.reset(handle);
  return pending;
}

inline std::string Version() { return isobit_version(); }

}  // namespace v1
}  // namespace isobit

#endif  // ISOBIT_HPP_
