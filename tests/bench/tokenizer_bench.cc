// Tokenizing a megabyte on one thread, for vocabularies of llama.cpp's models folder.
//
// Texts: "code" is the project's own sources, English with C++; "scripts" is
// golden/text/texts.json, short texts in many scripts, repeated; "a" is one letter 200,000 times.
// tokenizer_bench.py does the same with Hugging Face's tokenizers. usage: isobit_bench_tokenizer,
// with ISOBIT_TEST_VOCAB_DIR set if the vocabularies are not in build/vocab.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "nlohmann/json.hpp"
#include "runtime/model/gguf.h"
#include "runtime/text/tokenizer.h"

namespace isobit {
namespace {

constexpr size_t kBytes = 1'000'000;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Code() {
  std::vector<std::string> paths;
  for (const char* room : {"kernels", "runtime", "tests"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(ISOBIT_SOURCE_DIR "/") + room)) {
      const auto extension = entry.path().extension();
      if (extension == ".cc" || extension == ".h" || extension == ".md") {
        paths.push_back(entry.path().string());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const std::string& path : paths) text += ReadFile(path);
  return text.substr(0, std::min(kBytes, text.size()));
}

std::string Scripts() {
  const auto texts = nlohmann::json::parse(ReadFile(ISOBIT_SOURCE_DIR "/golden/text/texts.json"));
  std::string text;
  while (text.size() < kBytes) {
    for (const auto& part : texts) text += part.get_ref<const std::string&>() + "\n";
  }
  return text;
}

void Encode(benchmark::State& state, const std::string& vocabulary, const std::string& text) {
  const char* folder = std::getenv("ISOBIT_TEST_VOCAB_DIR");
  const std::string base = folder != nullptr ? folder : ISOBIT_SOURCE_DIR "/build/vocab";
  const auto file = GgufFile::Open(base + "/ggml-vocab-" + vocabulary + ".gguf");
  if (!file.ok()) return state.SkipWithError(std::string(file.status().message()).c_str());
  const auto tokenizer = Tokenizer::FromGguf(**file);
  if (!tokenizer.ok()) return state.SkipWithError("no tokenizer");
  EncodeOptions options;
  options.add_special = false;
  size_t tokens = 0;
  for (auto _ : state) {
    tokens = (*tokenizer)->Encode(text, options).value().size();
    benchmark::DoNotOptimize(tokens);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

void RegisterAll() {
  const std::pair<const char*, std::string> texts[] = {
      {"code", Code()}, {"scripts", Scripts()}, {"a", std::string(200'000, 'a')}};
  for (const char* vocabulary : {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "llama-spm"}) {
    for (const auto& [name, text] : texts) {
      benchmark::RegisterBenchmark(
          (std::string(vocabulary) + "/" + name).c_str(),
          [vocabulary = std::string(vocabulary), text = text](benchmark::State& state) {
            Encode(state, vocabulary, text);
          })
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  isobit::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
