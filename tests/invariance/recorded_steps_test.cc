// Case 14 without a GPU: a backend that replays recorded operations exactly as they were recorded,
// with the numbers of then and the memory of now, as a CUDA graph does.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/reference/backend.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

class ReplayingBackend : public reference::ReferenceBackend {
 public:
  // The engine lets GPUs record.
  DeviceInfo Info() const override {
    DeviceInfo info = ReferenceBackend::Info();
    info.kind = "cuda";
    return info;
  }

  void Run(const Embed& op) override { RunOrRecord(op); }
  void Run(const RmsNorm& op) override { RunOrRecord(op); }
  void Run(const Gemm& op) override { RunOrRecord(op); }
  void Run(const RopeKvWrite& op) override { RunOrRecord(op, op.batch); }
  void Run(const Attention& op) override { RunOrRecord(op, op.batch); }
  void Run(const ScoreTokens& op) override { RunOrRecord(op); }
  void Run(const SampleTokens& op) override { RunOrRecord(op); }

  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override {
    auto recorded = std::make_unique<Recorded>();
    recording_ = recorded.get();
    issue();
    recording_ = nullptr;
    return recorded;
  }
  bool Replay(const Recording& recording) override {
    for (const auto& operation : static_cast<const Recorded&>(recording).operations) operation();
    return true;
  }

 private:
  struct Recorded : Recording {
    std::vector<std::function<void()>> operations;
  };

  template <typename Op>
  void RunOrRecord(const Op& op) {
    if (recording_ == nullptr) return ReferenceBackend::Run(op);
    recording_->operations.push_back([this, op] { ReferenceBackend::Run(op); });
  }
  // The batch is the caller's: it is copied too.
  template <typename Op>
  void RunOrRecord(const Op& op, const RowBatch* batch) {
    if (recording_ == nullptr) return ReferenceBackend::Run(op);
    recording_->operations.push_back([this, op, copy = *batch] {
      Op with_copy = op;
      with_copy.batch = &copy;
      ReferenceBackend::Run(with_copy);
    });
  }

  Recorded* recording_ = nullptr;
};

std::unique_ptr<EngineCore> MakeReplayingCore(const EngineOptions& options) {
  auto model = Model::Load(WriteTinyModel(), std::make_unique<ReplayingBackend>());
  EXPECT_TRUE(model.ok()) << model.status();
  auto engine = EngineCore::Create(*std::move(model), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

// Requests that end one after the other, so that there are steps of every number of sequences, with
// page tables that grow; and again, in an engine that has recorded all shapes.
TEST(RecordedSteps, GiveTheBitsOfEagerOnes) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 7; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(300 + i, 3 + 9 * i)));
    requests.back().sampling.max_tokens = 5 + 6 * i;
    if (i % 2 == 1) requests.back().sampling.temperature = 1;
  }
  const std::vector<Outcome> alone = RunAlone(requests, {}, "reference");
  EngineOptions options = {
      .max_num_seqs = 8, .block_size = 16, .kv_cache_tokens = 4096, .prefix_cache = false};
  for (const bool eager : {false, true}) {
    options.enforce_eager = eager;
    const auto engine = MakeReplayingCore(options);
    for (int run = 0; run < 2; ++run) {
      const int64_t before = engine->Stats().replayed_steps;
      EXPECT_EQ(Difference(alone, RunTogether(*engine, requests)), "") << "run " << run;
      const int64_t replayed = engine->Stats().replayed_steps - before;
      if (eager) {
        EXPECT_EQ(replayed, 0);
      } else {
        EXPECT_GT(replayed, 10) << "run " << run;
      }
    }
  }
}

// Preempted sequences come back with other pages, at other places of the batch.
TEST(RecordedSteps, UnderPreemption) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(400 + i, 20 + i)));
    requests.back().sampling.max_tokens = 40;
  }
  const std::vector<Outcome> alone = RunAlone(requests, {}, "reference");
  const auto engine = MakeReplayingCore(
      {.max_num_seqs = 6, .block_size = 16, .kv_cache_tokens = 208, .prefix_cache = false});
  EXPECT_EQ(Difference(alone, RunTogether(*engine, requests, {.poison_free_pages = true})), "");
  EXPECT_GT(engine->Stats().preemptions, 0);
  EXPECT_GT(engine->Stats().replayed_steps, 10);
}

}  // namespace
}  // namespace isobit
