// Every family of models on the GPU: the CPU's bits, prefilled whole, in chunks and token by token.

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "tests/runtime/model/family_files.h"
#include "tests/runtime/model/family_models.h"
#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

class CudaFamilyTest : public testing::TestWithParam<std::string> {};

TEST_P(CudaFamilyTest, HasTheBitsOfTheCpu) {
  auto backend = CreateCudaBackend({});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status().ToString();
  ASSERT_TRUE(backend.ok()) << backend.status().ToString();
  const nlohmann::json& entry = FamilyGoldens()[GetParam()];
  const TempFolder folder;
  WriteFolder(entry, folder.path());
  const auto on_cpu = LoadFamily(folder.path(), CpuBackend());
  const auto on_gpu = LoadFamily(folder.path(), *std::move(backend));
  ASSERT_TRUE(on_cpu != nullptr && on_gpu != nullptr);
  EXPECT_EQ(on_cpu->digest(), on_gpu->digest());
  const std::vector<int32_t> ids = entry["ids"];
  const std::vector<float> expected = Logits(*on_cpu, ids);
  for (const size_t chunk : {ids.size(), size_t{70}, size_t{1}}) {
    EXPECT_EQ(Logits(*on_gpu, ids, chunk), expected) << "in chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaFamilyTest, testing::ValuesIn(FamilyGoldenNames()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace isobit
