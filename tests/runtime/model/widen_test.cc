#include "runtime/model/widen.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace isobit {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

uint32_t CanonicalBits(float x) { return FloatBits(Canonical(x)); }

struct Golden {
  TensorType type;
  std::string name;
  std::vector<std::byte> stored;
  std::vector<uint32_t> fp32;  // what the format defines, NaN as 0x7fffffff
};

// Made by golden/model/make_widen.py with the reference package of the format.
std::vector<Golden> LoadGoldens() {
  std::ifstream in(ISOBIT_SOURCE_DIR "/golden/model/widen.json");
  std::vector<Golden> goldens;
  for (const auto& item : nlohmann::json::parse(in)) {
    Golden golden;
    golden.name = item.at("type").get<std::string>();
    golden.stored = FromHex(item.at("stored").get<std::string>());
    const std::vector<std::byte> bits = FromHex(item.at("fp32").get<std::string>());
    golden.fp32.resize(bits.size() / 4);
    std::memcpy(golden.fp32.data(), bits.data(), bits.size());
    for (uint32_t number = 0; number < 64; ++number) {
      const TensorTypeInfo* info = FindTensorType(number);
      if (info != nullptr && info->name == golden.name) golden.type = info->type;
    }
    goldens.push_back(golden);
  }
  return goldens;
}

TEST(WidenTest, DequantisesBitForBitAsTheFormatDefines) {
  const std::vector<Golden> goldens = LoadGoldens();
  ASSERT_EQ(goldens.size(), 16u) << "one for each type that CheckWidenable lets through";
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    ASSERT_TRUE(CheckWidenable(golden.type).ok());
    const auto n = static_cast<int64_t>(golden.fp32.size());
    ASSERT_EQ(RowBytes(InfoOf(golden.type), n), static_cast<int64_t>(golden.stored.size()));
    std::vector<float> got(golden.fp32.size());
    DequantizeRow(golden.type, golden.stored.data(), n, got.data());
    int differences = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      if (CanonicalBits(got[i]) != golden.fp32[i] && ++differences <= 3) {
        ADD_FAILURE() << "element " << i << ": " << std::hex << CanonicalBits(got[i])
                      << ", expected " << golden.fp32[i];
      }
    }
    EXPECT_EQ(differences, 0);
  }
}

TEST(WidenTest, RoundsOnceToBf16) {
  for (const Golden& golden : LoadGoldens()) {
    SCOPED_TRACE(golden.name);
    const auto n = static_cast<int64_t>(golden.fp32.size());
    std::vector<Bf16> got(golden.fp32.size());
    WidenRow(golden.type, golden.stored.data(), n, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].bits, RoundToBf16(BitsFloat(golden.fp32[i])).bits) << "element " << i;
    }
  }
}

// Rows of any length at any address, and nothing written outside of them.
TEST(WidenTest, StaysInsideUnalignedRowsOfEveryLength) {
  for (const Golden& golden : LoadGoldens()) {
    SCOPED_TRACE(golden.name);
    const TensorTypeInfo& info = InfoOf(golden.type);
    const auto all = static_cast<int64_t>(golden.fp32.size());
    for (int64_t n = 0; n <= all && n <= 600; n += info.block_elements) {
      const auto bytes = static_cast<size_t>(*RowBytes(info, n));
      // Heap blocks of the exact size: the address sanitizer sees any step outside.
      std::vector<std::byte> shifted(bytes + 1);
      if (bytes > 0) std::memcpy(shifted.data() + 1, golden.stored.data(), bytes);
      std::vector<Bf16> got(static_cast<size_t>(n) + 1, Bf16{0x1234});
      WidenRow(golden.type, shifted.data() + 1, n, got.data());
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        ASSERT_EQ(got[i].bits, RoundToBf16(BitsFloat(golden.fp32[i])).bits) << n << " " << i;
      }
      EXPECT_EQ(got.back().bits, 0x1234);
    }
  }
}

TEST(WidenTest, EveryHalfIsExact) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> got(halves.size());
  DequantizeRow(TensorType::kF16, reinterpret_cast<const std::byte*>(halves.data()), 65536,
                got.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(FloatBits(got[i]), FloatBits(ToFloat(Fp16{halves[i]}))) << std::hex << i;
  }
}

TEST(WidenTest, RefusesOtherTypesByName) {
  int refused = 0;
  for (uint32_t number = 0; number < 64; ++number) {
    const TensorTypeInfo* info = FindTensorType(number);
    if (info == nullptr || CheckWidenable(info->type).ok()) continue;
    const absl::Status status = CheckWidenable(info->type);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(info->name)));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K"));
    ++refused;
  }
  EXPECT_GT(refused, 10);
}

TEST(TensorTypeTest, SizesOfRows) {
  EXPECT_EQ(RowBytes(InfoOf(TensorType::kQ4_1), 576), 360);
  EXPECT_EQ(RowBytes(InfoOf(TensorType::kQ4_1), 0), 0);
  EXPECT_EQ(RowBytes(InfoOf(TensorType::kQ4_1), 33), std::nullopt);
  EXPECT_EQ(RowBytes(InfoOf(TensorType::kQ4_1), -32), std::nullopt);
  EXPECT_EQ(RowBytes(InfoOf(TensorType::kF32), INT64_MAX / 2), std::nullopt);
  EXPECT_EQ(FindTensorType(4), nullptr);
  EXPECT_EQ(FindTensorType(UINT32_MAX), nullptr);
}

}  // namespace
}  // namespace isobit
