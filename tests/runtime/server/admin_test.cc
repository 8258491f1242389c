// The verbs of an administrator, on an address of their own.

#include "runtime/server/http.h"
#include "tests/runtime/server/server_fixture.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

class AdminTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.admin_address = "127.0.0.1";
    options.load_model = [](const std::string& path) {
      return Model::Load(path, MakeBackend("cpu"));
    };
    StartServer(options, {.max_num_seqs = 4, .block_size = 16});
    admin_port_ = server_->admin_port();
  }
  HttpReply Admin(const std::string& verb, const json& body = json::object()) {
    return isobit::Post(admin_port_, verb, body);
  }
  json Complete(const std::string& prompt) {
    return Post("/v1/completions", {{"prompt", prompt}, {"max_tokens", 8}, {"temperature", 0}})
        .Json();
  }
  // A request that is under way.
  HttpClient Begin(const std::string& id) {
    HttpClient client(port_);
    client.Send(
        RequestText("POST", "/v1/completions", LongRequest(id).dump(), {{"X-Request-Id", id}}));
    return client;
  }

  int admin_port_ = 0;
};

TEST_F(AdminTest, VerbsAreNotOnThePublicAddress) {
  EXPECT_NE(admin_port_, port_);
  for (const char* verb : {"/pause", "/continue", "/flush", "/abort", "/update_weights"}) {
    EXPECT_EQ(Post(verb, json::object()).status, 404) << verb;
    EXPECT_EQ(Ask(admin_port_, "GET", verb).status, 405) << verb;
  }
  EXPECT_EQ(Ask(admin_port_, "GET", "/health").status, 200);
  EXPECT_EQ(Ask(admin_port_, "POST", "/v1/completions", "{}").status, 404);
  EXPECT_THAT(Admin("/pause", {{"x", 1}}).Error(), HasSubstr("unknown field \"x\""));
  EXPECT_THAT(Admin("/abort").Error(), HasSubstr("request_id"));
  EXPECT_THAT(Admin("/abort", {{"request_id", 5}}).Error(), HasSubstr("request_id must be"));
}

TEST_F(AdminTest, PauseHoldsAndContinueGoesOn) {
  const json expected = Complete("hold on");
  EXPECT_EQ(Ask(admin_port_, "POST", "/pause").Json()["paused"], true);
  HttpClient client(port_);
  client.Send(
      RequestText("POST", "/v1/completions",
                  json{{"prompt", "hold on"}, {"max_tokens", 8}, {"temperature", 0}}.dump()));
  ASSERT_TRUE(Eventually([&] { return engine_->Stats().waiting == 1; }));
  EXPECT_THAT(Get("/metrics").body, HasSubstr("isobit_paused 1\n"));
  EXPECT_EQ(Admin("/continue").Json()["paused"], false);
  EXPECT_EQ(client.ReadReply().Json()["digest"], expected["digest"]);
}

TEST_F(AdminTest, FlushForgetsPrefixes) {
  const std::string prompt(100, 'p');
  Complete(prompt);
  EXPECT_GT(Complete(prompt)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(Admin("/flush").Json()["kv_pages_cached"], 0);
  EXPECT_EQ(Complete(prompt)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(AdminTest, AbortEndsOneOrAll) {
  HttpClient one = Begin("one"), two = Begin("two"), three = Begin("three");
  ASSERT_TRUE(Eventually([&] { return engine_->Stats().running == 3; }));
  EXPECT_EQ(Admin("/abort", {{"request_id", "none"}}).Json()["aborted"], 0);
  EXPECT_EQ(Admin("/abort", {{"request_id", "two"}}).Json()["aborted"], 1);
  const json aborted = two.ReadReply().Json();
  EXPECT_EQ(aborted["choices"][0]["finish_reason"], "cancelled");
  EXPECT_LT(aborted["usage"]["completion_tokens"], 3000);
  EXPECT_EQ(Admin("/abort", {{"all", true}}).Json()["aborted"], 2);
  EXPECT_EQ(one.ReadReply().Json()["choices"][0]["finish_reason"], "cancelled");
  EXPECT_EQ(three.ReadReply().Json()["choices"][0]["finish_reason"], "cancelled");
  EXPECT_TRUE(EngineBecomesIdle());
}

TEST_F(AdminTest, NewWeightsAreAnotherModel) {
  const std::string prompt(100, 'w');
  const json before = Complete(prompt);
  Complete(prompt);  // cached
  const std::string path = WriteTinyModel({.seed = 2});
  const json state = Admin("/update_weights", {{"path", path}}).Json();
  const json after = Complete(prompt);
  EXPECT_NE(after["digest"], before["digest"]);
  EXPECT_NE(after["system_fingerprint"], before["system_fingerprint"]);
  EXPECT_THAT(after["system_fingerprint"].get<std::string>(),
              HasSubstr(state["model_digest"].get<std::string>()));
  EXPECT_EQ(after["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(Get("/v1/models").Json()["data"][0]["model_digest"], state["model_digest"]);
  EXPECT_THAT(Get("/metrics").body, HasSubstr(state["model_digest"].get<std::string>()));
  // What a server with these weights alone would say.
  const auto fresh = MakeEngine({}, {.seed = 2});
  Request request;
  request.prompt = prompt;
  request.sampling.max_tokens = 8;
  request.sampling.temperature = 0;
  EXPECT_EQ(after["digest"], fresh->Generate({request})[0]->digest.ToHex());
  // And back.
  Admin("/update_weights", {{"path", WriteTinyModel({.seed = 1})}});
  EXPECT_EQ(Complete(prompt)["digest"], before["digest"]);
}

TEST_F(AdminTest, WeightsThatCannotBeLeaveTheOldOnes) {
  const json before = Complete("still here");
  for (const auto& [body, message] : std::vector<std::pair<json, std::string>>{
           {json::object(), "path"},
           {{{"path", 5}}, "path must be"},
           {{{"path", "/nowhere.gguf"}}, "/nowhere.gguf"},
           {{{"path", WriteTinyModel({.layers = 3})}}, "not of the same shape"}}) {
    const HttpReply reply = Admin("/update_weights", body);
    EXPECT_GE(reply.status, 400);
    EXPECT_THAT(reply.Error(), HasSubstr(message));
  }
  EXPECT_EQ(Complete("still here")["digest"], before["digest"]);
}

// A request that would run for long can be aborted while new weights wait for it.
TEST_F(AdminTest, AbortWorksWhileNewWeightsWait) {
  HttpClient running = Begin("long");
  ASSERT_TRUE(Eventually([&] { return engine_->Stats().running == 1; }));
  HttpClient update(admin_port_);
  update.Send(
      RequestText("POST", "/update_weights", json{{"path", WriteTinyModel({.seed = 2})}}.dump()));
  EXPECT_EQ(Admin("/abort", {{"request_id", "long"}}).status, 200);
  EXPECT_EQ(running.ReadReply().status, 200);
  EXPECT_EQ(update.ReadReply().status, 200);
}

}  // namespace
}  // namespace isobit
