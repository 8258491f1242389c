// isobit guarantee: which operation, type and device is at which level.

#include "invariance/guarantee.h"

#include <cstdio>
#include <memory>

#include "tools/isobit/command.h"
#include "tools/isobit/log.h"

namespace isobit {

Command AddGuarantee(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "guarantee",
      "What is promised: a table of operations, types and devices with their levels, and the test "
      "that proves each.");
  return {command, [] {
            std::printf("%s", GuaranteeMarkdown().c_str());
            return FlushStandardOutput() ? kExitOk : kExitUnusable;
          }};
}

}  // namespace isobit
