// isobit tune: measures which GEMM kernel is fastest for a model on this GPU.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/random_checkpoint.h"
#include "kernels/backends.h"
#include "runtime/model/checkpoint.h"
#include "runtime/model/forward.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/output_file.h"

namespace isobit {
namespace {

struct TuneOptions {
  std::string model;
  std::string shape;  // instead of a model
  std::string output;
  int64_t max_rows = 8192;
};

absl::StatusOr<std::vector<GemmShape>> ShapesOf(const TuneOptions& options) {
  if (!options.shape.empty()) return GemmShapesOf(KnownShapes().at(options.shape));
  auto checkpoint = Checkpoint::Open(options.model);
  if (!checkpoint.ok()) return checkpoint.status();
  return GemmShapesOf((*checkpoint)->config());
}

ExitCode RunTune(const TuneOptions& options) {
  if (absl::Status s = CheckModelOrShape(options.model, options.shape); !s.ok()) {
    LogError(s);
    return kExitWrongUse;
  }
  const auto shapes = ShapesOf(options);
  if (!shapes.ok()) {
    LogError(shapes.status());
    return kExitUnusable;
  }
  const auto say = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  const auto plans = TuneCudaGemms({}, *shapes, options.max_rows, say);
  const absl::Status status =
      plans.ok() ? WriteOutput(options.output, plans->text) : plans.status();
  if (!status.ok()) {
    LogError(status);
    return kExitUnusable;
  }
  for (const std::string& rejected : plans->rejected) {
    LogError(absl::StrCat("a kernel is rejected, its bits are not the contract's: ", rejected));
  }
  return plans->rejected.empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command AddTune(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tune",
      "Measures which GEMM kernel is fastest on this GPU for each shape and batch of a model, and "
      "keeps it in a file for --gemm-plans. Kernels whose bits differ are rejected and listed.");
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("-m,--model", options->model, "The model: a GGUF file or a folder");
  AddShapeOption(*command, options->shape, "Instead of a model: the shape of this one");
  command->add_option("-o,--output", options->output, "The file that is written")->required();
  command
      ->add_option("--max-rows", options->max_rows,
                   "Most tokens of a step that are measured; logits are to 512")
      ->check(CLI::Range(1, 16384))
      ->capture_default_str();
  return {command, [options] { return RunTune(*options); }};
}

}  // namespace isobit
