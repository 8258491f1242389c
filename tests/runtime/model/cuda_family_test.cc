// Every family of models on the GPU: the CPU's bits, prefilled whole, in chunks and token by token.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "tests/runtime/model/family_files.h"
#include "tests/runtime/model/family_models.h"

namespace isobit {
namespace {

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : FamilyGoldens().items()) names.push_back(name);
  return names;
}

class CudaFamilyTest : public testing::TestWithParam<std::string> {};

TEST_P(CudaFamilyTest, HasTheBitsOfTheCpu) {
  auto backend = CreateCudaBackend({});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status().ToString();
  ASSERT_TRUE(backend.ok()) << backend.status().ToString();
  const nlohmann::json& entry = FamilyGoldens()[GetParam()];
  const std::string folder = NewFolder("cuda-family-" + GetParam());
  WriteFolder(entry, folder);
  const auto on_cpu = LoadFamily(folder, CpuBackend());
  const auto on_gpu = LoadFamily(folder, *std::move(backend));
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(on_cpu != nullptr && on_gpu != nullptr);
  EXPECT_EQ(on_cpu->digest(), on_gpu->digest());
  const std::vector<int32_t> ids = entry["ids"];
  const std::vector<float> expected = Logits(*on_cpu, ids);
  for (const size_t chunk : {ids.size(), size_t{70}, size_t{1}}) {
    EXPECT_EQ(Logits(*on_gpu, ids, chunk), expected) << "in chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaFamilyTest, testing::ValuesIn(Names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace isobit
