#ifndef ISOBIT_KERNELS_CUDA_LAUNCH_H_
#define ISOBIT_KERNELS_CUDA_LAUNCH_H_

// Kernel launches in a stream.

#include <cuda_runtime_api.h>

#include <type_traits>

namespace isobit::cuda {

struct LaunchShape {
  dim3 grid;
  int threads = 0;       // a CTA
  int shared_bytes = 0;  // dynamic, a CTA
  int cluster = 1;       // CTAs of a cluster, along x
};

// Queues kernel(arguments...) and returns the launch's error. The kernel may start before the one
// in front of it in the stream has ended (programmatic dependent launch). So each kernel launched
// by this calls sm90::WaitForPriorKernels() in all its threads before it touches global memory.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                   std::type_identity_t<Parameters>... arguments) {
  constexpr int kDefaultSharedBytes = 48 << 10;
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (shape.shared_bytes > kDefaultSharedBytes) {
    const cudaError_t error = cudaFuncSetAttribute(
        function, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster > 1 ? 2 : 1;
  void* pointers[] = {&arguments...};
  return cudaLaunchKernelExC(&config, function, pointers);
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_LAUNCH_H_
