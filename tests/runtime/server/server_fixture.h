#ifndef ISOBIT_TESTS_RUNTIME_SERVER_SERVER_FIXTURE_H_
#define ISOBIT_TESTS_RUNTIME_SERVER_SERVER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/server/server.h"
#include "tests/invariance/tiny_engine.h"
#include "tests/runtime/server/http_client.h"

namespace isobit {

// A server on a tiny model, at a free port, in this process.
class ServerTest : public ::testing::Test {
 protected:
  using json = nlohmann::json;

  void StartServer(ServerOptions options = {}, const EngineOptions& engine_options = {}) {
    engine_ = MakeEngine(engine_options);
    StartOnEngine(std::move(options));
  }
  void StartOnEngine(ServerOptions options) {
    options.port = 0;
    options.model_name = "tiny";
    options.build = "isobit test";
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(log_mutex_);
      log_.emplace_back(line);
    };
    auto server = Server::Start(*engine_, std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = server_->port();
  }

  HttpReply Post(const std::string& path, const json& body, const HttpHeaders& headers = {}) {
    return isobit::Post(port_, path, body, headers);
  }
  HttpReply Get(const std::string& path, const HttpHeaders& headers = {}) {
    return Ask(port_, "GET", path, "", headers);
  }

  // Waits, at most a minute.
  template <typename F>
  static bool Eventually(F condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  // Nothing runs, waits or holds pages any more.
  bool EngineBecomesIdle() {
    return Eventually([this] {
      const EngineStats stats = engine_->Stats();
      return stats.running == 0 && stats.waiting == 0 && stats.kv_pages_in_use == 0;
    });
  }
  std::string Log() {
    const std::lock_guard lock(log_mutex_);
    std::string all;
    for (const std::string& line : log_) all += line + "\n";
    return all;
  }
  bool LogComesToHold(const std::string& text) {
    return Eventually([&] { return Log().find(text) != std::string::npos; });
  }

  // Greedy, long enough that a test can do something meanwhile; `prompt` tells requests apart.
  static json LongRequest(const std::string& prompt = "a long one") {
    return {{"prompt", prompt}, {"max_tokens", 3000}, {"temperature", 0}, {"ignore_eos", true}};
  }

  std::mutex log_mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;  // ends before its engine
  int port_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_SERVER_SERVER_FIXTURE_H_
