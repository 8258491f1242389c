// The C and C++ interfaces of the shared library: the command's bits, many threads, callbacks that
// abort, weights that are exchanged, programs of other versions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "isobit.hpp"
#include "nlohmann/json.hpp"
#include "tests/tiny_model.h"
#include "tests/tools/isobit/process.h"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

EngineParams OneThread() {
  EngineParams params;
  params.device = "cpu";
  params.threads = 1;
  return params;
}

Request MakeRequest(std::vector<int32_t> prompt, int64_t max_tokens = 12) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.sampling.seed = 11;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 1;
  return request;
}

isobit_status StatusOf(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.status();
  }
  return ISOBIT_OK;
}

// Without what depends on the schedule.
json Answer(const std::string& line) {
  json answer = json::parse(line);
  answer["usage"].erase("cached_tokens");
  return answer;
}

TEST(Interface, GivesTheLinesOfTheCommand) {
  const std::string model = WriteTinyModel();
  const std::string lines =
      R"({"id":"a","prompt":"hello","max_tokens":20,"temperature":0,"logprobs":3})"
      "\n"
      R"({"id":"b","prompt_token_ids":[5,6,7,8],"max_tokens":9,"temperature":0.7,"seed":3,"n":2,)"
      R"("top_k":40,"top_p":0.9,"min_p":0.01,"logprobs":0,"prompt_logprobs":2,)"
      R"("logprobs_mode":"processed","presence_penalty":0.5,"frequency_penalty":-0.5,)"
      R"("repetition_penalty":1.1,"logit_bias":{"9":2.5},"stop":["zz"],"stop_token_ids":[77],)"
      R"("min_tokens":2,"ignore_eos":true})"
      "\n";
  const TempFolder folder;
  const ProcessResult command =
      RunProcess(folder, {IsobitPath(), "batch", "-m", model, "-", "-o", "-"}, lines);
  ASSERT_EQ(command.exit_code, 0) << command.err;
  const size_t end = command.out.find('\n');

  Request a;
  a.id = "a";
  a.prompt = "hello";
  a.sampling.max_tokens = 20;
  a.sampling.temperature = 0;
  a.sampling.logprobs = 3;
  Request b;
  b.id = "b";
  b.prompt = std::vector<int32_t>{5, 6, 7, 8};
  b.sampling.max_tokens = 9;
  b.sampling.min_tokens = 2;
  b.sampling.temperature = 0.7;
  b.sampling.seed = 3;
  b.sampling.n = 2;
  b.sampling.top_k = 40;
  b.sampling.top_p = 0.9;
  b.sampling.min_p = 0.01;
  b.sampling.logprobs = 0;
  b.sampling.prompt_logprobs = 2;
  b.sampling.processed_logprobs = true;
  b.sampling.presence_penalty = 0.5;
  b.sampling.frequency_penalty = -0.5;
  b.sampling.repetition_penalty = 1.1;
  b.sampling.logit_bias = {{9, 2.5f}};
  b.sampling.stop = {"zz"};
  b.sampling.stop_token_ids = {77};
  b.sampling.ignore_eos = true;
  const Engine engine(model, OneThread());
  const std::vector<Completion> completions = engine.Generate(std::vector<Request>{a, b});
  EXPECT_EQ(Answer(completions[0].json()), Answer(command.out.substr(0, end)));
  EXPECT_EQ(Answer(completions[1].json()), Answer(command.out.substr(end + 1)));

  // What is read piece by piece is what stands in the line.
  const json line = json::parse(completions[1].json());
  const json& choice = line["choices"][1];
  EXPECT_EQ(completions[1].text(1), choice["text"].get<std::string>());
  EXPECT_EQ(completions[1].token_ids(1), choice["token_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(completions[1].choice(1).digest, choice["digest"].get<std::string>());
  EXPECT_EQ(completions[1].logprobs(1)[2], choice["logprobs"][2]["logprob"].get<float>());
  EXPECT_EQ(completions[1].prompt_token_ids(), (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(completions[1].prompt_logprobs()[1],
            line["prompt_logprobs"][2]["logprob"].get<float>());
  EXPECT_EQ(completions[1].prompt_top_logprobs(2)[1].token_id,
            line["prompt_logprobs"][2]["top"][1]["token_id"].get<int32_t>());
}

constexpr char kTools[] =
    R"([{"type":"function","function":{"name":"find","description":"z first","arguments":{}}}])";
constexpr char kCall[] = R"({"role":"assistant","content":null,"tool_calls":[{"name":"find"}]})";

Request Conversation() {
  Request request;
  request.id = "r";
  request.prompt = MessagesJson{std::string(R"([{"role":"user","content":"hi"},)") + kCall + "]"};
  request.tools = kTools;
  request.chat_template_kwargs = R"({"tone":"dry"})";
  request.sampling.temperature = 0;
  return request;
}

TEST(Interface, ToolsAndTemplateVariablesGoTheWayOfTheCommand) {
  TinyModelOptions options;
  options.chat_template = kTinyToolTemplate;
  const std::string model = WriteTinyModel(options);
  const std::string line = std::string(R"({"id":"r","messages":[{"role":"user","content":"hi"},)") +
                           kCall + R"(],"tools":)" + kTools +
                           R"(,"chat_template_kwargs":{"tone":"dry"},"temperature":0})" + "\n";
  const TempFolder folder;
  const ProcessResult command =
      RunProcess(folder, {IsobitPath(), "batch", "-m", model, "-", "-o", "-"}, line);
  ASSERT_EQ(command.exit_code, 0) << command.err;
  const Engine engine(model, OneThread());
  const Completion completion = engine.Generate(Conversation());
  EXPECT_EQ(Answer(completion.json()), Answer(command.out));

  const std::string prompt = engine.RenderConversation(Conversation());
  EXPECT_EQ(prompt, std::string("tools ") +
                        R"([{"type": "function", "function": {"name": "find", "description": )" +
                        R"("z first", "arguments": {}}}])" +
                        "\ntone dry\n<|im_start|>user\nhi<|im_end|><|im_start|>assistant\n" +
                        R"([{"name": "find"}]<|im_end|><|im_start|>)");
  EXPECT_EQ(engine.Tokenize(prompt, ISOBIT_PARSE_SPECIAL), completion.prompt_token_ids());

  // Messages as structs take tools too; without any, all ways agree.
  Request plain = Conversation();
  plain.prompt = std::vector<Message>{{"user", "hi"}};
  EXPECT_THAT(engine.RenderConversation(plain), HasSubstr("tone dry\n<|im_start|>user\nhi"));
  plain.tools = plain.chat_template_kwargs = "";
  EXPECT_EQ(engine.RenderConversation(plain, false),
            engine.ApplyChatTemplate({{"user", "hi"}}, false));
}

TEST(Interface, AReceiptGoesFromTheLibraryToTheCommand) {
  const std::string model = WriteTinyModel();
  const Engine engine(model, OneThread());
  Request request = MakeRequest({1, 2, 3});
  request.receipt = true;
  const TempFolder folder;
  const std::string path = folder.Path("receipt.json");
  std::ofstream(path) << engine.Generate(request).receipt();
  const ProcessResult replay = RunProcess(folder, {IsobitPath(), "replay", "-m", model, path});
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("equal    12 tokens"));
}

TEST(Interface, ScoringGivesTheBitsOfGenerating) {
  const Engine engine(WriteTinyModel(), OneThread());
  const Completion completion = engine.Generate(MakeRequest({1, 2, 3, 4}, 200));
  std::vector<int32_t> ids = completion.prompt_token_ids();
  for (const int32_t id : completion.token_ids()) ids.push_back(id);
  const std::vector<float> scored = engine.Score(ids), drawn = completion.logprobs();
  ASSERT_EQ(scored.size(), 203u);
  ASSERT_EQ(drawn.size(), 200u);
  EXPECT_EQ(std::memcmp(scored.data() + 3, drawn.data(), drawn.size() * sizeof(float)), 0);
  EXPECT_TRUE(engine.Score({7}).empty());
  std::string message;
  EXPECT_EQ(StatusOf([&] { engine.Score({}); }, &message), ISOBIT_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("prompt"));
}

TEST(Interface, ThreadsThatShareAnEngineGetTheBitsOfOne) {
  const std::string model = WriteTinyModel();
  std::vector<std::string> alone;
  for (int32_t i = 0; i < 6; ++i) {
    alone.push_back(Engine(model, OneThread()).Generate(MakeRequest({i, i + 1, 40 + i})).digest());
  }
  const Engine engine(model, OneThread());
  std::atomic<int> compared = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t round = 0; round < 12; ++round) {
        const int32_t i = (round + t) % 6;
        const std::string digest = engine.Generate(MakeRequest({i, i + 1, 40 + i})).digest();
        EXPECT_EQ(digest, alone[static_cast<size_t>(i)]);
        ++compared;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compared, 48);
}

TEST(Interface, ACallbackMayAbortAtTheFirstTokenAndSubmitMore) {
  const Engine engine(WriteTinyModel(), OneThread());
  for (int round = 0; round < 50; ++round) {
    int tokens = 0;
    std::promise<Pending> second;
    Request request = MakeRequest({1, 2, 3}, 1000);
    request.on_token = [&](const isobit_token&) {
      ++tokens;
      second.set_value(engine.Submit(MakeRequest({4, 5}, 2)));
      return false;
    };
    const Completion aborted = engine.Generate(request);
    EXPECT_EQ(aborted.choice().finish_reason, ISOBIT_FINISH_CANCELLED);
    EXPECT_EQ(second.get_future().get().Wait().token_ids().size(), 2u);
    EXPECT_EQ(tokens, 1);
  }
}

TEST(Interface, ARequestIsCancelledByItsOwnerAndByForgettingIt) {
  const Engine engine(WriteTinyModel(), OneThread());
  std::atomic<int> done = 0;
  Request request = MakeRequest({1, 2, 3}, 4000);
  request.on_done = [&] { ++done; };
  {
    const Pending pending = engine.Submit(request);
    EXPECT_FALSE(pending.WaitFor(0).has_value());
    pending.Cancel();
    const Completion completion = pending.Wait();
    EXPECT_EQ(completion.choice().finish_reason, ISOBIT_FINISH_CANCELLED);
    EXPECT_EQ(StatusOf([&] { completion.receipt(); }), ISOBIT_FAILED_PRECONDITION);
  }
  EXPECT_EQ(done, 1);
  { const Pending forgotten = engine.Submit(request); }
  EXPECT_EQ(done, 2);
  EXPECT_EQ(engine.stats().running, 0);
}

TEST(Interface, FreeingTheEngineEndsItsRequests) {
  isobit_engine* engine = nullptr;
  ASSERT_EQ(isobit_engine_load(WriteTinyModel().c_str(), nullptr, &engine), ISOBIT_OK);
  isobit_request_params params;
  isobit_request_params_init(&params, sizeof(params));
  isobit_sampling_params sampling;
  isobit_sampling_params_init(&sampling, sizeof(sampling));
  sampling.max_tokens = 4000;
  sampling.ignore_eos = 1;
  std::atomic<int> done = 0;
  params.text = "hello";
  params.text_length = 5;
  params.sampling = &sampling;
  params.user_data = &done;
  params.on_done = [](void* user_data) { ++*static_cast<std::atomic<int>*>(user_data); };
  // Called while the engine goes: must not reach it any more.
  params.on_token = [](const isobit_token*, void*) { return int32_t{0}; };
  std::vector<isobit_request*> requests(8);
  for (isobit_request*& request : requests) {
    ASSERT_EQ(isobit_submit(engine, &params, &request), ISOBIT_OK);
  }
  isobit_engine_free(engine);
  EXPECT_EQ(done, 8);
  for (isobit_request* request : requests) {
    isobit_completion* completion = nullptr;
    EXPECT_EQ(isobit_request_wait(request, -1, &completion), ISOBIT_CANCELLED);
    EXPECT_EQ(completion, nullptr);
    isobit_request_cancel(request);
    isobit_request_free(request);
  }
}

TEST(Interface, NewWeightsServeWhatComesAfterThem) {
  TinyModelOptions other;
  other.seed = 2;
  const std::string first = WriteTinyModel(), second = WriteTinyModel(other);
  const Request request = MakeRequest({1, 2, 3, 4, 5, 6}, 40);
  const std::string of_second = Engine(second, OneThread()).Generate(request).digest();
  const Engine engine(first, OneThread());
  const std::string of_first = engine.Generate(request).digest();
  ASSERT_NE(of_first, of_second);

  const Pending under_way = engine.Submit(MakeRequest({9, 9}, 300));
  const std::string old_model = engine.model_digest();
  engine.UpdateWeights(second);
  EXPECT_NE(engine.model_digest(), old_model);
  EXPECT_EQ(engine.Generate(request).digest(), of_second);
  EXPECT_EQ(under_way.Wait().choice().token_count, 300);
  EXPECT_EQ(under_way.Wait().info().model_digest, old_model);

  std::string message;
  EXPECT_EQ(StatusOf([&] { engine.UpdateWeights("/no/such/file"); }, &message), ISOBIT_NOT_FOUND);
  EXPECT_THAT(message, HasSubstr("/no/such/file"));
  const std::string deeper = WriteTinyModel({.layers = 3});
  EXPECT_EQ(StatusOf([&] { engine.UpdateWeights(deeper); }, &message), ISOBIT_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("not of the same shape"));
  EXPECT_EQ(engine.Generate(request).digest(), of_second);
  engine.UpdateWeights(first);
  EXPECT_EQ(engine.Generate(request).digest(), of_first);
}

TEST(Interface, WeightsMayChangeWhileOthersSubmitAndCancel) {
  TinyModelOptions other;
  other.seed = 2;
  const std::vector<std::string> models = {WriteTinyModel(), WriteTinyModel(other)};
  const Request request = MakeRequest({1, 2, 3}, 6);
  std::vector<std::pair<std::string, std::string>> expected;  // model digest, digest
  for (const std::string& model : models) {
    const Engine alone(model, OneThread());
    expected.emplace_back(alone.model_digest(), alone.Generate(request).digest());
  }
  const Engine engine(models[0], OneThread());
  std::atomic<bool> stop = false;
  std::atomic<int> compared = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop || compared < 20) {
        const Completion completion = engine.Generate(request);
        const std::pair<std::string, std::string> got = {completion.info().model_digest,
                                                         completion.digest()};
        EXPECT_TRUE(got == expected[0] || got == expected[1]);
        engine.Submit(MakeRequest({7}, 500)).Cancel();
        ++compared;
      }
    });
  }
  for (size_t i = 1; i <= 10; ++i) engine.UpdateWeights(models[i % 2]);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(compared, 20);
}

// ---- Programs of other versions

TEST(InterfaceVersions, AnOlderProgramGetsTheDefaultsOfNewFields) {
  const Engine engine(WriteTinyModel(), OneThread());
  isobit_sampling_params sampling;
  std::memset(&sampling, 0xff, sizeof(sampling));  // beyond its end: not to be read
  const size_t size = offsetof(isobit_sampling_params, min_tokens);
  isobit_sampling_params_init(&sampling, size);
  EXPECT_EQ(sampling.min_tokens, -1) << "written beyond the end";
  sampling.max_tokens = 3;
  isobit_request_params params;
  std::memset(&params, 0xff, sizeof(params));
  isobit_request_params_init(&params, offsetof(isobit_request_params, messages_json));
  params.text = "hello";
  params.text_length = 5;
  params.sampling = &sampling;
  isobit_request* request = nullptr;
  ASSERT_EQ(isobit_submit(engine.handle(), &params, &request), ISOBIT_OK) << isobit_error_message();
  isobit_request_free(request);
}

TEST(InterfaceVersions, ANewerProgramMayNotUseWhatIsNotKnown) {
  struct Newer {
    isobit_engine_params known;
    int64_t added;
  } params;
  isobit_engine_params_init(&params.known, sizeof(params));
  EXPECT_EQ(params.added, 0);
  isobit_engine* engine = nullptr;
  const std::string model = WriteTinyModel();
  EXPECT_EQ(isobit_engine_load(model.c_str(), &params.known, &engine), ISOBIT_OK);
  isobit_engine_free(engine);
  params.added = 1;
  EXPECT_EQ(isobit_engine_load(model.c_str(), &params.known, &engine), ISOBIT_UNSUPPORTED);
  EXPECT_THAT(isobit_error_message(), HasSubstr("does not know"));
  params.known.struct_size = 0;
  EXPECT_EQ(isobit_engine_load(model.c_str(), &params.known, &engine), ISOBIT_INVALID_ARGUMENT);
  EXPECT_THAT(isobit_error_message(), HasSubstr("struct_size"));
}

TEST(InterfaceVersions, ResultsAreCutToWhatTheProgramKnows) {
  const Engine engine(WriteTinyModel(), OneThread());
  struct Newer {
    isobit_engine_info known;
    int64_t added;
  } newer;
  newer.added = -1;
  ASSERT_EQ(isobit_engine_get_info(engine.handle(), &newer.known, sizeof(newer)), ISOBIT_OK);
  EXPECT_EQ(newer.added, 0);
  EXPECT_EQ(newer.known.vocab_size, kTinyVocab);
  isobit_engine_info older;
  older.vocab_size = -1;
  ASSERT_EQ(
      isobit_engine_get_info(engine.handle(), &older, offsetof(isobit_engine_info, vocab_size)),
      ISOBIT_OK);
  EXPECT_EQ(older.vocab_size, -1) << "written beyond the end";
  EXPECT_EQ(isobit_engine_get_info(engine.handle(), &older, 1), ISOBIT_INVALID_ARGUMENT);
}

// ---- Errors

TEST(InterfaceErrors, NameWhatIsWrong) {
  const Engine engine(WriteTinyModel(), OneThread());
  const auto error_of = [&](const std::function<void(Request&)>& change) {
    Request request = MakeRequest({1, 2});
    change(request);
    std::string message;
    EXPECT_EQ(StatusOf([&] { engine.Generate(request); }, &message), ISOBIT_INVALID_ARGUMENT);
    return message;
  };
  EXPECT_THAT(error_of([](Request& r) { r.sampling.temperature = -1; }), HasSubstr("temperature"));
  EXPECT_THAT(error_of([](Request& r) { r.sampling.logprobs = -2; }), HasSubstr("logprobs"));
  EXPECT_THAT(error_of([](Request& r) { r.prompt = std::vector<Message>{}; }),
              HasSubstr("messages must not be empty"));
  EXPECT_THAT(error_of([](Request& r) { r.prompt = std::vector<int32_t>{-1}; }),
              HasSubstr("prompt_token_ids[0]"));
  EXPECT_THAT(error_of([](Request& r) { r.prompt = std::string("\xff"); }), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of([](Request& r) { r.tools = "[]"; }), HasSubstr("tools must come with"));
  const auto conversation = [](const char* messages, const char* tools, const char* kwargs) {
    return [=](Request& r) {
      r.prompt = MessagesJson{messages};
      r.tools = tools;
      r.chat_template_kwargs = kwargs;
    };
  };
  const char* const hi = R"([{"role":"user","content":"hi"}])";
  EXPECT_THAT(error_of(conversation("[", "", "")), HasSubstr("messages_json"));
  EXPECT_THAT(error_of(conversation("[]", "", "")), HasSubstr("messages must be an array"));
  EXPECT_THAT(error_of(conversation(R"([{"role":"user","text":"hi"}])", "", "")),
              HasSubstr("messages[0].content is missing"));
  EXPECT_THAT(error_of(conversation(hi, "{}", "")), HasSubstr("tools must be an array of objects"));
  EXPECT_THAT(error_of(conversation(hi, "[", "")), HasSubstr("tools: "));
  EXPECT_THAT(error_of(conversation(hi, "", "[]")),
              HasSubstr("chat_template_kwargs must be an object"));
  EXPECT_THAT(error_of(conversation(hi, "", R"({"messages":1})")),
              HasSubstr("can't set 'messages'"));
  Request request = MakeRequest({1});
  request.prompt = std::vector<int32_t>(5000, 1);
  EXPECT_EQ(StatusOf([&] { engine.Generate(request); }), ISOBIT_OUT_OF_RANGE);

  EngineParams params;
  params.device = "abacus";
  std::string message;
  EXPECT_EQ(StatusOf([&] { Engine(WriteTinyModel(), params); }, &message), ISOBIT_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("abacus"));
}

TEST(InterfaceErrors, MessagesBelongToTheThread) {
  EXPECT_EQ(isobit_submit(nullptr, nullptr, nullptr), ISOBIT_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(isobit_error_message(), ""); }).join();
  EXPECT_STREQ(isobit_error_message(), "engine must not be NULL");
}

}  // namespace
}  // namespace isobit
