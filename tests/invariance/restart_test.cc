// The same request however often everything is made anew: case 15 from the field. (Restarts of the
// process are a test of the command.)

#include <gtest/gtest.h>

#include <set>

#include "invariance/workload.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

// Twenty times the file is read, weights packed, memory planned, threads started.
TEST(Restart, Case15TwentyTimes) {
  const std::string path = WriteTinyModel();
  std::vector<PreparedRequest> requests;
  std::vector<Outcome> first;
  std::set<std::string> models;
  for (int i = 0; i < 20; ++i) {
    auto model = Model::Load(path, MakeBackend(i % 10 == 9 ? "reference" : "cpu"));
    ASSERT_TRUE(model.ok()) << model.status();
    models.insert((*model)->digest().ToHex());
    if (requests.empty()) {
      auto workload = MakeWorkload(**model, {});
      ASSERT_TRUE(workload.ok()) << workload.status();
      requests = *std::move(workload);
    }
    auto engine = EngineCore::Create(*std::move(model), {.prefix_cache = i % 2 == 0});
    ASSERT_TRUE(engine.ok()) << engine.status();
    const std::vector<Outcome> got = RunTogether(**engine, requests);
    if (i == 0) first = got;
    EXPECT_EQ(Difference(first, got), "") << i;
  }
  EXPECT_EQ(models.size(), 1u);
}

// A model handed from engine to engine keeps nothing of the requests before.
TEST(Restart, ModelIsHandedOn) {
  const std::vector<PreparedRequest> requests = {MakeRequest("a", Tokens(1, 40)),
                                                 MakeRequest("b", Tokens(2, 3))};
  const std::vector<Outcome> alone = RunAlone(requests);
  std::unique_ptr<Model> model = LoadTiny();
  for (int64_t block : {16, 64, 16}) {
    auto engine = EngineCore::Create(std::move(model), {.block_size = block});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(Difference(alone, RunTogether(**engine, requests)), "");
    // Requests that are left behind get their answer.
    bool cancelled = false;
    PreparedRequest left = MakeRequest("left", Tokens(3, 5));
    left.handle = 99;
    left.callbacks.on_done = [&](const absl::StatusOr<Completion>& c) {
      cancelled = absl::IsCancelled(c.status());
    };
    (*engine)->Add(std::move(left));
    ASSERT_TRUE((*engine)->Step().ok());
    model = EngineCore::TakeModel(*std::move(engine));
    EXPECT_TRUE(cancelled);
    ASSERT_NE(model, nullptr);
  }
}

}  // namespace
}  // namespace isobit
