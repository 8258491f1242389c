// Every family of models, from both formats, beside transformers in fp32 and in bf16
// (golden/model/families.json, made by golden/model/make_families.py).

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "runtime/model/family.h"
#include "runtime/model/model.h"
#include "tests/runtime/model/family_files.h"
#include "tests/runtime/model/family_models.h"
#include "tests/runtime/model/whole_model.h"
#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

using nlohmann::json;

struct Error {
  double sum = 0, largest = 0;
  int count = 0;

  void Add(double difference) {
    sum += std::fabs(difference);
    largest = std::max(largest, std::fabs(difference));
    ++count;
  }
  double mean() const { return sum / count; }
};

Error ErrorOf(const std::vector<float>& logits, int64_t vocab, const json& entry) {
  Error error;
  for (size_t i = 0; i < entry["fp32"].size(); ++i) {
    const float* row = logits.data() + i * static_cast<size_t>(vocab);
    double sum = 0;
    for (int64_t t = 0; t < vocab; ++t) sum += std::exp(static_cast<double>(row[t]));
    const int picked[] = {entry["ids"][i + 1], entry["fixed"]};
    for (size_t k = 0; k < 2; ++k) {
      error.Add(row[picked[k]] - std::log(sum) - entry["fp32"][i][k].get<double>());
    }
  }
  return error;
}

Error ErrorOfBf16(const json& entry) {
  Error error;
  for (size_t i = 0; i < entry["fp32"].size(); ++i) {
    for (size_t k = 0; k < entry["fp32"][i].size(); ++k) {
      error.Add(entry["bf16"][i][k].get<double>() - entry["fp32"][i][k].get<double>());
    }
  }
  return error;
}

class FamilyTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { WriteFolder(entry_, folder_.path()); }

  const json& entry_ = FamilyGoldens()[GetParam()];
  const std::vector<int32_t> ids_ = entry_["ids"];
  const TempFolder folder_;
};

TEST_P(FamilyTest, IsNoFurtherFromFp32ThanTransformersInBf16) {
  const auto model = LoadFamily(folder_.path(), CpuBackend());
  ASSERT_NE(model, nullptr);
  const Error ours = ErrorOf(Logits(*model, ids_), model->config().vocab, entry_);
  const Error theirs = ErrorOfBf16(entry_);
  EXPECT_EQ(ours.count, theirs.count);
  EXPECT_GT(ours.count, 300);
  EXPECT_LE(ours.mean(), theirs.mean());
  EXPECT_LE(ours.largest, 2 * theirs.largest) << "one of a few hundred";
  RecordProperty("mean_error_ours", std::to_string(ours.mean()));
  RecordProperty("mean_error_bf16", std::to_string(theirs.mean()));
}

TEST_P(FamilyTest, TheReferenceBackendGivesTheSameBits) {
  const auto fast = LoadFamily(folder_.path(), CpuBackend());
  const auto reference = LoadFamily(folder_.path(), CreateReferenceBackend());
  ASSERT_TRUE(fast != nullptr && reference != nullptr);
  EXPECT_EQ(fast->digest(), reference->digest());
  const std::vector<int32_t> some(ids_.begin(), ids_.begin() + 48);  // it is slow
  EXPECT_EQ(Logits(*fast, some), Logits(*reference, some));
}

// Families that have an architecture of their own in GGUF files.
class GgufFamilyTest : public FamilyTest {};

TEST_P(GgufFamilyTest, GgufAndFolderAreOneModel) {
  const auto folder = LoadFamily(folder_.path(), CpuBackend());
  const auto file = LoadFamily(WriteGguf(entry_, folder_.Path("model")), CpuBackend());
  ASSERT_TRUE(folder != nullptr && file != nullptr);
  EXPECT_EQ(folder->digest(), file->digest());
  EXPECT_EQ(Logits(*folder, ids_), Logits(*file, ids_));
}

// How a model is cut into files, and how wide its numbers are stored, changes nothing.
TEST_P(FamilyTest, FilesAndWidthsDoNotMatter) {
  const auto model = LoadFamily(folder_.path(), CpuBackend());
  ASSERT_NE(model, nullptr);
  const TempFolder other(".other");
  WriteFolder(entry_, other.path(), {.dtype = "F32", .shards = 3});
  const auto wide = LoadFamily(other.path(), CpuBackend());
  ASSERT_NE(wide, nullptr);
  EXPECT_EQ(wide->digest(), model->digest());
  EXPECT_THAT(wide->load_note(), testing::HasSubstr("in 3 files"));
  EXPECT_THAT(wide->load_note(), testing::HasSubstr("rounded once to bf16"));
  EXPECT_THAT(model->load_note(), testing::HasSubstr("used as stored"));
  if (entry_.contains("gguf")) {
    const auto split = LoadFamily(WriteGguf(entry_, other.Path("model"), 2), CpuBackend());
    ASSERT_NE(split, nullptr);
    EXPECT_EQ(split->digest(), model->digest());
    EXPECT_THAT(split->load_note(), testing::HasSubstr("in 2 parts"));
  }
}

// Every normal bf16 in the range of fp16 is an fp16 number.
TEST(WidthsTest, Fp16WeightsAreRoundedOnceToBf16) {
  const json& entry = FamilyGoldens()["llama"];
  const TempFolder halves(".halves"), same(".same");
  WriteFolder(entry, halves.path(), {.dtype = "F16", .only_normal_halves = true});
  WriteFolder(entry, same.path(), {.dtype = "BF16", .only_normal_halves = true});
  const auto from_halves = LoadFamily(halves.path(), CpuBackend()),
             from_same = LoadFamily(same.path(), CpuBackend());
  ASSERT_TRUE(from_halves != nullptr && from_same != nullptr);
  EXPECT_EQ(from_halves->digest(), from_same->digest());
  EXPECT_THAT(from_halves->load_note(), testing::HasSubstr("F16; weights rounded once to bf16"));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyTest, testing::ValuesIn(FamilyGoldenNames()),
                         [](const auto& instance) { return instance.param; });

INSTANTIATE_TEST_SUITE_P(All, GgufFamilyTest,
                         testing::ValuesIn(FamilyGoldenNames(/*with_gguf_only=*/true)),
                         [](const auto& instance) { return instance.param; });

// Whole models with their tokenizers and recommendations, as users have them.
TEST(WholeModelTest, TheFolderAndTheGgufFileAreOneModel) {
  const TempFolder folder;
  const std::string file = WriteWholeModel("qwen2", folder.path());
  const auto from_folder = Model::Load(folder.path(), CpuBackend(), 64);
  const auto from_file = Model::Load(file, CpuBackend(), 64);
  ASSERT_TRUE(from_folder.ok()) << from_folder.status().ToString();
  ASSERT_TRUE(from_file.ok()) << from_file.status().ToString();
  EXPECT_EQ((*from_folder)->digest(), (*from_file)->digest());
  EXPECT_THAT((*from_folder)->tokenizer().stop_ids(), testing::ElementsAre(5, kWholeModelEnd));
  EXPECT_EQ((*from_folder)->generation_defaults().temperature, 0.6);
  EXPECT_EQ((*from_folder)->config().DescribeDeviations(), "biases of query, key and value");
  EXPECT_TRUE((*from_folder)->tokenizer().chat_template().has_value());
}

TEST(Families, EachIsTested) {
  for (const Family* family : AllFamilies()) {
    int folders = 0, ggufs = 0;
    for (const auto& [name, entry] : FamilyGoldens().items()) {
      folders += entry["config"]["model_type"] == std::string(family->hugging_face);
      ggufs += entry.contains("gguf") && entry["gguf"]["architecture"] == std::string(family->gguf);
    }
    EXPECT_GT(folders, 0) << family->name;
    EXPECT_TRUE(family->gguf.empty() || ggufs > 0) << family->name;
  }
}

// Models that differ in anything that decides bits have different digests.
TEST(Families, NoTwoHaveOneDigest) {
  std::set<std::string> digests;
  for (const std::string& name : FamilyGoldenNames()) {
    const TempFolder folder;
    WriteFolder(FamilyGoldens()[name], folder.path());
    const auto model = LoadFamily(folder.path(), CpuBackend());
    ASSERT_NE(model, nullptr) << name;
    EXPECT_TRUE(digests.insert(model->digest().ToHex()).second) << name;
  }
}

}  // namespace
}  // namespace isobit
