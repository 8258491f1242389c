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
  // The kernel may start before the one in front of it has ended (programmatic dependent launch).
  bool early_start = true;
};

// Fills in how `function` is launched; `config` points into `attributes`.
inline cudaError_t Configure(const void* function, const LaunchShape& shape,
                             cudaLaunchAttribute (&attributes)[2], cudaLaunchConfig_t* config) {
  constexpr int kDefaultSharedBytes = 48 << 10;
  if (shape.shared_bytes > kDefaultSharedBytes) {
    const cudaError_t error = cudaFuncSetAttribute(
        function, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
    if (error != cudaSuccess) return error;
  }
  unsigned count = 0;
  if (shape.early_start) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
    ++count;
  }
  config->gridDim = shape.grid;
  config->blockDim = dim3(static_cast<unsigned>(shape.threads));
  config->dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config->attrs = attributes;
  config->numAttrs = count;
  return cudaSuccess;
}

// Queues kernel(arguments...) and returns the launch's error. With an early start, a kernel calls
// sm90::WaitForPriorKernels() in all its threads before it touches global memory that the work in
// front of it in the stream, back to the last launch without one, reads or writes.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                   std::type_identity_t<Parameters>... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  if (cudaError_t e = Configure(function, shape, attributes, &config); e != cudaSuccess) return e;
  config.stream = stream;
  void* pointers[] = {&arguments...};
  return cudaLaunchKernelExC(&config, function, pointers);
}

// How many clusters of this shape the device holds at once.
inline cudaError_t CountClusters(const void* function, const LaunchShape& shape, int* clusters) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  if (cudaError_t e = Configure(function, shape, attributes, &config); e != cudaSuccess) return e;
  return cudaOccupancyMaxActiveClusters(clusters, function, &config);
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_LAUNCH_H_
