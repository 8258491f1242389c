// The module _isobit: isobit.hpp for Python. Whatever takes time releases Python's lock; arrays are
// handed out without a copy. The classes that people use are in isobit/*.py.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "isobit.hpp"
#include "runtime/python/token_stream.h"
#include "runtime/python/wakeups.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(build/namespaces)

namespace isobit::python {
namespace {

using Facts = nb::typed<nb::dict, nb::str, nb::any>;
using FloatArray = nb::ndarray<nb::numpy, float, nb::ndim<1>>;
using Pairs = std::vector<std::pair<int32_t, float>>;
using ReleaseLock = nb::call_guard<nb::gil_scoped_release>;

FloatArray ToArray(std::vector<float> values) {
  auto* kept = new std::vector<float>(std::move(values));
  const nb::capsule owner(kept,
                          [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return FloatArray(kept->data(), {kept->size()}, owner);
}

Pairs ToPairs(const std::vector<isobit_token_logprob>& from) {
  Pairs pairs;
  for (const isobit_token_logprob& p : from) pairs.emplace_back(p.token_id, p.logprob);
  return pairs;
}

Pairs GetLogitBias(const SamplingParams& params) {
  Pairs pairs;
  for (const isobit_logit_bias& b : params.logit_bias) pairs.emplace_back(b.token_id, b.bias);
  return pairs;
}

void SetLogitBias(SamplingParams& params, const Pairs& pairs) {
  params.logit_bias.clear();
  for (const auto& [token, bias] : pairs) params.logit_bias.push_back({token, bias});
}

// An engine's thread is in the process that made it; a forked one would wait for it forever.
struct ForkedError : std::runtime_error {
  ForkedError()
      : std::runtime_error("the LLM was made in another process; a forked one needs its own") {}
};

// Destructors that wait for the engine's thread do so without Python's lock, in its process only.
template <typename T>
class Unlocked {
 public:
  explicit Unlocked(std::unique_ptr<T> value) : value_(std::move(value)) {}
  ~Unlocked() {
    const nb::gil_scoped_release release;
    if (getpid() != process_) static_cast<void>(value_.release());
    value_.reset();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  T* operator->() const { return &**this; }
  T& operator*() const {
    if (getpid() != process_) throw ForkedError();
    return *value_;
  }

 private:
  const pid_t process_ = getpid();
  std::unique_ptr<T> value_;
};

using PyEngine = Unlocked<Engine>;
using PyStream = Unlocked<TokenStream>;

// Errors become the exceptions of isobit/errors.py.
void TranslateErrors() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    const auto raise = [](isobit_status status, const char* message) {
      const nb::object raised = nb::module_::import_("isobit.errors")
                                    .attr("error_of")(isobit_status_name(status), message);
      PyErr_SetObject(raised.type().ptr(), raised.ptr());
    };
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise(error.status(), error.what());
    } catch (const ForkedError& error) {
      raise(ISOBIT_FAILED_PRECONDITION, error.what());
    }
  });
}

void BindParameters(nb::module_& m) {
  nb::class_<EngineParams>(m, "EngineParams")
      .def(nb::init<>())
      .def_rw("device", &EngineParams::device)
      .def_rw("threads", &EngineParams::threads)
      .def_rw("max_model_len", &EngineParams::max_model_len)
      .def_rw("max_num_seqs", &EngineParams::max_num_seqs)
      .def_rw("max_num_batched_tokens", &EngineParams::max_num_batched_tokens)
      .def_rw("block_size", &EngineParams::block_size)
      .def_rw("kv_cache_tokens", &EngineParams::kv_cache_tokens)
      .def_rw("prefix_cache", &EngineParams::prefix_cache)
      .def_rw("seed", &EngineParams::seed, nb::arg().none());
  nb::class_<SamplingParams>(m, "SamplingParams")
      .def(nb::init<>())
      .def_rw("max_tokens", &SamplingParams::max_tokens)
      .def_rw("min_tokens", &SamplingParams::min_tokens)
      .def_rw("temperature", &SamplingParams::temperature)
      .def_rw("top_k", &SamplingParams::top_k)
      .def_rw("top_p", &SamplingParams::top_p)
      .def_rw("min_p", &SamplingParams::min_p)
      .def_rw("seed", &SamplingParams::seed, nb::arg().none())
      .def_rw("n", &SamplingParams::n)
      .def_rw("presence_penalty", &SamplingParams::presence_penalty)
      .def_rw("frequency_penalty", &SamplingParams::frequency_penalty)
      .def_rw("repetition_penalty", &SamplingParams::repetition_penalty)
      .def_prop_rw("logit_bias", &GetLogitBias, &SetLogitBias)
      .def_rw("stop", &SamplingParams::stop)
      .def_rw("stop_token_ids", &SamplingParams::stop_token_ids)
      .def_rw("ignore_eos", &SamplingParams::ignore_eos)
      .def_rw("logprobs", &SamplingParams::logprobs, nb::arg().none())
      .def_rw("prompt_logprobs", &SamplingParams::prompt_logprobs, nb::arg().none())
      .def_rw("processed_logprobs", &SamplingParams::processed_logprobs);
}

void BindCompletion(nb::module_& m) {
  nb::class_<Completion>(m, "Completion")
      .def_prop_ro("digest", &Completion::digest)
      .def_prop_ro("model_digest",
                   [](const Completion& c) { return std::string(c.info().model_digest); })
      .def_prop_ro("seed", &Completion::seed)
      .def_prop_ro("choices", [](const Completion& c) { return c.info().choice_count; })
      .def_prop_ro("cached_tokens", [](const Completion& c) { return c.info().cached_tokens; })
      .def_prop_ro("has_prompt_logprobs",
                   [](const Completion& c) { return c.info().has_prompt_logprobs != 0; })
      .def_prop_ro("has_receipt", [](const Completion& c) { return c.info().has_receipt != 0; })
      .def("prompt_token_ids", &Completion::prompt_token_ids)
      .def("prompt_logprobs", [](const Completion& c) { return ToArray(c.prompt_logprobs()); })
      .def(
          "prompt_top_logprobs",
          [](const Completion& c, size_t position) {
            return ToPairs(c.prompt_top_logprobs(position));
          },
          "position"_a)
      .def(
          "choice_digest",
          [](const Completion& c, int i) { return std::string(c.choice(i).digest); }, "choice"_a)
      .def(
          "finish_reason", [](const Completion& c, int i) { return c.choice(i).finish_reason; },
          "choice"_a)
      .def(
          "has_logprobs", [](const Completion& c, int i) { return c.choice(i).has_logprobs != 0; },
          "choice"_a)
      .def(
          "text", [](const Completion& c, int i) { return c.text(i); }, "choice"_a)
      .def(
          "token_ids", [](const Completion& c, int i) { return c.token_ids(i); }, "choice"_a)
      .def(
          "logprobs", [](const Completion& c, int i) { return ToArray(c.logprobs(i)); }, "choice"_a)
      .def(
          "top_logprobs",
          [](const Completion& c, int i, size_t position) {
            return ToPairs(c.top_logprobs(i, position));
          },
          "choice"_a, "position"_a)
      .def("json", &Completion::json)
      .def("receipt", &Completion::receipt);
}

void BindStream(nb::module_& m) {
  nb::class_<Wakeups>(m, "Wakeups")
      .def(nb::init<>())
      .def("fileno", &Wakeups::fd)
      .def("take", &Wakeups::Take)
      .def("wait", &Wakeups::Wait, "timeout_ms"_a, ReleaseLock());
  nb::class_<Token>(m, "Token")
      .def_ro("choice", &Token::choice)
      .def_ro("token_id", &Token::token_id)
      .def_ro("text", &Token::text)
      .def_ro("logprob", &Token::logprob)
      .def_ro("top", &Token::top);
  nb::class_<PyStream>(m, "Stream")
      .def("take", [](const PyStream& s) { return s->Take(); })
      .def_prop_ro("done", [](const PyStream& s) { return s->done(); })
      .def(
          "result", [](const PyStream& s) { return s->Result(); }, ReleaseLock())
      .def(
          "cancel", [](const PyStream& s) { s->Cancel(); }, ReleaseLock());
}

// Messages, tools and variables of the chat template, each as JSON; the latter two may be empty.
struct Conversation {
  std::string messages, tools, chat_template_kwargs;
};

using Prompt = std::variant<std::string, std::vector<int32_t>, Conversation>;

void SetConversation(Conversation from, Request& request) {
  request.prompt = MessagesJson{std::move(from.messages)};
  request.tools = std::move(from.tools);
  request.chat_template_kwargs = std::move(from.chat_template_kwargs);
}

Request MakeRequest(std::string id, Prompt prompt, const SamplingParams& sampling, bool receipt) {
  Request request;
  request.id = std::move(id);
  request.sampling = sampling;
  request.receipt = receipt;
  if (auto* text = std::get_if<std::string>(&prompt)) {
    request.prompt = std::move(*text);
  } else if (auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
    request.prompt = std::move(*ids);
  } else {
    SetConversation(std::get<Conversation>(std::move(prompt)), request);
  }
  return request;
}

void BindEngine(nb::module_& m) {
  nb::class_<Conversation>(m, "Conversation")
      .def(nb::init<std::string, std::string, std::string>(), "messages"_a, "tools"_a,
           "chat_template_kwargs"_a);
  nb::class_<PyEngine>(m, "Engine")
      .def(
          "__init__",
          [](PyEngine* self, const std::string& path, const EngineParams& params) {
            new (self) PyEngine(std::make_unique<Engine>(path, params));
          },
          "path"_a, "params"_a, ReleaseLock())
      .def("info",
           [](const PyEngine& e) {
             const isobit_engine_info info = e->info();
             Facts out;
             out["model_digest"] = info.model_digest;
             out["device"] = info.device;
             out["vocab_size"] = info.vocab_size;
             out["max_model_len"] = info.max_model_len;
             out["max_num_seqs"] = info.max_num_seqs;
             out["max_num_batched_tokens"] = info.max_num_batched_tokens;
             out["kv_cache_tokens"] = info.kv_cache_tokens;
             out["weight_bytes"] = info.weight_bytes;
             out["bos_token_id"] = info.bos_token_id;
             out["eos_token_id"] = info.eos_token_id;
             return out;
           })
      .def("stats",
           [](const PyEngine& e) {
             const isobit_engine_stats stats = e->stats();
             Facts out;
             out["steps"] = stats.steps;
             out["waiting"] = stats.waiting;
             out["running"] = stats.running;
             out["preemptions"] = stats.preemptions;
             out["prompt_tokens"] = stats.prompt_tokens;
             out["cached_tokens"] = stats.cached_tokens;
             out["generated_tokens"] = stats.generated_tokens;
             return out;
           })
      .def(
          "tokenize",
          [](const PyEngine& e, const std::string& text, bool add_special) {
            return e->Tokenize(text, ISOBIT_PARSE_SPECIAL | (add_special ? ISOBIT_ADD_SPECIAL : 0));
          },
          "text"_a, "add_special"_a, ReleaseLock())
      .def(
          "detokenize",
          [](const PyEngine& e, const std::vector<int32_t>& ids, bool skip_special) {
            return e->Detokenize(ids, skip_special ? 0 : ISOBIT_KEEP_SPECIAL);
          },
          "token_ids"_a, "skip_special"_a, ReleaseLock())
      .def(
          "apply_chat_template",
          [](const PyEngine& e, Conversation conversation, bool add_generation_prompt) {
            Request request;
            SetConversation(std::move(conversation), request);
            return e->RenderConversation(request, add_generation_prompt);
          },
          "conversation"_a, "add_generation_prompt"_a, ReleaseLock())
      .def(
          "submit",
          [](const PyEngine& e, std::string id, Prompt prompt, const SamplingParams& sampling,
             bool receipt, std::shared_ptr<Wakeups> wakeups, uint64_t key, bool tokens) {
            return std::make_unique<PyStream>(std::make_unique<TokenStream>(
                *e, MakeRequest(std::move(id), std::move(prompt), sampling, receipt),
                std::move(wakeups), key, tokens));
          },
          "id"_a, "prompt"_a, "sampling"_a, "receipt"_a, "wakeups"_a, "key"_a, "tokens"_a,
          ReleaseLock())
      .def(
          "replay", [](const PyEngine& e, const std::string& receipt) { e->Replay(receipt); },
          "receipt"_a, ReleaseLock())
      .def(
          "update_weights",
          [](const PyEngine& e, const std::string& path) { e->UpdateWeights(path); }, "path"_a,
          ReleaseLock());
}

}  // namespace
}  // namespace isobit::python

NB_MODULE(_isobit, m) {
  m.doc() = "The engine behind the package isobit.";
  m.attr("VERSION") = isobit_version();
  m.attr("CONTRACT_VERSION") = isobit_contract_version();
  isobit::python::TranslateErrors();
  isobit::python::BindParameters(m);
  isobit::python::BindCompletion(m);
  isobit::python::BindStream(m);
  isobit::python::BindEngine(m);
}
