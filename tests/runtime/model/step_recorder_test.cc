// Which steps are run as they are, recorded, and replayed.

#include "runtime/model/step_recorder.h"

#include <gtest/gtest.h>

#include "kernels/reference/backend.h"

namespace isobit {
namespace {

// Keeps what is issued while it records, and counts.
class RecordingBackend : public reference::ReferenceBackend {
 public:
  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override {
    if (lacks_memory) return nullptr;
    ++recorded;
    is_recording_ = true;
    issue();
    is_recording_ = false;
    return std::make_unique<Recorded>(generation);
  }
  bool Replay(const Recording& recording) override {
    if (static_cast<const Recorded&>(recording).generation != generation) return false;
    ++replayed;
    return true;
  }
  void Issue() { eager += is_recording_ ? 0 : 1; }

  int recorded = 0, replayed = 0, eager = 0, generation = 0;
  bool lacks_memory = false;

 private:
  struct Recorded : Recording {
    explicit Recorded(int made_in) : generation(made_in) {}
    int generation;
  };
  bool is_recording_ = false;
};

class StepRecorderTest : public testing::Test {
 protected:
  void Run(int64_t rows) {
    recorder_.Run({.rows = rows, .sequences = rows}, [this] { backend_.Issue(); });
  }
  void ExpectCounts(int eager, int recorded, int replayed) const {
    EXPECT_EQ(backend_.eager, eager);
    EXPECT_EQ(backend_.recorded, recorded);
    EXPECT_EQ(backend_.replayed, replayed);
    EXPECT_EQ(recorder_.replayed(), replayed);
  }

  RecordingBackend backend_;
  StepRecorder recorder_{backend_};
};

TEST_F(StepRecorderTest, TheSecondStepOfAShapeIsRecorded) {
  Run(3);
  ExpectCounts(1, 0, 0);
  Run(3);
  ExpectCounts(1, 1, 1);
  Run(3);
  ExpectCounts(1, 1, 2);
  Run(4);
  ExpectCounts(2, 1, 2);
}

TEST_F(StepRecorderTest, EveryNumberOfAShapeCounts) {
  const StepShape shapes[] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}};
  for (const StepShape& shape : shapes) {
    recorder_.Run(shape, [this] { backend_.Issue(); });
  }
  ExpectCounts(5, 0, 0);
}

TEST_F(StepRecorderTest, OutOfDateRecordingsAreMadeAnew) {
  Run(1);
  Run(1);
  backend_.generation = 1;
  Run(1);
  ExpectCounts(1, 2, 2);
}

TEST_F(StepRecorderTest, RunsWhatCanNotBeRecorded) {
  Run(1);
  backend_.lacks_memory = true;
  Run(1);
  Run(1);
  ExpectCounts(3, 0, 0);
  backend_.lacks_memory = false;
  Run(1);
  ExpectCounts(3, 1, 1);
}

TEST_F(StepRecorderTest, ForgetsTheShapeThatWasNotUsedForLongest) {
  for (int64_t rows = 0; rows < static_cast<int64_t>(StepRecorder::kMaxShapes); ++rows) Run(rows);
  Run(0);
  Run(1000);  // in the place of 1
  const int eager = backend_.eager;
  Run(0);
  EXPECT_EQ(backend_.eager, eager);
  Run(1);
  EXPECT_EQ(backend_.eager, eager + 1);
}

}  // namespace
}  // namespace isobit
