#ifndef ISOBIT_TESTS_TOOLS_ISOBIT_SERVE_FIXTURE_H_
#define ISOBIT_TESTS_TOOLS_ISOBIT_SERVE_FIXTURE_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/tools/isobit/command_fixture.h"

namespace isobit {

// `isobit serve` as a process of its own.
class ServeTest : public CommandTest {
 protected:
  // A server at a free port; `url` and `port` say where.
  struct Served {
    std::unique_ptr<Process> process;
    std::string url;
    int port = 0;
  };
  Served Serve(const Arguments& options = {}) {
    Arguments arguments = {"--port", "0", "--served-model-name", "served"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    Served served;
    const std::string out = folder_.Path(absl::StrCat("served.", ++servers_));
    served.process = std::make_unique<Process>(folder_, CommandLine("serve", arguments), "", out);
    EXPECT_TRUE(served.process->WaitForOutput([](const std::string& text) {
      return text.find('\n') != std::string::npos;
    })) << served.process->Wait().err;
    const std::string line = TempFolder::Read(out);
    served.url = line.substr(0, line.find('\n'));
    served.port = std::stoi(served.url.substr(served.url.rfind(':') + 1));
    return served;
  }

  int servers_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_TOOLS_ISOBIT_SERVE_FIXTURE_H_
