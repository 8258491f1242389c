// What is timed of operations that run at once, and of those that are recorded and replayed.

#include "kernels/profiling_backend.h"

#include <gtest/gtest.h>

#include "kernels/reference/backend.h"

namespace isobit {
namespace {

// A device with a clock that goes on by `norm_ticks` at each norm, and can record norms.
class FakeDevice : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::Run;
  void Run(const RmsNorm& /*op*/) override {
    if (trace_ != nullptr) {
      trace_->steps.push_back({.norms = 1});
    } else {
      now_ += norm_ticks;
    }
  }
  void Run(const Attention& /*op*/) override {}
  std::unique_ptr<Moment> Mark() override {
    auto moment = std::make_unique<Tick>();
    if (trace_ != nullptr) {
      trace_->steps.push_back({.moment = moment.get()});
    } else {
      moment->tick = now_;
    }
    return moment;
  }
  double SecondsBetween(const Moment& begin, const Moment& end) const override {
    return static_cast<const Tick&>(end).tick - static_cast<const Tick&>(begin).tick;
  }
  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override {
    if (!can_record) return nullptr;
    auto trace = std::make_unique<Trace>();
    trace_ = trace.get();
    issue();
    trace_ = nullptr;
    return trace;
  }
  bool Replay(const Recording& recording) override {
    if (!can_replay) return false;
    for (const Trace::Step& step : static_cast<const Trace&>(recording).steps) {
      now_ += step.norms * norm_ticks;
      if (step.moment != nullptr) step.moment->tick = now_;
    }
    return true;
  }

  int norm_ticks = 1;
  bool can_record = true, can_replay = true;

 private:
  struct Tick : Moment {
    int tick = 0;
  };
  struct Trace : Recording {
    struct Step {
      int norms = 0;
      Tick* moment = nullptr;
    };
    std::vector<Step> steps;
  };
  int now_ = 0;
  Trace* trace_ = nullptr;
};

class ProfilingBackendTest : public testing::Test {
 protected:
  ProfilingBackendTest() {
    auto device = std::make_unique<FakeDevice>();
    device_ = device.get();
    backend_ = std::make_unique<ProfilingBackend>(std::move(device));
  }
  void Norm() { backend_->Run(RmsNorm{.rows = 2, .width = 8}); }
  void ExpectNorms(int64_t calls, double seconds) {
    const std::vector<OperationProfile> profiles = backend_->Take();
    if (calls == 0) {
      EXPECT_TRUE(profiles.empty());
      return;
    }
    ASSERT_EQ(profiles.size(), 1u);
    EXPECT_EQ(profiles[0].name, "RMSNorm");
    EXPECT_EQ(profiles[0].calls, calls);
    EXPECT_EQ(profiles[0].seconds, seconds);
    EXPECT_EQ(profiles[0].bytes, static_cast<double>(calls) * 2 * (2 * 2 * 8 + 8));
  }

  FakeDevice* device_;
  std::unique_ptr<ProfilingBackend> backend_;
};

TEST_F(ProfilingBackendTest, TimesAreThereOnceTheDeviceIsDone) {
  Norm();
  device_->norm_ticks = 5;
  Norm();
  ExpectNorms(0, 0);
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(2, 6);
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(0, 0);
}

TEST_F(ProfilingBackendTest, EveryReplayCounts) {
  Norm();
  const auto recording = backend_->Record([this] { Norm(), Norm(); });
  ASSERT_NE(recording, nullptr);
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(1, 1);  // a recording alone runs nothing
  ASSERT_TRUE(backend_->Replay(*recording));
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(2, 2);
  device_->norm_ticks = 3;
  ASSERT_TRUE(backend_->Replay(*recording));
  device_->norm_ticks = 10;
  ASSERT_TRUE(backend_->Replay(*recording));  // overwrites the moments of the one before
  Norm();
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(5, 6 + 20 + 10);
}

TEST_F(ProfilingBackendTest, ARecordingMayGoBeforeItsTimesAreRead) {
  auto recording = backend_->Record([this] { Norm(); });
  ASSERT_TRUE(backend_->Replay(*recording));
  recording.reset();
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(1, 1);
}

TEST_F(ProfilingBackendTest, WhatWasNotRecordedOrReplayedIsNotTimed) {
  const auto recording = backend_->Record([this] { Norm(); });
  device_->can_replay = false;
  EXPECT_FALSE(backend_->Replay(*recording));
  device_->can_record = false;
  EXPECT_EQ(backend_->Record([this] { Norm(); }), nullptr);
  ASSERT_TRUE(backend_->Synchronize().ok());
  ExpectNorms(0, 0);
}

TEST_F(ProfilingBackendTest, AttentionCostsByThePositionsOfItsStep) {
  const RowBatch batch = {.rows = 2, .sequences = 1};
  const Attention op = {.batch = &batch, .heads = 1, .kv_heads = 1, .head_dim = 16};
  backend_->Run(op);
  backend_->set_first_position(7);
  ASSERT_TRUE(backend_->Synchronize().ok());
  const std::vector<OperationProfile> profiles = backend_->Take();
  ASSERT_EQ(profiles.size(), 1u);
  EXPECT_EQ(profiles[0].bytes, CostOf(op, 7).bytes);
}

}  // namespace
}  // namespace isobit
