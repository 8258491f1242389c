#include "runtime/model/safetensors.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/model/family_files.h"
#include "tests/runtime/model/gguf_builder.h"
#include "tests/runtime/model/safetensors_builder.h"
#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

absl::StatusOr<std::unique_ptr<SafetensorsFile>> Load(const std::string& bytes) {
  return SafetensorsFile::FromMemory(AsBytes(bytes), "test.safetensors");
}

void ExpectError(const std::string& bytes, absl::StatusCode code,
                 const std::vector<std::string>& parts) {
  const auto opened = Load(bytes);
  ASSERT_FALSE(opened.ok()) << parts[0];
  EXPECT_EQ(opened.status().code(), code) << opened.status().ToString();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("test.safetensors: "));
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(part));
  }
}

SafetensorsBuilder Small() {
  SafetensorsBuilder b;
  b.Tensor("b", "F32", {2, 3}, std::string(24, 'b')).Tensor("a", "BF16", {5}, std::string(10, 'a'));
  return b;
}

TEST(SafetensorsTest, ReadsTensors) {
  SafetensorsBuilder b = Small();
  b.header["__metadata__"] = {{"format", "pt"}};
  const std::string bytes = b.Build();
  const auto file = Load(bytes);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const StoredTensor& first = (*file)->tensors()[0];
  const StoredTensor& second = (*file)->tensors()[1];
  EXPECT_EQ(first.name, "b") << "by place, not by name";
  EXPECT_EQ(first.type, TensorType::kF32);
  EXPECT_THAT(first.shape, ElementsAre(2, 3));
  EXPECT_EQ(static_cast<char>(first.data[23]), 'b');
  EXPECT_EQ(second.type, TensorType::kBF16);
  EXPECT_EQ(second.bytes, 10u);
  EXPECT_EQ(static_cast<char>(second.data[0]), 'a');
}

TEST(SafetensorsTest, AnEmptyFileOfTensorsIsOne) {
  EXPECT_TRUE(Load(SafetensorsBuilder::WithHeader("{}", "")).ok());
  EXPECT_TRUE(Load(SafetensorsBuilder().Tensor("z", "F32", {0, 4}, "").Build()).ok());
}

// Case 23 of the field: files that lie.
TEST(SafetensorsTest, RefusesLyingHeaders) {
  ExpectError("", kInvalid, {"only 0 bytes"});
  ExpectError("\x10\0\0\0", kInvalid, {"not a safetensors file"});
  ExpectError(std::string(8, '\xff'), kInvalid, {"18446744073709551615", "limit is 100000000"});
  std::string truncated = Small().Build();
  truncated[0] = static_cast<char>(0x7f);
  truncated[1] = static_cast<char>(0x7f);
  ExpectError(truncated, kDataLoss, {"truncated"});
  using B = SafetensorsBuilder;
  ExpectError(B::WithHeader("[]", ""), kInvalid, {"expected an object"});
  ExpectError(B::WithHeader("{", ""), kInvalid, {"header", "not valid JSON"});
  ExpectError(B::WithHeader(std::string(1000, '['), ""), kInvalid, {"nested deeper than"});
  ExpectError(B::WithHeader(R"({"a":1,"a":2})", ""), kInvalid, {"\"a\" stands twice"});
  ExpectError(B::WithHeader(R"({"a":1})", ""), kInvalid, {"tensor 'a' is 1"});
  ExpectError(B::WithHeader(R"({"a":{"dtype":"F32","shape":[]}})", ""), kInvalid,
              {"has no data_offsets"});
}

TEST(SafetensorsTest, RefusesLyingTensors) {
  const auto with = [](const char* key, const json& value) {
    SafetensorsBuilder b = Small();
    b.header["b"][key] = value;
    return b.Build();
  };
  ExpectError(with("dtype", 7), kInvalid, {"'b'", "dtype is 7"});
  ExpectError(with("dtype", "F8_E4M3"), absl::StatusCode::kUnimplemented,
              {"\"F8_E4M3\"", "F32, F16, BF16"});
  ExpectError(with("shape", 6), kInvalid, {"shape is 6"});
  ExpectError(with("shape", json::array({1, 1, 1, 1, 1, 1, 1, 1, 6})), kInvalid, {"at most 8"});
  ExpectError(with("shape", {-2, 3}), kInvalid, {"size -2"});
  ExpectError(with("shape", {2.5, 3}), kInvalid, {"size 2.5"});
  ExpectError(with("shape", {int64_t{1} << 62, 8}), kInvalid, {"exceeds 2^63"});
  ExpectError(with("shape", {2, 4}), kInvalid, {"2 x 4", "needs 32 bytes", "hold 24"});
  ExpectError(with("data_offsets", {0}), kInvalid, {"two offsets"});
  ExpectError(with("data_offsets", {-1, 23}), kInvalid, {"two offsets"});
  ExpectError(with("data_offsets", {24, 0}), kInvalid, {"begins at 24", "ends before, at 0"});
  ExpectError(with("data_offsets", {12, 36}), kDataLoss, {"ends at 36", "34 bytes"});
  ExpectError(with("data_offsets", {0, UINT64_MAX}), kDataLoss, {"18446744073709551615"});
}

TEST(SafetensorsTest, RefusesOverlapsAndGaps) {
  SafetensorsBuilder overlap = Small();
  overlap.header["a"]["data_offsets"] = {20, 30};
  ExpectError(overlap.Build(), kInvalid, {"'a' begins at 20", "inside of tensor 'b'", "24"});
  SafetensorsBuilder gap;
  gap.Tensor("a", "BF16", {1}, "xx")
      .Tensor("hole", "BF16", {2}, "yyyy")
      .Tensor("c", "BF16", {1}, "zz");
  gap.header.erase("hole");
  ExpectError(gap.Build(), kInvalid, {"'c' begins at 6", "gap after tensor 'a'", "ends at 2"});
  ExpectError(Small().Build() + "more", kInvalid, {"38 bytes", "end at 34"});
  const std::string whole = Small().Build();
  ExpectError(whole.substr(0, whole.size() - 1), kDataLoss, {"ends at 34", "33 bytes"});
}

class SafetensorsFolderTest : public testing::Test {
 protected:
  SafetensorsFolderTest() {
    WriteFile(folder_.Path("one.safetensors"),
              SafetensorsBuilder().Tensor("a", "BF16", {1}, "aa").Build());
    WriteFile(folder_.Path("two.safetensors"),
              SafetensorsBuilder().Tensor("b", "BF16", {1}, "bb").Build());
  }

  void WriteIndex(const json& weight_map) {
    WriteFile(folder_.Path("model.safetensors.index.json"),
              json{{"weight_map", weight_map}}.dump());
  }
  void ExpectFolderError(const std::vector<std::string>& parts) {
    const auto opened = SafetensorsFolder::Open(folder_.path());
    ASSERT_FALSE(opened.ok()) << parts[0];
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(opened.status().message()), HasSubstr(part));
    }
  }

  const TempFolder folder_;
};

TEST_F(SafetensorsFolderTest, FollowsItsIndex) {
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  const auto store = SafetensorsFolder::Open(folder_.path());
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_EQ((*store)->files(), 2u);
  ASSERT_NE((*store)->FindTensor("b"), nullptr);
  EXPECT_EQ(static_cast<char>((*store)->FindTensor("b")->data[0]), 'b');
  EXPECT_EQ((*store)->FindTensor("c"), nullptr);
  (*store)->Release(*(*store)->FindTensor("b"));
  EXPECT_EQ(static_cast<char>((*store)->FindTensor("b")->data[0]), 'b') << "read again";
}

TEST_F(SafetensorsFolderTest, RefusesAnIndexThatLies) {
  WriteIndex({{"a", "one.safetensors"}});
  WriteFile(
      folder_.Path("one.safetensors"),
      SafetensorsBuilder().Tensor("a", "BF16", {1}, "aa").Tensor("x", "BF16", {1}, "xx").Build());
  ExpectFolderError({"'x'", "not listed"});
  WriteIndex({{"a", "two.safetensors"}});
  ExpectFolderError({"'a' should be in 'two.safetensors'", "no file"});
  WriteIndex({{"a", "one.safetensors"}, {"x", "two.safetensors"}, {"b", "two.safetensors"}});
  ExpectFolderError({"'x' should be in 'two.safetensors'", "is in one.safetensors"});
  WriteIndex({{"a", "../one.safetensors"}});
  ExpectFolderError({"\"../one.safetensors\"", "a file in the folder"});
  WriteIndex({{"a", 3}});
  ExpectFolderError({"is in 3"});
  WriteIndex({{"a", "three.safetensors"}});
  ExpectFolderError({"three.safetensors", "can't open"});
  WriteFile(folder_.Path("model.safetensors.index.json"), "{}");
  ExpectFolderError({"weight_map"});
  WriteFile(folder_.Path("two.safetensors"),
            SafetensorsBuilder().Tensor("a", "BF16", {1}, "aa").Build());
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  ExpectFolderError({"'a' is also in", "one.safetensors"});
}

TEST_F(SafetensorsFolderTest, AFolderWithoutWeightsIsNamed) {
  ExpectFolderError({folder_.Path("model.safetensors"), "can't open"});
}

}  // namespace
}  // namespace isobit
