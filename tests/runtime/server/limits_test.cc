// What a client can do to a server, by mistake or not: every limit, and everybody who goes away.

#include <gmock/gmock.h>

#include <future>

#include "runtime/server/http.h"
#include "tests/runtime/server/server_fixture.h"

namespace isobit {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using json = nlohmann::json;
using std::chrono::milliseconds;

class LimitsTest : public ServerTest {
 protected:
  // The engine holds still: what is asked now waits until it is resumed.
  void HoldEngine() { engine_->Pause(); }
  int64_t Waiting() { return engine_->Stats().waiting; }
  std::string Metric(const std::string& line) {
    const std::string text = Get("/metrics").body;
    const size_t at = text.find("\n" + line + " ");
    if (at == std::string::npos) return "";
    const size_t begin = at + line.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
};

// ---- HTTP that is none, and requests that are too much

TEST_F(LimitsTest, BrokenHttpIsRefusedAndNeverKeepsTheServer) {
  StartServer();
  for (const std::string text : {
           "\r\n\r\n\r\n\r\nnonsense\r\n\r\n",
           "GET\r\n\r\n",
           "GET / HTTP/9.9\r\n\r\n",
           "GET / HTTP/1.1\r\nno colon\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
           "POST /generate HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST /generate HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
           "POST /generate HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: "
           "chunked\r\n\r\nzz\r\n",
       }) {
    HttpClient client(port_);
    client.Send(text);
    client.CloseSending();
    const HttpReply reply = client.ReadReply();
    EXPECT_THAT(reply.status, ::testing::AnyOf(0, 400)) << text;
    EXPECT_TRUE(client.ReadsEnd()) << text;
  }
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(LimitsTest, HeadersAndBodiesHaveLimits) {
  ServerOptions options;
  options.limits.max_header_bytes = 1000;
  options.limits.max_body_bytes = 2000;
  StartServer(options);
  EXPECT_EQ(Get("/health", {{"X-Long", std::string(900, 'x')}}).status, 200);
  EXPECT_EQ(Get("/health", {{"X-Long", std::string(1000, 'x')}}).status, 431);
  json body = {{"prompt", std::string(3000, 'x')}};
  HttpReply reply = Post("/v1/completions", body);
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.Error(), HasSubstr("2000 bytes"));
  EXPECT_EQ(reply.headers.at("connection"), "close");
  // The same in chunks, whose sum is not told before.
  HttpClient client(port_);
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) client.Send(Chunk(std::string(900, ' ')));
  EXPECT_EQ(client.ReadReply().status, 413);
  // Chunks that fit.
  HttpClient fits(port_);
  fits.Send(
      "POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
      Chunk("{\"prompt\":") + Chunk("\"abc\"}") + std::string(kLastChunk));
  EXPECT_EQ(fits.ReadReply().Json()["count"], 3);
}

TEST_F(LimitsTest, BodiesThatAreReadTogetherHaveALimit) {
  ServerOptions options;
  options.limits.max_body_bytes = 1000;
  options.limits.max_bodies_bytes = 1500;
  StartServer(options);
  HttpClient slow(port_);
  const std::string body = json{{"prompt", std::string(900, 'x')}}.dump();
  const std::string request = RequestText("POST", "/tokenize", body);
  slow.Send(request.substr(0, request.size() - 1));
  // Until the slow one's header was seen, there is room.
  ASSERT_TRUE(Eventually([&] { return Post("/tokenize", json::parse(body)).status == 503; }));
  EXPECT_EQ(Post("/tokenize", json::parse(body)).headers.at("retry-after"), "1");
  EXPECT_EQ(Post("/tokenize", {{"prompt", "small"}}).status, 200);
  slow.Send(request.substr(request.size() - 1));
  EXPECT_EQ(slow.ReadReply().status, 200);
  EXPECT_TRUE(Eventually([&] { return Post("/tokenize", json::parse(body)).status == 200; }));
}

TEST_F(LimitsTest, PathsMethodsAndTypes) {
  StartServer();
  EXPECT_EQ(Get("/nothing").status, 404);
  EXPECT_EQ(Get("/nothing?x=1").status, 404);
  EXPECT_EQ(Get("/health?x=1").status, 200);
  const HttpReply wrong = Get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(Ask(port_, "POST", "/tokenize", "{}", {{"Content-Type", "text/plain"}}).status, 415);
  EXPECT_EQ(Ask(port_, "POST", "/tokenize", R"({"prompt":"a"})",
                {{"Content-Type", "Application/JSON; charset=utf-8"}})
                .status,
            200);
  // Another site's page in a person's browser.
  EXPECT_EQ(Post("/tokenize", {{"prompt", "a"}}, {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(Post("/tokenize", {{"prompt", "a"}}, {{"Origin", "http://localhost"}}).status, 200);
}

TEST_F(LimitsTest, KeysAreNeeded) {
  ServerOptions options;
  options.api_keys = {"secret-one", "two"};
  StartServer(options);
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/").status, 200);
  const HttpReply refused = Get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  for (const char* value : {"Bearer secret-on", "Bearer secret-one2", "Bearer ", "secret-one",
                            "Basic secret-one", "Bearer secret-two"}) {
    EXPECT_EQ(Get("/metrics", {{"Authorization", value}}).status, 401) << value;
  }
  for (const char* value : {"Bearer secret-one", "bearer two"}) {
    EXPECT_EQ(Get("/v1/models", {{"Authorization", value}}).status, 200) << value;
  }
  EXPECT_THAT(Log(), Not(HasSubstr("secret")));
}

TEST(Keys, AreComparedWhole) {
  EXPECT_TRUE(IsOneOf({"abc"}, "abc"));
  EXPECT_TRUE(IsOneOf({"x", "abc"}, "abc"));
  for (const char* wrong : {"", "a", "ab", "abd", "abca", "abcabc", "ABC"}) {
    EXPECT_FALSE(IsOneOf({"abc"}, wrong)) << wrong;
  }
  EXPECT_FALSE(IsOneOf({}, "abc"));
}

TEST_F(LimitsTest, RequestIdsAreKeptAndPromptsAreNotLogged) {
  StartServer();
  const HttpReply named =
      Post("/v1/completions", {{"prompt", "a secret"}, {"max_tokens", 2}, {"seed", 1}},
           {{"X-Request-Id", "my-id.7"}});
  EXPECT_EQ(named.headers.at("x-request-id"), "my-id.7");
  EXPECT_EQ(named.Json()["id"], "cmpl-my-id.7");
  ASSERT_TRUE(LogComesToHold("my-id.7 POST /v1/completions 200"));
  EXPECT_THAT(Log(), HasSubstr("digest " + named.Json()["digest"].get<std::string>()));
  EXPECT_THAT(Log(), Not(HasSubstr("secret")));
  // An id that could forge a line of the log is not taken.
  for (const std::string& id : {std::string("a b"), std::string("x\ty"), std::string(65, 'x')}) {
    EXPECT_THAT(Get("/health", {{"X-Request-Id", id}}).headers.at("x-request-id"),
                StartsWith("req-"));
  }
}

TEST_F(LimitsTest, PromptsAreLoggedIfAsked) {
  ServerOptions options;
  options.log_prompts = true;
  StartServer(options);
  Post("/v1/completions", {{"prompt", "a secret\n"}, {"max_tokens", 2}});
  EXPECT_THAT(Log(), HasSubstr("a secret\\\\n"));
}

// ---- Too many

TEST_F(LimitsTest, AFullQueueSaysComeBack) {
  ServerOptions options;
  options.limits.max_waiting = 3;
  StartServer(options, {.max_num_seqs = 1});
  HoldEngine();
  std::vector<HttpClient> clients;
  const json body = {{"prompt", "x"}, {"max_tokens", 3}, {"seed", 1}};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(port_);
    clients.back().Send(RequestText("POST", "/v1/completions", body.dump()));
  }
  ASSERT_TRUE(Eventually([&] { return Waiting() == 4; }));
  const HttpReply refused = Post("/v1/completions", body);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(Metric("isobit_requests_refused_total{why=\"queue\"}"), "1");
  engine_->Resume();
  for (HttpClient& client : clients) EXPECT_EQ(client.ReadReply().status, 200);
  EXPECT_TRUE(Eventually([&] { return Post("/v1/completions", body).status == 200; }));
}

TEST_F(LimitsTest, ConnectionsHaveALimit) {
  ServerOptions options;
  options.limits.max_connections = 20;
  StartServer(options);
  std::vector<HttpClient> clients;
  int refused = 0;
  for (int i = 0; i < 30; ++i) {
    clients.emplace_back(port_);
    if (i < 20) continue;
    const HttpReply reply = clients.back().ReadReply();
    refused += reply.status == 503 && reply.headers.at("retry-after") == "1";
  }
  EXPECT_EQ(refused, 10);
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return Get("/health").status == 200; }));
}

TEST_F(LimitsTest, ThousandsOfConnects) {
  ServerOptions options;
  options.limits.max_connections = 50;
  StartServer(options);
  for (int i = 0; i < 10000; ++i) {
    HttpClient client(port_);
    if (i % 3 == 0) client.Send("GET /health HTTP/1.1\r\n");
    if (i % 2 == 0) client.Reset();
  }
  ASSERT_TRUE(Eventually([&] { return Get("/health").status == 200; }));
  EXPECT_TRUE(Eventually([&] { return Metric("isobit_connections") == "1"; }));
}

TEST_F(LimitsTest, AnAnswerThatIsGatheredHasALimit) {
  ServerOptions options;
  options.limits.max_answer_logprobs = 600;
  StartServer(options);
  json body = LongRequest();
  body["logprobs"] = 5;
  const HttpReply refused = Post("/v1/completions", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.Error(), HasSubstr("at most 600 log-probabilities"));
  EXPECT_TRUE(EngineBecomesIdle());
  EXPECT_LT(engine_->Stats().generated_tokens, 3000);
  EXPECT_EQ(Post("/score", {{"prompt", std::string(200, 'x')}, {"prompt_logprobs", 5}}).status,
            400);
  // A stream is not gathered.
  body["max_tokens"] = 300;
  body["stream"] = true;
  EXPECT_EQ(Post("/v1/completions", body).status, 200);
  body["stream"] = false;
  body["max_tokens"] = 100;  // 600 exactly
  EXPECT_EQ(Post("/v1/completions", body).status, 200);
}

// ---- Too slow

TEST_F(LimitsTest, SilentClientsAreClosed) {
  ServerOptions options;
  options.limits.idle_timeout = milliseconds(100);
  options.limits.header_timeout = milliseconds(100);
  options.limits.body_timeout = milliseconds(100);
  StartServer(options);
  HttpClient silent(port_), in_header(port_), in_body(port_), after(port_);
  in_header.Send("GET /health HTT");
  in_body.Send(RequestText("POST", "/tokenize", "{\"prompt\": \"abc\"}").substr(0, 110));
  after.Send(RequestText("GET", "/health"));
  EXPECT_EQ(after.ReadReply().status, 200);
  EXPECT_TRUE(silent.ReadsEnd());
  EXPECT_TRUE(in_header.ReadsEnd());
  EXPECT_TRUE(in_body.ReadsEnd());
  EXPECT_TRUE(after.ReadsEnd());
}

TEST_F(LimitsTest, ARequestThatTakesTooLongIsCancelled) {
  ServerOptions options;
  options.limits.request_timeout = milliseconds(200);
  StartServer(options);
  HoldEngine();
  const HttpReply reply = Post("/v1/completions", LongRequest());
  EXPECT_EQ(reply.status, 504);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  engine_->Resume();
  EXPECT_TRUE(EngineBecomesIdle());
  EXPECT_EQ(engine_->Stats().generated_tokens, 0);
}

TEST_F(LimitsTest, AReaderThatDoesNotReadIsCut) {
  ServerOptions options;
  options.limits.max_unsent_bytes = 20000;
  StartServer(options);
  HttpClient client(port_);
  client.ShrinkReceiveBuffer();
  json body = LongRequest();
  body["stream"] = true;
  body["logprobs"] = 20;
  client.Send(RequestText("POST", "/v1/completions", body.dump()));
  ASSERT_TRUE(LogComesToHold("too-slow"));
  EXPECT_TRUE(EngineBecomesIdle());
  EXPECT_LT(engine_->Stats().generated_tokens, 3000);
  EXPECT_EQ(Metric("isobit_clients_gone_total{reason=\"too-slow\"}"), "1");
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(LimitsTest, AnAnswerThatNobodyReadsTimesOut) {
  ServerOptions options;
  options.limits.write_timeout = milliseconds(200);
  StartServer(options);
  HttpClient client(port_);
  client.ShrinkReceiveBuffer();
  json body = LongRequest();
  body["logprobs"] = 20;
  client.Send(RequestText("POST", "/v1/completions", body.dump()));
  ASSERT_TRUE(LogComesToHold("too-slow"));
  EXPECT_EQ(Get("/health").status, 200);
}

// ---- Gone

TEST_F(LimitsTest, WhoGoesAwayFreesTheRequest) {
  StartServer({}, {.max_num_seqs = 4});
  for (const bool stream : {false, true}) {
    for (const int how : {0, 1, 2}) {
      const int64_t before = engine_->Stats().generated_tokens;
      HttpClient client(port_);
      json body = LongRequest();
      body["stream"] = stream;
      client.Send(RequestText("POST", "/v1/completions", body.dump()));
      ASSERT_TRUE(Eventually([&] { return engine_->Stats().generated_tokens > before + 2; }));
      if (how == 0) client.Close();
      if (how == 1) client.Reset();
      if (how == 2) client.CloseSending();  // half-closed counts as gone
      EXPECT_TRUE(EngineBecomesIdle());
      EXPECT_LT(engine_->Stats().generated_tokens, before + 3000) << stream << how;
    }
  }
  EXPECT_TRUE(LogComesToHold("499"));
  EXPECT_EQ(Metric("isobit_clients_gone_total{reason=\"disconnected\"}"), "6");
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_TRUE(engine_->CheckIntegrity().ok());
}

// OpenAI's client hangs up when it has read the last event: nothing was lost.
TEST_F(LimitsTest, WhoLeavesWithTheLastEventHasAll) {
  StartServer();
  const json body = {{"prompt", "x"}, {"max_tokens", 3}, {"seed", 1}, {"stream", true}};
  for (int i = 0; i < 200; ++i) {
    HttpClient client(port_);
    client.Send(RequestText("POST", "/v1/completions", body.dump()));
    client.ReadUntil("[DONE]");
    client.Close();
  }
  ASSERT_TRUE(Eventually([&] {
    return Metric("isobit_http_responses_total{path=\"/v1/completions\",status=\"200\"}") == "200";
  })) << Log();
  EXPECT_THAT(Log(), Not(HasSubstr(" 499 ")));
}

// ---- HTTP as it should be

TEST_F(LimitsTest, RequestsOnOneConnectionAreAnsweredInOrder) {
  StartServer();
  HttpClient client(port_);
  // All at once: the second and third come while the first is being answered.
  client.Send(RequestText("POST", "/v1/completions",
                          json{{"prompt", "x"}, {"max_tokens", 50}, {"stream", true}}.dump()) +
              RequestText("POST", "/tokenize", R"({"prompt":"abc"})") +
              RequestText("GET", "/health"));
  EXPECT_GT(client.ReadReply().Events().size(), 1u);
  EXPECT_EQ(client.ReadReply().Json()["count"], 3);
  EXPECT_EQ(client.ReadReply().Json()["status"], "ok");
  client.Send(RequestText("GET", "/health", "", {{"Connection", "close"}}));
  EXPECT_EQ(client.ReadReply().headers.at("connection"), "close");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(LimitsTest, ContinueIsSaidToWhoWaitsForIt) {
  StartServer();
  HttpClient client(port_);
  const std::string request =
      RequestText("POST", "/tokenize", R"({"prompt":"abc"})", {{"Expect", "100-continue"}});
  const size_t body = request.find("\r\n\r\n") + 4;
  client.Send(request.substr(0, body));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send(request.substr(body));
  EXPECT_EQ(client.ReadReply().Json()["count"], 3);
}

TEST_F(LimitsTest, OldClientsGetStreamsToTheEnd) {
  StartServer();
  HttpClient client(port_);
  std::string request = RequestText(
      "POST", "/v1/completions", json{{"prompt", "x"}, {"max_tokens", 5}, {"stream", true}}.dump());
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  client.Send(request);
  const HttpReply reply = client.ReadReply();
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_GE(reply.Events().size(), 1u);
}

// ---- The end

TEST_F(LimitsTest, ShutdownLetsWhatRunsFinish) {
  StartServer();
  HttpClient streaming(port_), idle(port_);
  json body = LongRequest();
  body["stream"] = true;
  streaming.Send(RequestText("POST", "/v1/completions", body.dump()));
  streaming.ReadUntil("data: ");
  std::future<bool> drained = std::async([this] { return server_->Shutdown(); });
  const std::string rest = streaming.ReadUntil("[DONE]");
  EXPECT_THAT(rest, HasSubstr("\"finish_reason\":\"length\""));
  streaming.Close();
  EXPECT_TRUE(idle.ReadsEnd());
  EXPECT_TRUE(drained.get());
  EXPECT_THAT(Log(), ContainsRegex("/v1/completions 200"));
}

TEST_F(LimitsTest, ShutdownDoesNotWaitForever) {
  ServerOptions options;
  options.limits.drain_timeout = milliseconds(100);
  StartServer(options);
  HoldEngine();
  HttpClient client(port_);
  client.Send(RequestText("POST", "/v1/completions", LongRequest().dump()));
  ASSERT_TRUE(Eventually([&] { return Waiting() == 1; }));
  EXPECT_FALSE(server_->Shutdown());
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(LogComesToHold("shut-down"));
  EXPECT_EQ(Waiting(), 0);
}

TEST_F(LimitsTest, AServerThatIsDestroyedLeavesNothingBehind) {
  StartServer();
  std::vector<HttpClient> clients;
  for (int i = 0; i < 10; ++i) {
    clients.emplace_back(port_);
    json body = LongRequest(std::to_string(i));
    body["stream"] = i % 2 == 0;
    clients.back().Send(RequestText("POST", "/v1/completions", body.dump()));
  }
  ASSERT_TRUE(Eventually([&] { return engine_->Stats().generated_tokens > 0; }));
  server_.reset();
  EXPECT_TRUE(EngineBecomesIdle());
  // The engine serves on, and so does another server.
  StartOnEngine({});
  EXPECT_EQ(Post("/v1/completions", {{"prompt", "x"}, {"max_tokens", 2}}).status, 200);
}

TEST_F(LimitsTest, OptionsThatCannotBeAreNamed) {
  StartServer();
  const auto error = [&](auto change) {
    ServerOptions options;
    options.port = 0;
    change(options);
    const auto server = Server::Start(*engine_, options);
    return server.ok() ? "no error" : std::string(server.status().message());
  };
  EXPECT_THAT(error([&](ServerOptions& o) { o.port = port_; }), HasSubstr("cannot listen on"));
  EXPECT_THAT(error([](ServerOptions& o) { o.address = "example.org"; }),
              HasSubstr("IP address or localhost"));
  EXPECT_THAT(error([](ServerOptions& o) { o.port = 70000; }), HasSubstr("[0, 65535]"));
  EXPECT_THAT(error([](ServerOptions& o) { o.limits.max_connections = 0; }),
              HasSubstr("max-connections must be in"));
  EXPECT_THAT(error([](ServerOptions& o) { o.limits.max_body_bytes = 1 << 30; }),
              HasSubstr("max-body-bytes must be in"));
  EXPECT_THAT(error([](ServerOptions& o) { o.api_keys = {""}; }), HasSubstr("API key"));
  EXPECT_EQ(error([](ServerOptions& o) { o.address = "::1"; }), "no error");
}

}  // namespace
}  // namespace isobit
