// write_tiny_model PATH [SEED [tools]]: a tiny model as a file of that name, for tests of other
// languages. With "tools", its chat template takes tools too.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/tiny_model.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4 || (argc == 4 && std::strcmp(argv[3], "tools") != 0)) {
    std::fprintf(stderr, "usage: write_tiny_model PATH [SEED [tools]]\n");
    return 2;
  }
  isobit::TinyModelOptions options;
  if (argc >= 3) options.seed = std::strtoull(argv[2], nullptr, 10);
  if (argc == 4) options.chat_template = isobit::kTinyToolTemplate;
  const std::string path = argv[1];
  // Copied beside and renamed, so that nobody reads half of it.
  const std::string draft = path + ".draft";
  std::filesystem::copy_file(isobit::WriteTinyModel(options), draft,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(draft, path);
}
