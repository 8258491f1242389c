// RopeKvWrite of the CUDA backend against the reference.

#include "tests/kernels/cuda/rope_twins.h"

namespace isobit {
namespace {

class CudaRopeTest : public RopeTwins {
 protected:
  void Check(const RopeCase& c) {
    RopeTwins::Check(c, [this](bool on_cuda, const RopeKvWrite& rope) {
      (on_cuda ? cuda() : reference()).Run(rope);
    });
  }
};

TEST_F(CudaRopeTest, EveryHeadDim) {
  for (int head_dim : cuda::kHeadDims) {
    Check({4, 2, head_dim, 16, head_dim, false, {{0, 3}, {17, 1}, {60, 9}}});
    Check({6, 1, head_dim, 32, head_dim, true, {{31, 2}, {299, 1}}});
  }
}

TEST_F(CudaRopeTest, PartialAndNoRotation) {
  Check({3, 3, 80, 16, 32, false, {{5, 4}}});
  Check({3, 3, 64, 16, 20, true, {{250, 4}}});
  Check({2, 1, 128, 64, 0, false, {{63, 3}}});
  Check({2, 1, 128, 64, 0, true, {{63, 3}}});
}

TEST_F(CudaRopeTest, PageSizes) {
  for (int page_tokens : {16, 48, 64, 112, 128}) {
    Check({2, 2, 64, page_tokens, 64, false, {{0, 70}, {110, 30}}});
  }
}

// Enough rows that a warp takes several heads.
TEST_F(CudaRopeTest, ManyRows) { Check({9, 3, 64, 16, 64, true, {{0, 150}, {3, 140}}}); }

}  // namespace
}  // namespace isobit
