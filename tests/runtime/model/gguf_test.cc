#include "runtime/model/gguf.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model_path.h"
#include "tests/runtime/model/gguf_builder.h"

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0, kQ8_0 = 8;

absl::StatusOr<std::unique_ptr<GgufFile>> Load(const std::string& bytes) {
  return GgufFile::FromMemory(AsBytes(bytes), "test.gguf");
}

// Expects an error of this kind that names the file and holds every part.
void ExpectError(const std::string& bytes, absl::StatusCode code,
                 const std::vector<std::string>& parts) {
  const auto file = Load(bytes);
  ASSERT_FALSE(file.ok());
  const std::string message(file.status().message());
  EXPECT_EQ(file.status().code(), code) << message;
  EXPECT_THAT(message, HasSubstr("test.gguf: "));
  for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part));
}

TEST(GgufTest, ReadsFieldsOfEveryType) {
  GgufBuilder b;
  b.Field("u8", GgufType::kUint8, GgufBuilder::Raw<uint8_t>(200));
  b.Field("i8", GgufType::kInt8, GgufBuilder::Raw<int8_t>(-100));
  b.Field("u16", GgufType::kUint16, GgufBuilder::Raw<uint16_t>(60000));
  b.Field("i16", GgufType::kInt16, GgufBuilder::Raw<int16_t>(-30000));
  b.U32("u32", 4000000000u);
  b.Field("i32", GgufType::kInt32, GgufBuilder::Raw<int32_t>(-2000000000));
  b.Field("f32", GgufType::kFloat32, GgufBuilder::Raw(0.5f));
  b.Bool("yes", true);
  b.Text("text", std::string_view("a\0b\xff", 4));
  b.Field("u64", GgufType::kUint64, GgufBuilder::Raw<uint64_t>(UINT64_MAX));
  b.Field("i64", GgufType::kInt64, GgufBuilder::Raw<int64_t>(INT64_MIN));
  b.Field("f64", GgufType::kFloat64, GgufBuilder::Raw(1e300));
  b.Texts("texts", {"x", "", "yz"});
  b.Ints("ints", {1, -2, 3});
  const std::string bytes = b.Build();
  const auto opened = Load(bytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const GgufFile& f = **opened;
  EXPECT_EQ(f.Get<int32_t>("u8").value(), 200);
  EXPECT_EQ(f.Get<int64_t>("i8").value(), -100);
  EXPECT_EQ(f.Get<uint32_t>("u16").value(), 60000u);
  EXPECT_EQ(f.Get<int32_t>("i16").value(), -30000);
  EXPECT_EQ(f.Get<int64_t>("u32").value(), 4000000000);
  EXPECT_EQ(f.Get<int32_t>("i32").value(), -2000000000);
  EXPECT_EQ(f.Get<float>("f32").value(), 0.5f);
  EXPECT_EQ(f.Get<bool>("yes").value(), true);
  EXPECT_EQ(f.Get<std::string_view>("text").value(), std::string_view("a\0b\xff", 4));
  EXPECT_EQ(f.Get<uint64_t>("u64").value(), UINT64_MAX);
  EXPECT_EQ(f.Get<int64_t>("i64").value(), INT64_MIN);
  EXPECT_EQ(f.Get<double>("f64").value(), 1e300);
  EXPECT_THAT(f.Get<std::vector<std::string_view>>("texts").value(), ElementsAre("x", "", "yz"));
  EXPECT_THAT(f.Get<std::vector<int64_t>>("ints").value(), ElementsAre(1, -2, 3));
  EXPECT_EQ(f.fields().size(), 14u);
  EXPECT_EQ(f.fields()[4].key, "u32");
}

TEST(GgufTest, SaysWhyAFieldDoesNotServe) {
  GgufBuilder b;
  b.Field("negative", GgufType::kInt32, GgufBuilder::Raw<int32_t>(-7));
  b.Field("big", GgufType::kUint64, GgufBuilder::Raw<uint64_t>(UINT64_MAX));
  b.Text("text", "x").Ints("ints", {1, -2}).Bool("odd", false);
  const std::string bytes = b.Build();
  const auto opened = Load(bytes);
  ASSERT_TRUE(opened.ok());
  const GgufFile& f = **opened;
  const auto expect = [](const absl::Status& status, absl::StatusCode code,
                         const std::string& part) {
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("test.gguf: "), HasSubstr(part)));
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect(f.Get<uint32_t>("negative").status(), kInvalid, "'negative' is INT32 -7");
  expect(f.Get<int64_t>("big").status(), kInvalid, "'big' is UINT64");
  expect(f.Get<float>("text").status(), kInvalid, "'text' is STRING, expected a floating");
  expect(f.Get<std::string_view>("ints").status(), kInvalid, "an array of 2 INT32");
  expect(f.Get<std::vector<uint32_t>>("ints").status(), kInvalid, "element 1");
  expect(f.Get<std::vector<bool>>("ints").status(), kInvalid, "element 0");
  expect(f.Get<std::vector<float>>("text").status(), kInvalid, "expected an array");
  expect(f.Get<int32_t>("odd").status(), kInvalid, "'odd' is BOOL");
  expect(f.Get<int32_t>("none").status(), absl::StatusCode::kNotFound, "'none' is missing");
  EXPECT_EQ(f.GetOr<int32_t>("none", 5).value(), 5);
  EXPECT_FALSE(f.GetOr<int32_t>("text", 5).ok()) << "a wrong type is not a missing key";
}

TEST(GgufTest, PlacesTensorsOutermostDimensionFirst) {
  GgufBuilder b;
  b.U32("general.alignment", 64).alignment = 64;
  b.Tensor("w", {32, 3}, kQ8_0, 0, std::string(34 * 3, 'w'));
  b.Tensor("norm", {5}, kF32, 128, std::string(20, 'n'));
  const std::string bytes = b.Build();
  const auto opened = Load(bytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const GgufTensor* w = (*opened)->FindTensor("w");
  const GgufTensor* norm = (*opened)->FindTensor("norm");
  ASSERT_NE(w, nullptr);
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ((*opened)->FindTensor("none"), nullptr);
  EXPECT_THAT(w->shape, ElementsAre(3, 32));
  EXPECT_EQ(w->bytes, 34u * 3);
  EXPECT_EQ(w->type, TensorType::kQ8_0);
  EXPECT_EQ(static_cast<char>(*w->data), 'w');
  EXPECT_THAT(norm->shape, ElementsAre(5));
  EXPECT_EQ(static_cast<char>(norm->data[19]), 'n');
  EXPECT_EQ((reinterpret_cast<const char*>(norm->data) - bytes.data()) % 64, 0);
}

TEST(GgufTest, VersionTwoIsRead) {
  GgufBuilder b;
  b.version = 2;
  const std::string bytes = b.Text("k", "v").Build();
  ASSERT_TRUE(Load(bytes).ok());
}

// Case 23 of the field: files that lie.
TEST(GgufTest, RefusesWhatIsNotGguf) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectError("", kInvalid, {"not a GGUF file", "0 bytes"});
  ExpectError("GGU", kInvalid, {"not a GGUF file"});
  ExpectError("PK\x03\x04PK\x03\x04", kInvalid, {"not a GGUF file", "0x04034b50"});
  GgufBuilder old, future, swapped;
  old.version = 1;
  future.version = 4;
  swapped.version = 0x03000000;
  const auto kUnimplemented = absl::StatusCode::kUnimplemented;
  ExpectError(old.Build(), kUnimplemented, {"version 1", "2 to 3"});
  ExpectError(future.Build(), kUnimplemented, {"version 4", "2 to 3"});
  ExpectError(swapped.Build(), kUnimplemented, {"big-endian"});
}

TEST(GgufTest, RefusesCountsThatCannotFit) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::string ones(16, '\xff');
  ExpectError(std::string("GGUF\x03\0\0\0", 8) + ones, kInvalid, {"18446744073709551615"});
  GgufBuilder tensors, fields;
  tensors.tensor_count_override = INT64_MAX;
  fields.field_count_override = INT64_MAX;
  ExpectError(tensors.Text("key", "value").Build(), kInvalid,
              {"tensor count", "9223372036854775807"});
  ExpectError(fields.Text("key", "value").Build(), kInvalid,
              {"metadata count", "9223372036854775807"});
  GgufBuilder one_more;
  one_more.tensor_count_override = 2;
  one_more.Tensor("w", {8}, kF32, 0, std::string(32, 'x'));
  EXPECT_FALSE(Load(one_more.Build()).ok());
}

TEST(GgufTest, RefusesLyingFields) {
  using B = GgufBuilder;
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto kDataLoss = absl::StatusCode::kDataLoss;
  ExpectError(B().Text("k", "1").Text("k", "2").Build(), kInvalid, {"'k' appears twice"});
  ExpectError(B().Field("k", static_cast<GgufType>(13), "xxxxxxxx").Build(), kInvalid,
              {"'k'", "unknown type 13"});
  ExpectError(B().Text(std::string(65536, 'k'), "").Build(), kInvalid, {"65536", "65535"});
  ExpectError(B().Field("k", GgufType::kString, B::Raw(UINT64_MAX)).Build(), kDataLoss,
              {"18446744073709551615 bytes wanted"});
  // Array lengths: bytes that overflow 64 bits when multiplied, and strings.
  for (const GgufType type :
       {GgufType::kUint8, GgufType::kInt64, GgufType::kString, GgufType::kArray}) {
    const std::string array = B::Type(type) + B::Raw(UINT64_MAX / 4 + 2);
    ExpectError(B().Field("k", GgufType::kArray, array).Build(), kDataLoss,
                {"'k'", "4611686018427387905 values"});
  }
  // Arrays of arrays of arrays ...
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += B::Type(GgufType::kArray) + B::Raw<uint64_t>(1);
  deep += B::Type(GgufType::kUint8) + B::Raw<uint64_t>(1) + "x";
  ExpectError(B().Field("k", GgufType::kArray, deep).Build(), kInvalid, {"'k'", "deeper than 4"});
  for (const uint32_t alignment : {0u, 1u, 24u, 33u, 1u << 31}) {
    ExpectError(B().U32("general.alignment", alignment).Build(), kInvalid,
                {"'general.alignment' is " + std::to_string(alignment), "power of two"});
  }
  ExpectError(B().Text("general.alignment", "32").Build(), kInvalid, {"STRING, expected UINT32"});
  // A name that is no text at all is shown escaped and cut.
  ExpectError(B().Field(std::string(500, '\x01'), static_cast<GgufType>(99), "").Build(), kInvalid,
              {"\\x01", "...'"});
}

TEST(GgufTest, NestedArraysWithinTheLimitAreSkippedWhole) {
  using B = GgufBuilder;
  std::string inner = B::Type(GgufType::kString) + B::Raw<uint64_t>(1) + B::Str("in");
  std::string outer = B::Type(GgufType::kArray) + B::Raw<uint64_t>(2) + inner + inner;
  const std::string bytes = B().Field("nest", GgufType::kArray, outer).Text("after", "x").Build();
  const auto opened = Load(bytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->Get<std::string_view>("after").value(), "x");
  EXPECT_FALSE((*opened)->Get<std::vector<std::string_view>>("nest").ok());
  EXPECT_FALSE((*opened)->Get<std::vector<int32_t>>("nest").ok());
}

TEST(GgufTest, RefusesLyingTensors) {
  using B = GgufBuilder;
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto kDataLoss = absl::StatusCode::kDataLoss;
  const std::string data(64, 'x');
  ExpectError(B().Tensor("w", {8}, kF32, 0, data).Tensor("w", {8}, kF32, 32, data).Build(),
              kInvalid, {"'w' appears twice"});
  ExpectError(B().Tensor("w", {}, kF32, 0, data).Build(), kInvalid, {"'w' has 0 dimensions"});
  ExpectError(B().Tensor("w", {1, 1, 1, 1, 1}, kF32, 0, data).Build(), kInvalid,
              {"5 dimensions", "1 to 4"});
  ExpectError(B().Tensor("w", {8, 0}, kF32, 0, data).Build(), kInvalid, {"dimension of size 0"});
  ExpectError(B().Tensor("w", {UINT64_MAX}, kF32, 0, data).Build(), kInvalid,
              {"dimension of size 18446744073709551615"});
  ExpectError(B().Tensor("w", {8}, 4, 0, data).Build(), absl::StatusCode::kUnimplemented,
              {"'w' has element type 4"});
  ExpectError(B().Tensor("w", {33}, kQ8_0, 0, data).Build(), kInvalid,
              {"rows of 33 elements", "multiple of 32 for Q8_0"});
  const uint64_t huge = uint64_t{1} << 31;
  ExpectError(B().Tensor("w", {huge, huge, huge}, kF32, 0, data).Build(), kInvalid,
              {"product exceeds 2^63"});
  ExpectError(B().Tensor("w", {uint64_t{1} << 62}, kF32, 0, data).Build(), kInvalid, {"'w'"});
  ExpectError(B().Tensor("w", {8}, kF32, 4, data).Build(), kInvalid,
              {"'w' has offset 4, expected a multiple of 32"});
  ExpectError(B().Tensor(std::string(65, 'w'), {8}, kF32, 0, data).Build(), kInvalid,
              {"65 bytes long, the limit is 64"});
  ExpectError(B().Tensor("w", {1000}, kF32, 0, data).Build(), kDataLoss,
              {"'w' of 4000 bytes at offset 0", "data section of 64 bytes"});
  ExpectError(B().Tensor("a", {16}, kF32, 0, data).Tensor("b", {8}, kF32, 32, data).Build(),
              kInvalid, {"'a' and 'b' overlap"});
  // An offset that wraps around when the size is added.
  std::string far = B().Tensor("w", {8}, kF32, 0, data).Build();
  const uint64_t offset = UINT64_MAX - 31;
  const size_t at = 24 + 8 + 1 + 4 + 8 + 4;
  std::memcpy(far.data() + at, &offset, sizeof(offset));
  ExpectError(far, kDataLoss, {"offset 18446744073709551584"});
}

TEST(GgufTest, EveryPrefixOfAFileIsAnErrorNotACrash) {
  GgufBuilder b;
  b.U32("general.alignment", 32).Texts("texts", {"x", "yz"}).Ints("ints", {1, 2});
  b.Tensor("w", {32, 2}, kQ8_0, 0, std::string(68, 'w'));
  const std::string whole = b.Build();
  ASSERT_TRUE(Load(whole).ok());
  for (size_t n = 0; n < whole.size(); ++n) {
    // A copy of exactly n bytes, so that the address sanitizer sees any read beyond.
    const std::vector<char> prefix(whole.begin(), whole.begin() + static_cast<long>(n));
    EXPECT_FALSE(GgufFile::FromMemory(std::as_bytes(std::span(prefix)), "test.gguf").ok()) << n;
  }
}

TEST(GgufTest, OpenNamesThePath) {
  const auto missing = GgufFile::Open("/nowhere/model.gguf");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nowhere/model.gguf"));
  const auto folder = GgufFile::Open("/tmp");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("/tmp: not a regular file"));

  const std::string dir = ::testing::TempDir() + "/gguf_test." + std::to_string(getpid());
  const std::string fifo = dir + ".fifo", empty = dir + ".empty";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(GgufFile::Open(fifo).ok()) << "a FIFO must be refused, not waited for";
  std::remove(fifo.c_str());
  std::ofstream(empty).close();
  EXPECT_EQ(GgufFile::Open(empty).status().code(), absl::StatusCode::kInvalidArgument);
  std::remove(empty.c_str());
}

// Resident bytes of this process that belong to file mappings.
long ResidentFileKilobytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    long value = 0;
    if (word == "RssFile:" && status >> value) return value;
  }
  return -1;
}

TEST(GgufTest, TheRealModelIsReadAndItsPagesCanBeReleased) {
  const auto opened = GgufFile::Open(TestModelPath());
  ASSERT_TRUE(opened.ok()) << opened.status() << "\nThis test needs the model: set "
                           << "ISOBIT_TEST_MODEL or run the set-up script.";
  const GgufFile& f = **opened;
  EXPECT_EQ(f.version(), 3u);
  EXPECT_EQ(f.Get<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(f.Get<std::vector<std::string_view>>("tokenizer.ggml.tokens").value().size(), 49152u);
  EXPECT_EQ(f.Get<float>("llama.attention.layer_norm_rms_epsilon").value(), 1e-5f);
  ASSERT_EQ(f.tensors().size(), 272u);
  const GgufTensor* embedding = f.FindTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_THAT(embedding->shape, ElementsAre(49152, 576));
  EXPECT_EQ(embedding->type, TensorType::kQ8_0);
  EXPECT_EQ(embedding->bytes, 30081024u);

  const auto sum = [&] {
    uint64_t total = 0;
    for (size_t i = 0; i < embedding->bytes; i += 512) {
      total += static_cast<uint8_t>(embedding->data[i]);
    }
    return total;
  };
  const uint64_t before = sum();
  const long touched = ResidentFileKilobytes();
  f.Release(*embedding);
  const long released = ResidentFileKilobytes();
  EXPECT_GT(touched - released, 25000) << "30 MB were read and should have been dropped";
  EXPECT_EQ(sum(), before) << "released pages are read again from the file";
}

}  // namespace
}  // namespace isobit
