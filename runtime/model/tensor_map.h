#ifndef ISOBIT_RUNTIME_MODEL_TENSOR_MAP_H_
#define ISOBIT_RUNTIME_MODEL_TENSOR_MAP_H_

// Where a model's tensors lie in its files: roles to stored tensors and rows.
//
// Thread safety: const after creation.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/model/config.h"
#include "runtime/model/family.h"
#include "runtime/model/stored_tensor.h"
#include "runtime/model/tensor_role.h"

namespace isobit {

class TensorMap {
 public:
  // Finds every tensor that the configuration asks for, and checks that the files hold these and no
  // others. InvalidArgument names a tensor that is missing or whose shape contradicts the
  // configuration, with both; Unimplemented one that nothing would read (a deviation that we don't
  // know), or of a type that can't be widened. `store` and `config` must outlive the map.
  static absl::StatusOr<TensorMap> Create(const TensorStore& store, const Family& family, bool gguf,
                                          const ModelConfig& config);

  // A matrix as bf16, rows in our order. The source must not outlive the store.
  MatrixSource Matrix(Role role, int64_t layer) const;
  // A vector in fp32, as stored but for a family's norms that are stored less one.
  std::vector<float> Vector(Role role, int64_t layer) const;
  // The tensor won't be read again.
  void Release(Role role, int64_t layer) const;

 private:
  struct Place {
    const StoredTensor* tensor = nullptr;
    int64_t first_row = 0;
  };

  TensorMap(const TensorStore& store, const Family& family, bool gguf, const ModelConfig& config)
      : store_(&store), family_(&family), gguf_(gguf), config_(&config) {}
  absl::Status Locate(const std::vector<Role>& roles, int64_t layer);
  absl::Status CheckStored(const StoredTensor& tensor, const std::vector<int64_t>& shape) const;
  absl::Status CheckNothingElse() const;
  absl::Status CheckTiedHead(const StoredTensor& head) const;
  std::string_view NameOfRole(Role role) const;
  std::string FullName(std::string_view name, int64_t layer) const;
  // The stored row of `row` of a role.
  int64_t StoredRow(Role role, int64_t row) const;
  const Place& At(Role role, int64_t layer) const {
    return places_[static_cast<size_t>(layer + 1)][static_cast<size_t>(role)];
  }

  const TensorStore* store_;
  const Family* family_;
  bool gguf_;
  const ModelConfig* config_;
  std::vector<std::vector<Place>> places_;  // [layer + 1][role]; [0] is the model's own
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_TENSOR_MAP_H_
