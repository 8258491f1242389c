#include "runtime/api/reloadable_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/model.h"

namespace isobit {
namespace {

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const std::string& path,
                                                   const DeviceOptions& device,
                                                   const EngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateDevice(device);
  if (!backend.ok()) return backend.status();
  absl::StatusOr<std::unique_ptr<Model>> model =
      Model::Load(path, *std::move(backend), options.max_model_len);
  if (!model.ok()) return model.status();
  return Engine::Create(*std::move(model), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateDevice(const DeviceOptions& options) {
  if (options.device == "reference") return CreateReferenceBackend();
  if (options.device == "cpu") return CreateCpuBackend(options.cpu);
  if (options.device == "cuda") return CreateCudaBackend({});
  if (options.device == "auto") {
    absl::StatusOr<std::unique_ptr<Backend>> cuda = CreateCudaBackend({});
    return cuda.ok() ? std::move(cuda) : CreateCpuBackend(options.cpu);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device must be auto, cpu, cuda or reference, got ", options.device));
}

absl::StatusOr<std::unique_ptr<ReloadableEngine>> ReloadableEngine::Load(
    const std::string& path, const DeviceOptions& device, const EngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = LoadEngine(path, device, options);
  if (!engine.ok()) return engine.status();
  return std::unique_ptr<ReloadableEngine>(
      new ReloadableEngine(device, options, *std::move(engine)));
}

ReloadableEngine::ReloadableEngine(const DeviceOptions& device, const EngineOptions& options,
                                   std::unique_ptr<Engine> engine)
    : device_(device), options_(options), current_(std::move(engine)) {}

ReloadableEngine::~ReloadableEngine() = default;

absl::StatusOr<ReloadableEngine::Ticket> ReloadableEngine::Submit(Request request,
                                                                  RequestCallbacks callbacks) {
  const std::shared_lock lock(mutex_);
  const absl::StatusOr<RequestHandle> handle =
      current_->Submit(std::move(request), std::move(callbacks));
  if (!handle.ok()) return handle.status();
  const Model& model = current_->model();
  return Ticket{generation_, *handle, model.digest(), model.config().name};
}

void ReloadableEngine::Cancel(const Ticket& ticket) {
  const std::shared_lock lock(mutex_);
  if (ticket.generation == generation_) {
    current_->Cancel(ticket.handle);
  } else if (ticket.generation + 1 == generation_ && draining_ != nullptr) {
    draining_->Cancel(ticket.handle);
  }
}

absl::Status ReloadableEngine::Reload(const std::string& path) {
  const std::lock_guard one_at_a_time(reloading_);
  absl::StatusOr<std::unique_ptr<Engine>> loaded = LoadEngine(path, device_, options_);
  if (!loaded.ok()) return loaded.status();
  std::unique_ptr<Engine> old;
  {
    const std::unique_lock lock(mutex_);
    old = std::exchange(current_, *std::move(loaded));
    draining_ = old.get();
    ++generation_;
  }
  old->Drain();
  const std::unique_lock lock(mutex_);
  draining_ = nullptr;
  return absl::OkStatus();  // `old` goes after the lock
}

}  // namespace isobit
