// runtime/server/SERVER.md: every snippet is run as it stands, with other ports.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/tiny_model.h"
#include "tests/tools/isobit/command_fixture.h"
#include "tests/tools/isobit/nginx_config.h"

namespace isobit {
namespace {

struct Snippet {
  std::string language;  // "sh", "sh serve", ...
  std::string text;
};

std::vector<Snippet> ReadSnippets(const std::string& path) {
  std::vector<Snippet> snippets;
  bool inside = false;
  const std::string document = TempFolder::Read(path);
  for (const auto& line : absl::StrSplit(document, '\n')) {
    const std::string text(line.data(), line.size());
    if (text.starts_with("```")) {
      if (!inside) snippets.push_back({text.substr(3), ""});
      inside = !inside;
    } else if (inside) {
      snippets.back().text += text + "\n";
    }
  }
  return snippets;
}

class ServerDocsTest : public CommandTest {};

TEST_F(ServerDocsTest, EverySnippetRuns) {
  const std::string source = ISOBIT_SOURCE_DIR;
  const std::string python = ProgramPath(kOpenAiPython);
  const std::string nginx = ProgramPath(kNginx);
  const std::string harness = ProgramPath(kLmEvalPrograms);
  ASSERT_TRUE(std::filesystem::exists(python) && std::filesystem::exists(nginx))
      << "run tools/setup.sh";
  const std::string model = WriteTinyModel();
  const std::vector<Snippet> snippets = ReadSnippets(source + "/runtime/server/SERVER.md");
  ASSERT_FALSE(snippets.empty());
  ASSERT_EQ(snippets[0].language, "sh serve");

  // The server of the page, at ports that are free.
  const std::string command = absl::StrReplaceAll(
      snippets[0].text, {{"isobit serve", absl::StrCat("exec ", IsobitPath(), " serve")},
                         {"MODEL", model},
                         {"8000", "0"},
                         {"9000", "0"}});
  const std::string out = folder_.Path("served");
  const Process server(folder_, {"/bin/bash", "-c", command}, "", out);
  ASSERT_TRUE(server.WaitForOutput(
      [](const std::string& text) { return std::ranges::count(text, '\n') == 2; }));
  const std::vector<std::string> urls = absl::StrSplit(TempFolder::Read(out), '\n');
  const std::map<std::string, std::string> places = {
      {"http://localhost:8000", urls[0]}, {"http://localhost:9000", urls[1]}, {"MODEL", model}};

  std::map<std::string, int> ran;
  for (const Snippet& snippet : snippets) {
    ++ran[snippet.language];
    const std::string text = absl::StrReplaceAll(snippet.text, places);
    ProcessResult result;
    if (snippet.language == "sh") {
      result = RunProcess(folder_, {"/bin/bash", "-e", "-c", text});
    } else if (snippet.language == "python") {
      result = RunProcess(folder_, {python, "-c", text});
    } else if (snippet.language == "sh lm_eval") {
      // lm_eval_test reports it if this is not there.
      if (!std::filesystem::exists(harness)) continue;
      result =
          RunProcess(folder_, {"/usr/bin/env", absl::StrCat("PATH=", harness, ":/usr/bin:/bin"),
                               absl::StrCat("HF_HOME=", folder_.Path("hf")), "/bin/bash", "-e",
                               "-c", absl::StrCat("cd ", source, "\n", text)});
    } else if (snippet.language == "nginx") {
      const std::string folder = folder_.Path("");
      const std::string config = folder_.Write("nginx.conf", NginxConfig(folder, text));
      result = RunProcess(folder_, {nginx, "-t", "-q", "-e", "stderr", "-c", config, "-p", folder});
    } else {
      ASSERT_EQ(snippet.language, "sh serve") << "a snippet that no test runs";
      continue;
    }
    EXPECT_EQ(result.exit_code, 0) << text << result.out << result.err;
  }
  EXPECT_EQ(ran["sh serve"], 1);
  EXPECT_GE(ran["sh"], 3);
  EXPECT_GE(ran["python"], 2);
  EXPECT_EQ(ran["nginx"], 1);
  EXPECT_EQ(ran["sh lm_eval"], 1);
}

}  // namespace
}  // namespace isobit
