// The isobit command. Each subcommand is a file beside this one.

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/numerics/contract_version.h"
#include "tools/isobit/command.h"
#include "tools/isobit/version.h"

namespace {

// A file that is opened later must not become standard output by chance. Reading from or writing to
// what the caller closed is an error then, as it should be.
void OpenStandardDescriptors() {
  while (true) {
    const int fd = open("/dev/null", O_RDONLY);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {
      close(fd);
      return;
    }
  }
}

int RunCommand(int argc, char** argv) {
  using namespace isobit;
  CLI::App app{
      "Deterministic, batch-invariant inference: the same request gives the same bits, alone or in "
      "any company.\n"
      "Exit codes: 0 all well, 1 a difference or some requests failed, 2 wrong use, 3 a model or "
      "file that can't be used, 130 interrupted."};
  app.name("isobit");
  app.require_subcommand(1);
  app.set_version_flag("--version", absl::StrCat(kBuildName, " (contract ", kContractVersion, ")"));
  const std::vector<Command> commands = {
      AddRun(app),       AddBatch(app),    AddReplay(app),   AddCheck(app),   AddAudit(app),
      AddGuarantee(app), AddOrder(app),    AddTokenize(app), AddInspect(app), AddServe(app),
      AddBench(app),     AddRoofline(app), AddTune(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitWrongUse;  // --help ends here too
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kExitWrongUse;
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardDescriptors();
  std::signal(SIGPIPE, SIG_IGN);  // the write to a closed pipe fails instead, and is reported
  try {
    return RunCommand(argc, argv);
  } catch (const std::exception& error) {  // of the standard library: mostly no memory left
    std::fprintf(stderr, "isobit: error: %s\n", error.what());
    return isobit::kExitUnusable;
  }
}
