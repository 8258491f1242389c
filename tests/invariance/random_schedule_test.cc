// Random requests on random engines at random times: whatever the schedule, each gives what it
// gives alone, and after every step the engine's books are in order. A failure names its seed, and
// is shrunk to a small schedule.

#include "invariance/random_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/invariance/faulty_backends.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

TEST(RandomSchedule, EqualsAlone) {
  auto model = LoadTiny();
  ScheduleReport all;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const ScheduleReport report = RunAndCompare(model, MakeRandomSchedule(*model, seed));
    EXPECT_EQ(report.difference, "") << "seed " << seed;
    EXPECT_GT(report.compared, 0);
    all.preemptions += report.preemptions;
    all.cached_tokens += report.cached_tokens;
    all.cancelled += report.cancelled;
  }
  // The schedules must have been of every kind.
  EXPECT_GT(all.preemptions, 50);
  EXPECT_GT(all.cached_tokens, 1000);
  EXPECT_GT(all.cancelled, 20);
}

TEST(RandomSchedule, SurvivesItsFile) {
  const auto model = LoadTiny();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const std::string text = ScheduleToJson(MakeRandomSchedule(*model, seed));
    const auto read = ParseSchedule(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(ScheduleToJson(*read), text);
    EXPECT_EQ(ScheduleToJson(MakeRandomSchedule(*model, seed)), text);
    EXPECT_TRUE(ValidateSchedule(*read, *model).ok());
  }
}

std::unique_ptr<Model> LoadFaulty(std::string_view fault) {
  for (const Fault& f : Faults()) {
    if (f.name != fault) continue;
    auto model = Model::Load(WriteTinyModel({}), f.make());
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  ADD_FAILURE() << "no fault " << fault;
  return nullptr;
}

// From a schedule of many requests to the few that it takes, and from its file the same again.
TEST(RandomSchedule, IsShrunkToAFewRequests) {
  auto model = LoadFaulty("attention that follows a wrong page");
  const auto fails = [&](const RequestSchedule& s) {
    return !RunAndCompare(model, s).difference.empty();
  };
  RequestSchedule schedule;
  uint64_t seed = 0;
  do {
    schedule = MakeRandomSchedule(*model, ++seed);
    ASSERT_LT(seed, 20u);
  } while (schedule.requests.size() < 8 || !fails(schedule));
  const RequestSchedule small = Shrink(schedule, fails);
  EXPECT_TRUE(fails(small));
  // The fault takes three sequences.
  EXPECT_LE(small.requests.size(), 3u);
  size_t tokens = 0, before = 0;
  for (const ScheduledRequest& r : small.requests) tokens += r.request.prompt.size();
  for (const ScheduledRequest& r : schedule.requests) before += r.request.prompt.size();
  EXPECT_LT(tokens, before / 10);

  const auto read = ParseSchedule(ScheduleToJson(small));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RunAndCompare(model, *read).difference, RunAndCompare(model, small).difference);
  auto sound = LoadTiny();
  EXPECT_EQ(RunAndCompare(sound, *read).difference, "");
}

TEST(RandomSchedule, ShrinkingIsBounded) {
  const auto model = LoadTiny();
  int runs = 0;
  Shrink(
      MakeRandomSchedule(*model, 2),
      [&](const RequestSchedule&) {
        ++runs;
        return true;
      },
      25);
  EXPECT_LE(runs, 25);
}

TEST(RandomSchedule, FilesAreReadStrictly) {
  const auto model = LoadTiny();
  const std::string good = ScheduleToJson(MakeRandomSchedule(*model, 1));
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return std::string(ParseSchedule(text.replace(at, from.size(), to)).status().message());
  };
  EXPECT_THAT(error("isobit schedule", "isobit receipt"), HasSubstr("format must be"));
  EXPECT_THAT(error("\"version\":1", "\"version\":2"), HasSubstr("version must be 1"));
  EXPECT_THAT(error("\"block_size\"", "\"page_size\""), HasSubstr("engine.block_size is missing"));
  EXPECT_THAT(error("\"temperature\":", "\"temperature\":-"), HasSubstr("temperature"));
  EXPECT_THAT(error("{\"format\"", "{\"more\":1,\"format\""), HasSubstr("not known"));
  EXPECT_THAT(std::string(ParseSchedule("[]").status().message()), HasSubstr("an object"));
  EXPECT_THAT(std::string(ReadSchedule("/nowhere/s.json").status().message()),
              HasSubstr("/nowhere/s.json"));
  RequestSchedule foreign = MakeRandomSchedule(*model, 1);
  foreign.requests[0].request.prompt = {kTinyVocab};
  EXPECT_THAT(std::string(ValidateSchedule(foreign, *model).message()), HasSubstr("267"));
}

}  // namespace
}  // namespace isobit
