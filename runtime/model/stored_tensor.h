#ifndef ISOBIT_RUNTIME_MODEL_STORED_TENSOR_H_
#define ISOBIT_RUNTIME_MODEL_STORED_TENSOR_H_

// Tensors in files, whatever the format.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/tensor_type.h"

namespace isobit {

// A tensor as stored. Rows are contiguous; `shape` has the outermost dimension first, so a weight
// matrix is {rows = outputs, columns = inputs}.
struct StoredTensor {
  std::string_view name;
  TensorType type;
  std::vector<int64_t> shape;
  const std::byte* data;  // unaligned; valid as long as the store
  size_t bytes;
};

// The tensors of one model. Thread-safe: const methods only.
class TensorStore {
 public:
  virtual ~TensorStore() = default;

  virtual const std::string& path() const = 0;  // for messages
  virtual const StoredTensor* FindTensor(std::string_view name) const = 0;
  virtual std::vector<const StoredTensor*> AllTensors() const = 0;  // in file order
  // Lets the kernel drop the tensor's pages from our memory; reading them again is allowed and
  // loads them from the file. Called after the last use of a tensor, so that loading a model does
  // not need the files and the weights in memory at once.
  virtual void Release(const StoredTensor& tensor) const = 0;
};

// "4 x 8", for messages.
std::string PrintShape(std::span<const int64_t> shape);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_STORED_TENSOR_H_
