#ifndef ISOBIT_TESTS_KERNELS_CUDA_TWIN_BACKENDS_H_
#define ISOBIT_TESTS_KERNELS_CUDA_TWIN_BACKENDS_H_

// The CUDA backend and the reference side by side: the same inputs in both, outputs compared bit
// for bit.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {

// Skips where there is no GPU; fails where the backend can't be made for another reason.
class TwinBackends : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCudaBackend({});
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    cuda_ = *std::move(backend);
    reference_ = CreateReferenceBackend();
  }

  Backend& cuda() { return *cuda_; }
  Backend& reference() { return *reference_; }

  // An array in both backends.
  template <typename T>
  class Twin {
   public:
    Twin(TwinBackends& backends, const std::vector<T>& values) : backends_(&backends) {
      size_ = values.size();
      const size_t bytes = size_ * sizeof(T);
      // Never empty, so that every pointer is one.
      cuda_ = backends.cuda().Allocate(bytes + 16).value();
      reference_ = backends.reference().Allocate(bytes + 16).value();
      backends.cuda().Upload(values.data(), bytes, cuda_->data());
      backends.reference().Upload(values.data(), bytes, reference_->data());
    }

    T* cuda() const { return cuda_->template As<T>(); }
    T* reference() const { return reference_->template As<T>(); }

    std::vector<T> FromCuda() const {
      std::vector<T> values(size_);
      backends_->cuda().Download(cuda_->data(), size_ * sizeof(T), values.data());
      const absl::Status status = backends_->cuda().Synchronize();
      EXPECT_TRUE(status.ok()) << status;
      return values;
    }
    std::vector<T> FromReference() const {
      return std::vector<T>(reference(), reference() + size_);
    }

   private:
    TwinBackends* backends_;
    size_t size_;
    std::unique_ptr<Buffer> cuda_, reference_;
  };

  template <typename T>
  Twin<T> Both(const std::vector<T>& values) {
    return Twin<T>(*this, values);
  }
  // An output: every byte says that it was never written.
  template <typename T>
  Twin<T> Poisoned(int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    std::memset(static_cast<void*>(values.data()), 0xe7, values.size() * sizeof(T));
    return Both(values);
  }

  // Runs make_op(cuda side?) on each backend.
  template <typename MakeOp>
  void RunBoth(const MakeOp& make_op) {
    cuda().Run(make_op(true));
    reference().Run(make_op(false));
  }

 private:
  std::unique_ptr<Backend> cuda_, reference_;
};

// The pointer of the asked side.
template <typename Twin>
auto* Side(const Twin& twin, bool cuda) {
  return cuda ? twin.cuda() : twin.reference();
}

// Expects equal bytes; names the first element that differs, as row and column.
template <typename T>
void ExpectEqualBits(const std::vector<T>& actual, const std::vector<T>& expected, int64_t cols,
                     const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int64_t differences = 0, first = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) == 0) continue;
    if (differences++ == 0) first = static_cast<int64_t>(i);
  }
  if (differences == 0) return;
  uint32_t bits[2] = {0, 0};
  std::memcpy(&bits[0], &actual[static_cast<size_t>(first)], std::min<size_t>(sizeof(T), 4));
  std::memcpy(&bits[1], &expected[static_cast<size_t>(first)], std::min<size_t>(sizeof(T), 4));
  ADD_FAILURE() << what << ": " << differences << " of " << actual.size()
                << " differ, first at row " << first / cols << ", column " << first % cols
                << std::hex << ": got 0x" << bits[0] << ", expected 0x" << bits[1];
}

template <typename Twin>
void ExpectEqualBits(const Twin& twin, int64_t cols, const std::string& what) {
  ExpectEqualBits(twin.FromCuda(), twin.FromReference(), cols, what);
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CUDA_TWIN_BACKENDS_H_
