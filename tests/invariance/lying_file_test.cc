// Model files that lie about themselves: case 23 from the field. Loading ends with an error that
// names the file, or with a model that runs; never with a crash, a hang, or memory for sizes that
// the file only claims.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "invariance/random.h"
#include "kernels/backends.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

class LyingFile : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(WriteTinyModel({.layers = 1, .width = 32, .ffn_width = 32}),
                       std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    honest_ = bytes.str();
    path_ = testing::TempDir() + "/lying-" + std::to_string(getpid()) + ".gguf";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return Model::Load(path_, CreateReferenceBackend());
  }

  void ExpectRefused(const std::string& bytes, const std::string& what) {
    const auto model = Load(bytes);
    ASSERT_FALSE(model.ok()) << what;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(path_)) << what;
  }

  std::string honest_;
  std::string path_;
};

TEST_F(LyingFile, Case23HonestOne) {
  const auto model = Load(honest_);
  ASSERT_TRUE(model.ok()) << model.status();
}

TEST_F(LyingFile, Case23Truncated) {
  SplitMix random(1);
  for (int i = 0; i < 200; ++i) {
    const auto size = i < 40 ? i : random.Below(static_cast<int64_t>(honest_.size()) - 32);
    ExpectRefused(honest_.substr(0, static_cast<size_t>(size)), "truncated");
  }
}

TEST_F(LyingFile, Case23AbsurdCounts) {
  // Numbers of tensors and of metadata fields; the length of the first key.
  for (size_t offset : {8u, 16u, 24u}) {
    for (uint64_t count : {~uint64_t{0}, ~uint64_t{0} / 2, uint64_t{1} << 48, uint64_t{1} << 33,
                           uint64_t{1} << 24}) {
      std::string bytes = honest_;
      std::memcpy(bytes.data() + offset, &count, sizeof(count));
      ExpectRefused(bytes, "count");
    }
  }
}

// Every byte of the header, one at a time, and random handfuls of them.
TEST_F(LyingFile, Case23ChangedBytes) {
  const size_t header = honest_.find("ffn_down.weight");
  ASSERT_NE(header, std::string::npos);
  SplitMix random(2);
  int refused = 0, ran = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = honest_;
    for (int64_t k = 0; k <= random.Below(3); ++k) {
      const auto at = static_cast<size_t>(random.Below(static_cast<int64_t>(header)));
      bytes[at] = static_cast<char>(random.Below(4) == 0 ? 0xff : random.Below(256));
    }
    auto model = Load(bytes);
    if (!model.ok()) {
      EXPECT_FALSE(model.status().message().empty());
      ++refused;
      continue;
    }
    auto engine = EngineCore::Create(*std::move(model), {.kv_cache_tokens = 1024});
    if (!engine.ok()) continue;
    PreparedRequest request = MakeRequest("still runs", {1, 2, 3});
    request.sampling.max_tokens = 2;
    if (!(*engine)->CheckFits(3, request.sampling).ok()) continue;
    const auto outcomes = RunSchedule(**engine, {{.request = request}});
    ran += outcomes.ok() ? 1 : 0;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(ran, 20);
}

}  // namespace
}  // namespace isobit
