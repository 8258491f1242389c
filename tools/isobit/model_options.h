#ifndef ISOBIT_TOOLS_ISOBIT_MODEL_OPTIONS_H_
#define ISOBIT_TOOLS_ISOBIT_MODEL_OPTIONS_H_

// The options that every command shares: which model, on which device, with how much of everything.

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "runtime/engine/engine.h"
#include "tools/isobit/command.h"

namespace isobit {

struct ModelOptions {
  std::string model;
  std::string shape;         // of commands that take one instead of a model: random weights
  int64_t shape_layers = 0;  // of the shape, the first ones; 0: all
  std::string device = "auto";
  CpuOptions cpu;
  CudaOptions cuda;
  bool no_prefix_cache = false;
  EngineOptions engine = {.audit_share = kDefaultAuditShare};
  std::string log_level = "warn";
  std::string log_file;
};

void AddModelOptions(CLI::App& command, ModelOptions& options);

// --shape: one of KnownShapes().
void AddShapeOption(CLI::App& command, std::string& shape, const std::string& help);

// The same, --layers and --model; a model or a shape is needed (CheckModelOrShape).
void AddModelOrShapeOptions(CLI::App& command, ModelOptions& options);
// InvalidArgument unless there is a model or a shape, and not both.
absl::Status CheckModelOrShape(const std::string& model, const std::string& shape);

// The backend of --device. InvalidArgument if --cpu-instructions asks for what the processor does
// not have; CreateCudaBackend's error if a GPU was asked for and can't be had.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const ModelOptions& options);

// The same, or FailedPrecondition if the backend's bits are not proven.
absl::StatusOr<std::unique_ptr<Backend>> CreateProvenBackend(const ModelOptions& options);

// An option that can't be is wrong use; everything else lies with the machine or the file.
ExitCode ExitCodeOf(const absl::Status& status);

// The model, or random weights in the shape.
absl::StatusOr<std::unique_ptr<Model>> OpenModel(const ModelOptions& options,
                                                 std::unique_ptr<Backend> backend);

// Sets up the log and loads the model, without an engine; errors as below.
std::unique_ptr<Model> LoadModel(const ModelOptions& options, ExitCode& exit_code);

// Sets up the log, loads the model and starts the engine. On an error it is logged, the result is
// null and `exit_code` says how to end.
std::unique_ptr<Engine> StartEngine(const ModelOptions& options, ExitCode& exit_code);

// Logs what audits found. kExitFailed if a completion came out otherwise when computed again.
ExitCode ReportAudits(const Engine& engine);

// Sets up the log alone.
ExitCode SetUpLog(const ModelOptions& options);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_MODEL_OPTIONS_H_
