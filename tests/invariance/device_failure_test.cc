// A device that fails, at any moment: every request that was running ends with an error that names
// it, later ones are refused with the same, and nothing hangs or touches memory that is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/invariance/tiny_engine.h"
#include "tests/late_backend.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

class BreakingBackend : public LateBackend {
 public:
  // The wait with this number, counted from here on, and all behind it fail.
  void BreakAfterWaits(int64_t count) { waits_left_ = count; }

  absl::Status Synchronize() override {
    if (absl::Status s = Check(); !s.ok()) return s;
    return LateBackend::Synchronize();
  }
  absl::Status Wait(Fence fence) override {
    if (absl::Status s = Check(); !s.ok()) return s;
    return LateBackend::Wait(fence);
  }

 private:
  absl::Status Check() {
    if (waits_left_ < 0) return absl::OkStatus();
    if (waits_left_ > 0) --waits_left_;
    return waits_left_ > 0 ? absl::OkStatus() : absl::InternalError("the device was lost");
  }

  std::atomic<int64_t> waits_left_ = -1;  // negative: forever
};

// Returns how many of the requests ended well.
int RunUntilFailure(int64_t waits, bool async) {
  auto owned = std::make_unique<BreakingBackend>();
  BreakingBackend& backend = *owned;
  auto model = Model::Load(WriteTinyModel(), std::move(owned));
  EXPECT_TRUE(model.ok()) << model.status();
  auto engine = Engine::Create(*std::move(model),
                               {.max_num_seqs = 3, .block_size = 16, .async_scheduling = async});
  EXPECT_TRUE(engine.ok()) << engine.status();
  backend.BreakAfterWaits(waits);
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) {
    PreparedRequest request = MakeRequest(absl::StrCat("r", i), Tokens(20 + i, 5 + 4 * i));
    request.sampling.max_tokens = 3 + 2 * i;
    if (i == 4) request.sampling.prompt_logprobs = 1;
    requests.push_back(AsRequest(request));
  }
  int good = 0;
  for (const auto& completion : (*engine)->Generate(requests)) {
    good += completion.ok();
    if (!completion.ok()) {
      EXPECT_THAT(completion.status().message(), HasSubstr("the device was lost"));
    }
  }
  (*engine)->Drain();
  EXPECT_THAT((*engine)->status().message(), HasSubstr("the device was lost"));
  const auto late = (*engine)->Submit(requests[0], {});
  EXPECT_THAT(late.status().message(), HasSubstr("the device was lost"));
  return good;
}

TEST(DeviceFailure, EndsWhatWasRunningAndNothingElse) {
  for (const bool async : {false, true}) {
    int most = 0;
    for (int64_t waits = 1; waits <= 24; ++waits) {
      SCOPED_TRACE(absl::StrCat(async ? "issued ahead, " : "one by one, ", waits, " waits"));
      const int good = RunUntilFailure(waits, async);
      if (waits == 1) {
        EXPECT_EQ(good, 0);
      }
      most = std::max(most, good);
    }
    EXPECT_GE(most, 2);
  }
}

}  // namespace
}  // namespace isobit
