// The table of guarantees: the README's copy is the program's, each line is proven by a test that
// is there and is built, and what is refused is refused at start.

#include "invariance/guarantee.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "kernels/backends.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kRoot = ISOBIT_SOURCE_DIR;

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Guarantee, TheReadmeHoldsTheTable) {
  EXPECT_THAT(Read(kRoot / "README.md"), HasSubstr(GuaranteeMarkdown()));
}

TEST(Guarantee, EveryLineHasItsTest) {
  for (const GuaranteeLine& line : GuaranteeTable()) {
    const fs::path proof = line.proof;
    const std::string source = Read(kRoot / proof);
    EXPECT_THAT(source, HasSubstr("TEST")) << line.proof;
    // Named in the build, or by a list of operations: "foreach(op backend embed ...".
    fs::path folder = kRoot / proof.parent_path();
    if (!fs::exists(folder / "CMakeLists.txt")) folder = folder.parent_path();
    const std::string build = Read(folder / "CMakeLists.txt");
    const std::string stem = proof.stem();
    EXPECT_TRUE(build.find(stem) != std::string::npos ||
                build.find(stem.substr(0, stem.rfind("_test"))) != std::string::npos)
        << line.proof << " is not built";
    // A level of portable is a comparison with the reference, bit for bit.
    if (line.level == Guarantee::kPortable) {
      EXPECT_THAT(source, testing::ContainsRegex("[Rr]eference|Twin|Oracle|SameBits|Expected"))
          << line.proof;
    }
  }
}

TEST(Guarantee, LinesAreDistinct) {
  std::set<std::string> seen;
  for (const GuaranteeLine& line : GuaranteeTable()) {
    std::string key(line.operation);
    key.append("/").append(line.type).append("/").append(line.device);
    EXPECT_TRUE(seen.insert(key).second) << key;
  }
}

// Every backend that can be made here is at the level that the table gives it.
TEST(Guarantee, BackendsAreAtTheirLevel) {
  for (const std::string& name : BackendNames()) {
    const DeviceInfo device = MakeBackend(name)->Info();
    const bool neon = device.instructions == "neon";
    EXPECT_EQ(LevelOf(device), neon ? Guarantee::kRefused : Guarantee::kPortable) << name;
    EXPECT_EQ(CheckGuarantee(device).ok(), !neon) << name;
  }
}

TEST(Guarantee, WhatIsNotProvenIsRefused) {
  DeviceInfo neon = {.kind = "cpu", .name = "", .instructions = "neon"};
  EXPECT_EQ(LevelOf(neon), Guarantee::kRefused);
  EXPECT_THAT(std::string(CheckGuarantee(neon).message()),
              HasSubstr("cpu with neon have not been proven"));
  EXPECT_FALSE(CheckGuarantee({.kind = "tpu", .name = "", .instructions = "v1"}).ok());
  EXPECT_TRUE(CheckGuarantee({.kind = "cuda", .name = "", .instructions = "9.0"}).ok());
}

}  // namespace
}  // namespace isobit
