// Times attention on the GPU machine, as CUDA graphs of several layers, so that keys and values are
// read from memory and not from L2. Prints the median of a layer.
//
//   attention_bench [--rounds 15] [--only SUBSTRING]
//
// tools/gpu_proof/attention_rival.py times PyTorch's attention on the same shapes; prove.sh lets
// the two take turns.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/backends.h"

namespace isobit {
namespace {

struct NamedShape {
  const char* name;
  AttentionBatch shape;
};

constexpr NamedShape kShapes[] = {
    {"decode 1x1024", {1, 1023, 1, 32, 8, 128, 16}},
    {"decode 1x1080", {1, 1079, 1, 32, 8, 128, 16}},
    {"decode 1x4096", {1, 4095, 1, 32, 8, 128, 16}},
    {"decode 1x8192", {1, 8191, 1, 32, 8, 128, 16}},
    {"decode 1x8192 pages of 128", {1, 8191, 1, 32, 8, 128, 128}},
    {"decode 1x32768", {1, 32767, 1, 32, 8, 128, 16}},
    {"decode 8x1080", {8, 1079, 1, 32, 8, 128, 16}},
    {"decode 8x4096", {8, 4095, 1, 32, 8, 128, 16}},
    {"decode 64x4096", {64, 4095, 1, 32, 8, 128, 16}},
    {"decode 64x4096 pages of 128", {64, 4095, 1, 32, 8, 128, 128}},
    {"decode 64x1024", {64, 1023, 1, 32, 8, 128, 16}},
    {"decode 64x1080", {64, 1079, 1, 32, 8, 128, 16}},
    {"decode 64x4096 d=64", {64, 4095, 1, 32, 8, 64, 16}},
    {"decode 64x4096 d=256", {64, 4095, 1, 16, 4, 256, 16}},
    {"prefill 1x4096", {1, 0, 4096, 32, 8, 128, 16}},
    {"prefill 1x4096 pages of 128", {1, 0, 4096, 32, 8, 128, 128}},
    {"prefill 4x4096", {4, 0, 4096, 32, 8, 128, 16}},
    {"prefill 1x16384", {1, 0, 16384, 32, 8, 128, 16}},
    {"prefill 1x4096 64/8", {1, 0, 4096, 64, 8, 128, 16}},
    {"prefill 1x16384 64/8", {1, 0, 16384, 64, 8, 128, 16}},
    {"prefill 2048 on 14336", {1, 14336, 2048, 32, 8, 128, 16}},
    {"prefill 1x4096 d=64", {1, 0, 4096, 32, 8, 64, 16}},
    {"prefill 1x16384 d=64", {1, 0, 16384, 32, 8, 64, 16}},
    {"prefill 2048 on 14336 d=64", {1, 14336, 2048, 32, 8, 64, 16}},
    {"prefill 1x4096 d=256", {1, 0, 4096, 16, 4, 256, 16}},
    {"prefill 1x16384 d=256", {1, 0, 16384, 16, 4, 256, 16}},
    {"prefill 2048 on 14336 d=256", {1, 14336, 2048, 16, 4, 256, 16}},
};

void Report(const NamedShape& named, double seconds) {
  const AttentionBatch& shape = named.shape;
  std::printf("%-32s %10.2f us  %6.2f TB/s  %6.0f TFLOP/s\n", named.name, 1e6 * seconds,
              1e-12 * static_cast<double>(shape.KvBytes()) / seconds,
              1e-12 * shape.Flops() / seconds);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  int rounds = 15;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
  }
  for (const NamedShape& named : kShapes) {
    if (std::string(named.name).find(only) == std::string::npos) continue;
    const auto seconds = TimeCudaAttention({}, {&named.shape, 1}, rounds);
    if (!seconds.ok()) {
      std::fprintf(stderr, "%s\n", seconds.status().ToString().c_str());
      return 1;
    }
    Report(named, seconds->front());
  }
  return 0;
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) { return isobit::Main(argc, argv); }
