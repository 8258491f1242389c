#ifndef ISOBIT_TOOLS_ISOBIT_COMMAND_H_
#define ISOBIT_TOOLS_ISOBIT_COMMAND_H_

// The subcommands of `isobit`. Each adds itself and its options to the command line and gives back
// what to call when it was chosen.

#include <functional>

#include "CLI/CLI.hpp"

namespace isobit {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,        // a difference, or some requests failed
  kExitWrongUse = 2,      // options that make no sense
  kExitUnusable = 3,      // a model or file that can't be used
  kExitInterrupted = 130  // as shells report SIGINT
};

struct Command {
  CLI::App* app;
  std::function<ExitCode()> run;
};

Command AddRun(CLI::App& app);
Command AddBatch(CLI::App& app);
Command AddReplay(CLI::App& app);
Command AddCheck(CLI::App& app);
Command AddAudit(CLI::App& app);
Command AddGuarantee(CLI::App& app);
Command AddOrder(CLI::App& app);
Command AddTokenize(CLI::App& app);
Command AddInspect(CLI::App& app);
Command AddBench(CLI::App& app);
Command AddRoofline(CLI::App& app);
Command AddTune(CLI::App& app);
Command AddServe(CLI::App& app);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_COMMAND_H_
