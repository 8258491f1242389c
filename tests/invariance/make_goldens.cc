// Makes golden/digests/tiny.json and smollm2.json anew: isobit_make_goldens. The tiny models run on
// the reference backend, the real one on the CPU backend. golden/CHANGES.md says when that is
// right.

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "kernels/backends.h"
#include "tests/invariance/golden_digests.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

bool Write(const char* name, const absl::StatusOr<nlohmann::json>& golden) {
  if (!golden.ok()) {
    std::fprintf(stderr, "%s: %s\n", name, golden.status().ToString().c_str());
    return false;
  }
  const std::string path = GoldenDigestsFolder() + name;
  std::ofstream file(path);
  file << golden->dump(1) << "\n";
  file.close();
  std::printf("%s %s\n", file ? "wrote" : "could not write", path.c_str());
  return static_cast<bool>(file);
}

int Main() {
  auto cpu = CreateCpuBackend({});
  if (!cpu.ok()) {
    std::fprintf(stderr, "%s\n", cpu.status().ToString().c_str());
    return 1;
  }
  const bool tiny = Write("tiny.json", ComputeTinyGoldens(CreateReferenceBackend));
  const bool real = Write("smollm2.json", ComputeModelGolden(TestModelPath(), *std::move(cpu)));
  return tiny && real ? 0 : 1;
}

}  // namespace
}  // namespace isobit

int main() { return isobit::Main(); }
