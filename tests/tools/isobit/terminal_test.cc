#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/tools/isobit/temp_folder.h"
#include "tools/isobit/event.h"
#include "tools/isobit/log.h"
#include "tools/isobit/progress_bar.h"

namespace isobit {
namespace {

// ---- Event

TEST(Event, WakesAWaiter) {
  Event event;
  EXPECT_EQ(WaitForAny({event.fd()}, 0), -1);
  std::thread raiser([&event] { event.Raise(); });
  EXPECT_EQ(WaitForAny({-1, event.fd()}), event.fd());
  raiser.join();
  event.Raise();  // twice is as good as once
  event.Clear();
  EXPECT_EQ(WaitForAny({event.fd()}, 0), -1);
}

TEST(Event, TheFirstReadyOneIsGivenBack) {
  Event first, second;
  second.Raise();
  EXPECT_EQ(WaitForAny({first.fd(), second.fd()}), second.fd());
  first.Raise();
  EXPECT_EQ(WaitForAny({first.fd(), second.fd()}), first.fd());
}

TEST(Interrupt, IsNotedOnceAndCanBeForgotten) {
  CatchInterrupts();
  EXPECT_FALSE(Interrupted());
  std::raise(SIGINT);
  EXPECT_TRUE(Interrupted());
  EXPECT_EQ(WaitForAny({InterruptDescriptor()}, 0), InterruptDescriptor());
  ClearInterrupt();
  EXPECT_FALSE(Interrupted());
  EXPECT_EQ(WaitForAny({InterruptDescriptor()}, 0), -1);
  std::raise(SIGTERM);
  EXPECT_TRUE(Interrupted());
  ClearInterrupt();
}

TEST(InterruptDeathTest, TheSecondEndsTheProcess) {
  EXPECT_EXIT(
      {
        CatchInterrupts();
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

// ---- Progress bar

TEST(ProgressBar, Line) {
  EXPECT_EQ(ProgressBar::Line(0, 10, "x"), absl::StrCat("[", std::string(30, ' '), "]   0%  x"));
  EXPECT_EQ(ProgressBar::Line(5, 10, "x"),
            absl::StrCat("[", std::string(15, '#'), std::string(15, ' '), "]  50%  x"));
  EXPECT_EQ(ProgressBar::Line(10, 10, "x"), absl::StrCat("[", std::string(30, '#'), "] 100%  x"));
  EXPECT_EQ(ProgressBar::Line(20, 10, "x"), ProgressBar::Line(10, 10, "x"));
  EXPECT_EQ(ProgressBar::Line(5, 0, "only text"), "only text");
}

TEST(ProgressBar, RemovesItself) {
  ::testing::internal::CaptureStderr();
  { ProgressBar bar(10); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "never drawn";
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar(10);
    bar.Show(5, "half");
    bar.Show(6, "too soon after");
  }
  const std::string drawn = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(drawn.find("50%  half"), std::string::npos);
  EXPECT_EQ(drawn.find("too soon"), std::string::npos);
  EXPECT_TRUE(drawn.ends_with("\r\x1b[K"));
}

// ---- Log

TEST(Log, LevelsOnStderr) {
  ASSERT_TRUE(SetUpLog(LogLevel::kWarn, "").ok());
  ::testing::internal::CaptureStderr();
  LogError("broken");
  LogWarning("odd");
  LogInfo("chatter");
  LogDebug("noise");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "isobit: error: broken\nisobit: warning: odd\n");
}

TEST(Log, AFileTakesMessagesAndStderrKeepsErrors) {
  const TempFolder folder;
  ASSERT_TRUE(SetUpLog(LogLevel::kInfo, folder.Path("log")).ok());
  ::testing::internal::CaptureStderr();
  LogInfo("loaded");
  LogError("broken");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "isobit: error: broken\n");
  const std::string log = TempFolder::Read(folder.Path("log"));
  EXPECT_NE(log.find("Z info loaded\n"), std::string::npos) << log;
  EXPECT_NE(log.find("Z error broken\n"), std::string::npos) << log;
}

TEST(Log, AFileThatCanNotBeOpened) {
  const absl::Status status = SetUpLog(LogLevel::kInfo, "/nowhere/log");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace isobit
