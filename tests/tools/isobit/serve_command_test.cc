// `isobit serve` as a process of its own, and programs that people put around it: the openai
// client, nginx, promtool.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/runtime/server/http_client.h"
#include "tests/tiny_model.h"
#include "tests/tools/isobit/nginx_config.h"
#include "tests/tools/isobit/serve_fixture.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

sockaddr_in Local(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// One that nobody has now; asked to choose, nginx does not say which it took.
int FreePort() {
  sockaddr_in address = Local(0);
  socklen_t size = sizeof(address);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

bool IsListening(int port) {
  const sockaddr_in address = Local(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

class ServeCommandTest : public ServeTest {
 protected:
  void SetUp() override { model_ = WriteTinyModel(); }
};

TEST_F(ServeCommandTest, AnswersAsBatchDoes) {
  const std::string request = R"({"id":"a","prompt":"Hello","max_tokens":9,"seed":4,"logprobs":1})";
  const json batch = Batch(request + "\n")[0];
  const Served served = Serve();
  EXPECT_EQ(served.url, absl::StrCat("http://127.0.0.1:", served.port));
  EXPECT_EQ(Post(served.port, "/generate", json::parse(request)).Json()["digest"], batch["digest"]);
  EXPECT_EQ(Post(served.port, "/v1/completions",
                 {{"prompt", "Hello"}, {"max_tokens", 9}, {"seed", 4}, {"model", "served"}})
                .Json()["choices"][0]["text"],
            batch["choices"][0]["text"]);
}

TEST_F(ServeCommandTest, SigtermFinishesWhatRuns) {
  const Served served = Serve();
  HttpClient client(served.port);
  client.Send(RequestText(
      "POST", "/v1/completions",
      json{{"prompt", "Hello"}, {"max_tokens", 2000}, {"ignore_eos", true}, {"stream", true}}
          .dump()));
  client.ReadUntil("data: ");
  served.process->Signal(SIGTERM);
  EXPECT_THAT(client.ReadUntil("[DONE]"), HasSubstr("\"finish_reason\":\"length\""));
  const ProcessResult result = served.process->Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("shutting down"));
}

TEST_F(ServeCommandTest, KeysComeFromAFile) {
  const std::string keys = folder_.Write("keys", "one\n\ntwo \n");
  const Served served = Serve({"--api-key-file", keys});
  EXPECT_EQ(Ask(served.port, "GET", "/v1/models").status, 401);
  for (const char* key : {"one", "two"}) {
    EXPECT_EQ(
        Ask(served.port, "GET", "/v1/models", "", {{"Authorization", absl::StrCat("Bearer ", key)}})
            .status,
        200);
  }
  const ProcessResult empty =
      Run("serve", {"--api-key-file", folder_.Write("empty", "\n"), "--port", "0"});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.err, HasSubstr("holds no key"));
}

TEST_F(ServeCommandTest, WrongUseIsNamed) {
  const Served served = Serve();
  const ProcessResult taken = Run("serve", {"--port", std::to_string(served.port)});
  EXPECT_EQ(taken.exit_code, 3);
  EXPECT_THAT(taken.err, HasSubstr("cannot listen on 127.0.0.1 port"));
  const ProcessResult admin = Run("serve", {"--admin", "nonsense", "--port", "0"});
  EXPECT_EQ(admin.exit_code, 2);
  EXPECT_THAT(admin.err, HasSubstr("--admin must be HOST:PORT, got nonsense"));
}

TEST_F(ServeCommandTest, TheOpenAiClientIsAtHome) {
  const std::string python = ProgramPath(kOpenAiPython);
  ASSERT_TRUE(std::filesystem::exists(python)) << "run tools/setup.sh";
  const std::string keys = folder_.Write("keys", "a-key\n");
  const Served served = Serve({"--api-key-file", keys});
  const ProcessResult result = RunProcess(
      folder_,
      {python, ISOBIT_SOURCE_DIR "/tests/tools/isobit/openai_client.py", served.url, "a-key"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "all is well\n");
}

TEST_F(ServeCommandTest, PromtoolAcceptsTheMetrics) {
  const std::string promtool = ProgramPath(kPromtool);
  ASSERT_TRUE(std::filesystem::exists(promtool)) << "run tools/setup.sh";
  const Served served = Serve();
  Post(served.port, "/v1/completions", {{"prompt", "Hello"}, {"max_tokens", 5}});
  Ask(served.port, "GET", "/nowhere");
  const std::string metrics = Ask(served.port, "GET", "/metrics").body;
  const ProcessResult result = RunProcess(folder_, {promtool, "check", "metrics"}, metrics);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.out + result.err, "") << "nothing to lint";
}

// Two replicas with other limits, threads and cache: whoever answers, the answer is the same.
TEST_F(ServeCommandTest, ReplicasBehindNginxAreOne) {
  const std::string nginx = ProgramPath(kNginx);
  ASSERT_TRUE(std::filesystem::exists(nginx)) << "run tools/setup.sh";
  const Served one = Serve({"--threads", "1", "--max-num-seqs", "2", "--block-size", "16"});
  const Served two =
      Serve({"--threads", "2", "--no-prefix-cache", "--max-num-batched-tokens", "16"});
  const std::string folder = folder_.Path("");
  const int port = FreePort();
  const std::string config = folder_.Write(
      "nginx.conf",
      NginxConfig(folder,
                  absl::StrCat("  upstream isobit {\n    server 127.0.0.1:", one.port,
                               ";\n    server 127.0.0.1:", two.port,
                               ";\n  }\n  server {\n    listen 127.0.0.1:", port,
                               ";\n    location / {\n      proxy_pass http://isobit;\n"
                               "      proxy_http_version 1.1;\n      proxy_set_header Host $host;\n"
                               "      proxy_buffering off;\n    }\n  }\n")));
  const Process proxy(folder_, {nginx, "-c", config, "-e", "stderr", "-p", folder});
  bool ready = false;
  for (int i = 0; i < 500 && !ready; ++i) {
    usleep(10000);
    ready = IsListening(port);
  }
  ASSERT_TRUE(ready) << "nginx does not listen";
  for (int i = 0; i < 6; ++i) {
    const json request = {{"prompt", absl::StrCat("replica ", i)},
                          {"max_tokens", 12},
                          {"temperature", i % 2 == 0 ? 0.0 : 0.9},
                          {"seed", i},
                          {"logprobs", 1}};
    json streamed = request;
    streamed["stream"] = true;
    std::set<std::string> digests;
    for (int again = 0; again < 4; ++again) {  // nginx takes turns
      digests.insert(Post(port, "/v1/completions", request).Json()["digest"]);
      digests.insert(Post(port, "/v1/completions", streamed).Events().back()["digest"]);
    }
    EXPECT_EQ(digests.size(), 1u) << i;
  }
  // Both did work.
  for (const Served* served : {&one, &two}) {
    const std::string metrics = Ask(served->port, "GET", "/metrics").body;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(
        metrics, match, std::regex(R"re(path="/v1/completions",status="200"\} (\d+))re")));
    EXPECT_GE(std::stoi(match[1]), 12) << served->url;
  }
}

// What the element with this id says in a page that a browser has written out.
std::string TextOf(const std::string& page, const std::string& id) {
  std::smatch match;
  const std::regex element(absl::StrCat("id=\"", id, "\"[^>]*>([^<]*)<"));
  return std::regex_search(page, match, element) ? match[1].str() : "there is no " + id;
}

class PageTest : public ServeCommandTest {
 protected:
  void SetUp() override {
    ServeCommandTest::SetUp();
    if (!std::filesystem::exists(kChromium)) GTEST_SKIP() << "run tools/setup.sh --browser";
  }

  // The page as a phone's browser has it once all is loaded and done.
  std::string Load(const std::string& url) {
    const ProcessResult result = RunProcess(
        folder_,
        {kChromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
         absl::StrCat("--user-data-dir=", folder_.Path("profile")), "--window-size=390,844",
         "--virtual-time-budget=20000", "--timeout=60000", "--dump-dom", url});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  static constexpr char kChromium[] = "/usr/bin/chromium";
};

TEST_F(PageTest, ShowsEqualDigests) {
  const Served served = Serve();
  const std::string page = Load(absl::StrCat(served.url, "/#ask"));
  EXPECT_THAT(TextOf(page, "model"), HasSubstr("served \u00b7 isobit-"));
  EXPECT_THAT(TextOf(page, "verdict"), HasSubstr("Equal: the same ids"));
  EXPECT_EQ(TextOf(page, "alone_digest").size(), 32u);
  EXPECT_EQ(TextOf(page, "alone_digest"), TextOf(page, "company_digest"));
  EXPECT_EQ(TextOf(page, "alone"), TextOf(page, "company"));
  EXPECT_EQ(TextOf(page, "trouble"), "");
  EXPECT_THAT(TextOf(page, "hits"), HasSubstr("%"));
  EXPECT_EQ(TextOf(page, "running"), "0");
}

// Nothing is wider than a phone, with the longest words that may stand there, and what is to be
// touched is as high as a finger.
TEST_F(PageTest, FitsAPhone) {
  const std::string page =
      absl::StrReplaceAll(TempFolder::Read(ISOBIT_SOURCE_DIR "/runtime/server/page.html"),
                          {{"&", "&amp;"}, {"\"", "&quot;"}});
  // A browser's own window has a least width that is more than a phone's.
  const std::string file = folder_.Write("phone.html", absl::StrCat(R"html(<!doctype html>
<p id="probe"></p>
<script>
function probe(phone) {
  const page = phone.contentDocument;
  for (const id of ['model', 'alone_digest', 'alone', 'company', 'verdict', 'trouble'])
    page.getElementById(id).textContent = 'w'.repeat(300);
  page.getElementById('key_label').hidden = false;
  const heights = [...page.querySelectorAll('button, input, textarea')].map(e => e.offsetHeight);
  document.getElementById('probe').textContent =
      page.documentElement.scrollWidth + ',' + Math.min(...heights);
}
</script>
<iframe width="360" height="800" style="border: 0" onload="probe(this)" srcdoc=")html",
                                                                    page, "\"></iframe>"));
  const std::string probed = TextOf(Load(absl::StrCat("file://", file)), "probe");
  int widest = 0, lowest = 0;
  ASSERT_EQ(std::sscanf(probed.c_str(), "%d,%d", &widest, &lowest), 2) << probed;
  EXPECT_GT(widest, 300);
  EXPECT_LE(widest, 360);
  EXPECT_GE(lowest, 40);
}

// Whoever is killed, whenever: the other side goes on, or a new server does.
TEST_F(ServeCommandTest, KillingEitherSideLeavesNothingBroken) {
  const json request = {{"prompt", "Hello"}, {"max_tokens", 12}, {"temperature", 0}};
  std::string digest;
  {
    const Served served = Serve();
    digest = Post(served.port, "/v1/completions", request).Json()["digest"];
    {
      const std::string url = absl::StrCat("/dev/tcp/127.0.0.1/", served.port);
      const std::string text =
          RequestText("POST", "/v1/completions",
                      R"({"prompt":"x","max_tokens":3000,"ignore_eos":true,"stream":true})");
      Process client(folder_, {"/bin/bash", "-c",
                               absl::StrCat("exec 3<>", url, "; cat ", folder_.Write("text", text),
                                            " >&3; cat <&3")});
      EXPECT_TRUE(client.WaitForOutput(
          [](const std::string& out) { return out.find("data: ") != std::string::npos; }));
    }  // killed
    EXPECT_EQ(Post(served.port, "/v1/completions", request).Json()["digest"], digest);
    served.process->Signal(SIGKILL);
    EXPECT_EQ(served.process->Wait().signal, SIGKILL);
  }
  const Served again = Serve();
  EXPECT_EQ(Post(again.port, "/v1/completions", request).Json()["digest"], digest);
}

}  // namespace
}  // namespace isobit
