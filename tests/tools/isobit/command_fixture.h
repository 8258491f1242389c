#ifndef ISOBIT_TESTS_TOOLS_ISOBIT_COMMAND_FIXTURE_H_
#define ISOBIT_TESTS_TOOLS_ISOBIT_COMMAND_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/tools/isobit/process.h"

namespace isobit {

// The command on one model, in a folder of its own.
class CommandTest : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  // `isobit COMMAND -m MODEL ARGUMENTS`
  static Arguments CommandLineOn(const std::string& model, const std::string& command,
                                 const Arguments& arguments) {
    Arguments line = {IsobitPath(), command, "-m", model};
    line.insert(line.end(), arguments.begin(), arguments.end());
    return line;
  }
  Arguments CommandLine(const std::string& command, const Arguments& arguments) const {
    return CommandLineOn(model_, command, arguments);
  }
  ProcessResult RunOn(const std::string& model, const std::string& command,
                      const Arguments& arguments, std::string_view input = "") const {
    return RunProcess(folder_, CommandLineOn(model, command, arguments), input);
  }
  ProcessResult Run(const std::string& command, const Arguments& arguments,
                    std::string_view input = "") const {
    return RunOn(model_, command, arguments, input);
  }

  // Answers of `batch` to these requests, one a line.
  std::vector<nlohmann::json> Batch(std::string_view requests, const Arguments& options = {},
                                    int expected_exit = 0) const {
    Arguments arguments = {"-", "-o", "-"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult result = Run("batch", arguments, requests);
    EXPECT_EQ(result.exit_code, expected_exit) << result.err;
    return ParseLines(result.out);
  }

  // Every line, without what depends on the schedule. Fails on half a line.
  static std::vector<nlohmann::json> ParseLines(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.back() == '\n') << "the last line is torn";
    std::vector<nlohmann::json> lines;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      nlohmann::json line = nlohmann::json::parse(text.substr(begin, end - begin));
      if (line.contains("usage")) line["usage"].erase("cached_tokens");
      lines.push_back(std::move(line));
      begin = end + 1;
    }
    return lines;
  }

  TempFolder folder_;
  std::string model_;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_TOOLS_ISOBIT_COMMAND_FIXTURE_H_
