#ifndef ISOBIT_RUNTIME_API_RELOADABLE_ENGINE_H_
#define ISOBIT_RUNTIME_API_RELOADABLE_ENGINE_H_

// An engine whose weights can be exchanged while programs use it: what the C interface hands out.
//
// Thread safety: every method may be called from any thread, and from callbacks all but Reload and
// the destructor.

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "runtime/engine/engine.h"

namespace isobit {

struct DeviceOptions {
  std::string device = "auto";  // "auto" (CUDA where it can be used), "cpu", "cuda", "reference"
  CpuOptions cpu;
};

// InvalidArgument for a device of another name, and as the functions of kernels/backends.h.
absl::StatusOr<std::unique_ptr<Backend>> CreateDevice(const DeviceOptions& options);

class ReloadableEngine {
 public:
  // A request, and which weights it runs on.
  struct Ticket {
    uint64_t generation = 0;
    RequestHandle handle = 0;
    Digest model_digest;
    std::string model_name;
  };

  // Errors as those of CreateDevice, Model::Load and Engine::Create.
  static absl::StatusOr<std::unique_ptr<ReloadableEngine>> Load(const std::string& path,
                                                                const DeviceOptions& device,
                                                                const EngineOptions& options);
  // Cancels what is left: every callback still comes.
  ~ReloadableEngine();

  // As Engine's.
  absl::StatusOr<Ticket> Submit(Request request, RequestCallbacks callbacks);
  void Cancel(const Ticket& ticket);

  // Loads other weights and has them serve what is submitted from then on. Requests that came
  // before finish on the old ones; waits for them. On an error the old weights stay. Both are in
  // memory meanwhile.
  absl::Status Reload(const std::string& path);

  // Calls `use` with the present engine, which stays until it returns.
  template <typename Use>
  auto With(const Use& use) const {
    const std::shared_lock lock(mutex_);
    return use(static_cast<const Engine&>(*current_));
  }

 private:
  ReloadableEngine(const DeviceOptions& device, const EngineOptions& options,
                   std::unique_ptr<Engine> engine);

  const DeviceOptions device_;
  const EngineOptions options_;

  std::mutex reloading_;  // one at a time
  // Shared by whoever uses an engine, held alone to exchange it. Never held while waiting.
  mutable std::shared_mutex mutex_;
  std::unique_ptr<Engine> current_;
  Engine* draining_ = nullptr;  // the one before, while its last requests run
  uint64_t generation_ = 1;     // of current_
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_RELOADABLE_ENGINE_H_
