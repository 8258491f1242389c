#ifndef ISOBIT_RUNTIME_API_C_HANDLES_H_
#define ISOBIT_RUNTIME_API_C_HANDLES_H_

// What the opaque handles of isobit.h are.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/api/c/device.h"
#include "runtime/api/c/isobit.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/request.h"

namespace isobit::c {

// A finished request and what a receipt says besides.
struct CompletionRecord {
  Completion completion;
  SamplingParams sampling;
  bool receipt = false;
};

// The way from a request to its engine, which may be freed first. A callback must not become the
// last owner of the engine whose thread it runs on, so nobody but the handle owns one.
struct EngineGate {
  std::shared_mutex mutex;  // guards the pointer
  Engine* engine = nullptr;
};

// A request between the engine's thread and the callers. Shared by the handle and the callbacks.
struct RequestState {
  isobit_on_token on_token = nullptr;
  isobit_on_done on_done = nullptr;
  void* user_data = nullptr;
  SamplingParams sampling;
  bool receipt = false;
  std::shared_ptr<EngineGate> gate;

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::optional<RequestHandle> handle;  // once Submit has returned
  bool aborted = false;                 // by the caller or a callback
  std::optional<absl::StatusOr<Completion>> result;
  std::shared_ptr<const CompletionRecord> record;  // made by the first wait
  bool callbacks_over = false;

  // Soon; no effect after the end.
  void Cancel();
};

}  // namespace isobit::c

struct isobit_engine {
  std::shared_ptr<isobit::c::EngineGate> gate;
  isobit::c::DeviceOptions device;  // for new weights, too
  std::unique_ptr<isobit::Engine> engine;
};

struct isobit_request {
  std::shared_ptr<isobit::c::RequestState> state;
};

struct isobit_completion {
  std::shared_ptr<const isobit::c::CompletionRecord> record;
};

#endif  // ISOBIT_RUNTIME_API_C_HANDLES_H_
