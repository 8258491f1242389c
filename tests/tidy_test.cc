// Rules that a compiler does not know and a reviewer may miss: nothing that decides bits may use
// fast math, float atomics, a clock, chance or the order of a hash map, and no order of a sum may
// read the batch. And how files are named and how long they may be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace isobit {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

// ---- Rules

struct Exception {
  std::string file;     // or a folder, with '/' at its end
  std::string in_line;  // part of the line
  std::string why;
};

struct Rule {
  std::string name;
  std::string needle;   // a line without it is not looked at: regular expressions are slow
  std::string pattern;  // of a line of code, comments taken out
  std::vector<Exception> exceptions;
};

// For sources of kernels/ and runtime/.
const std::vector<Rule>& CodeRules() {
  static const std::vector<Rule> rules = {
      {"float atomic", "atomic", R"(std::atomic(_ref)?<\s*(float|double)\b)", {}},
      // The addends of integer counts; anything else has to be named here.
      {"float atomic",
       "atomicAdd",
       R"(^(?!.*(,\s*-?\d+u?l*\)|Counter\{)).*atomicAdd\()",
       {{"kernels/cuda/softmax_row.cuh", "histogram", "counts are integers"}}},
      {"float atomic",
       "add",
       R"(\b(red|atom|multimem)\.[\w.:]*add[\w.:]*\.(bf16|f16|f32|f64))",
       {}},
      {"fast math",
       "__",
       R"(__(expf?|exp10f|logf?|log2f|log10f|powf|sinf|cosf|tanf|fdividef)\()",
       {}},
      {"fast math", "pragma", R"(#\s*pragma\s+(STDC\s+FP_CONTRACT\s+ON|GCC\s+optimize|omp\b))", {}},
      {"fast math", "optimize", R"(__attribute__\s*\(\(\s*optimize)", {}},
      {"order left open", "reduce", R"(std::(transform_)?reduce\b)", {}},
      {"order left open", "execution", R"(std::execution::)", {}},
      // Of libraries of mathematics only what IEEE 754 defines exactly may be used: sqrt, fma,
      // ldexp.
      {"fast math",
       "approx",
       R"(\.approx\b)",
       {{"kernels/cuda/sm90/convert.h", "asm(", "checked against exact results by its callers"},
        {"kernels/cuda/sm90/exp2.h", "asm(", "rounded to bf16 far from every border: contract 4"}}},
      {"fast math",
       "Approximate",
       R"(\bApproximate\w+\()",
       {{"kernels/cuda/gate.cuh", "sm90::Approximate",
         "near a border the exact function runs"},
        {"kernels/cuda/sm90/convert.h", "__device__", "defined here"}}},
      {"order of addresses", "*", R"(std::(map|set)<\s*(const\s+)?[\w:]+\s*\*)", {}},
      {"order of addresses", "std::hash", R"(std::hash<)", {}},
      {"function of libm",
       "std::",
       R"(std::(exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|cbrt|erf)f?\()",
       {{"runtime/text/jinja/arithmetic.cc", "std::pow",
         "text of a template, before it is tokens"}}},
      {"function of libm",
       "f(",
       R"((^|[^\w.:>])(exp|exp2|log|log2|log10|pow|sin|cos|tan|tanh|erf)f\()",
       {}},
      {"clock",
       "chrono",
       R"(\bchrono\b)",
       {{"runtime/server/", "", "waits for networks and measures; no request learns of it"},
        {"kernels/moment.cc", "#include <chrono>", "times operations for profilers"},
        {"kernels/moment.cc", "using Clock = std::chrono::steady_clock;", "the same"},
        {"kernels/moment.cc",
         "return std::chrono::duration<double>(static_cast<const HostMoment&>(end).time -",
         "the same"},
        {"runtime/api/c/request.cc", "#include <chrono>", "how long a caller waits for an end"},
        {"runtime/api/c/request.cc", "std::chrono::milliseconds(timeout_ms)", "the same"},
        {"runtime/python/wakeups.cc", "#include <chrono>", "the same"},
        {"runtime/python/wakeups.cc", "std::chrono::milliseconds(timeout_ms)", "the same"}}},
      {"clock",
       "absl::",
       R"(absl::(Now|GetCurrentTimeNanos)\b)",
       {{"runtime/server/", "", "as above"}}},
      {"clock", "clock", R"(\b(clock|clock64|clock_gettime|__rdtsc|globaltimer)\b\s*\()", {}},
      {"clock", "timer", R"(%globaltimer|%clock)", {}},
      {"clock",
       "time",
       R"(\b(gettimeofday|time)\s*\((nullptr|NULL|0|&))",
       {{"runtime/text/chat_template.cc", "std::time(nullptr)",
         "a template may write the date; ids of the prompt are what is recorded and replayed"}}},
      {"chance",
       "rand",
       R"(\b(rand|srand|random|drand48)\s*\(|\brandom_device|\bcurand)",
       {{"runtime/engine/engine.cc", "std::random_device device;",
         "draws the seed of a request that names none; the seed is returned"},
        {"runtime/server/generation_handlers.cc", "std::random_device device;",
         "the same, one for all prompts of a request"},
        {"runtime/server/network.cc", "of_process = std::random_device", "names of requests"}}},
      {"chance", "mt19937", R"(\bmt19937)", {}},
      {"chance", "random_shuffle", R"(random_shuffle)", {}},
  };
  return rules;
}

// The half of a plan that decides an order is constants. For sources of kernels/: nobody cuts a sum
// by other measures than theirs.
const std::vector<Rule>& OrderRules() {
  static const std::vector<Rule> rules = {
      {"order constant set outside of kernels/numerics",
       "=",
       R"(\b(kDotTerms|kSplitKeys|kBlockKeys|kBucketStep)\s*=[^=])",
       {}},
      {"sum over K split", "plit", R"(\b([sS]plit_?[kK]|num_splits|kv_splits|k_splits)\b)", {}},
      {"sum over K split", "K", R"(\b(SplitK|StreamK|SliceK)\b)", {}},
      {"sum over K split", "_k", R"(\b(stream_k|slice_k)\b)", {}},
  };
  return rules;
}

// Files that look at what others compute, to turn it down.
bool MayNameOtherOrders(const fs::path& file) {
  return file.filename().string().starts_with("qualify_cublaslt");
}

// For sources of kernels/numerics: an order that is written there can't read a schedule, because it
// has no name for any part of one.
const std::vector<Rule>& NumericsRules() {
  static const std::vector<Rule> rules = {
      {"order reads the schedule",
       "",
       R"(\b(batch\w*|rows|num_rows|slots?|pages?|page_\w+|num_seqs|sequences?|threads?|threadIdx|)"
       R"(blockIdx|gridDim|chunks?|streams?)\b)",
       {}},
      // Constants of an order are literals.
      {"order constant is computed",
       "=",
       R"(\b(kDotTerms|kSplitKeys|kBlockKeys|kBucketStep|kLanes)\s*=(?!\s*\d+;))",
       {}},
  };
  return rules;
}

// For build files everywhere.
const std::vector<Rule>& BuildRules() {
  static const std::vector<Rule> rules = {
      {"fast math",
       "-",
       R"(-O(fast)\b|-f(fast-math|unsafe-math-optimizations|associative-math|reciprocal-math|finite-math-only|no-signed-zeros|no-signaling-nans)\b)",
       {}},
      {"fast math", "use_fast_math", R"(-?-use_fast_math)", {}},
      {"fast math", "=", R"(-?-ftz=true|-?-prec-(div|sqrt)=false|-?-fmad=true)", {}},
      {"fast math", "contract", R"(-ffp-contract=(fast|on))", {}},
      {"fast math", "march", R"(-m(arch|tune)=native)", {}},
  };
  return rules;
}

constexpr int kLongestFile = 800;  // lines

// ---- Reading

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Comments become blanks; lines stay where they are.
std::string WithoutComments(std::string text) {
  enum class In { kCode, kLine, kBlock, kString } in = In::kCode;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (in == In::kCode && c == '/' && next == '/') in = In::kLine;
    if (in == In::kCode && c == '/' && next == '*') in = In::kBlock;
    if (in == In::kCode && c == '"') {
      in = In::kString;
    } else if (in == In::kString) {
      if (c == '\\') ++i;
      if (c == '"' || c == '\n') in = In::kCode;
    } else if (in == In::kLine) {
      if (c == '\n') in = In::kCode;
    } else if (in == In::kBlock && c == '*' && next == '/') {
      text[i] = text[i + 1] = ' ';
      in = In::kCode;
      ++i;
      continue;
    }
    if ((in == In::kLine || in == In::kBlock) && c != '\n') text[i] = ' ';
  }
  return text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool IsSource(const fs::path& path) {
  static const std::set<std::string> extensions = {".h", ".cc",  ".cu", ".cuh",
                                                   ".c", ".hpp", ".cpp"};
  return extensions.contains(path.extension().string());
}

bool IsBuildFile(const fs::path& path) {
  return path.filename() == "CMakeLists.txt" || path.filename() == "CMakePresets.json" ||
         path.extension() == ".cmake";
}

// Relative paths below `rooms`, and of the files in the root itself.
std::vector<fs::path> Files(const std::vector<std::string>& rooms) {
  const fs::path root = ISOBIT_SOURCE_DIR;
  std::vector<fs::path> files;
  for (const std::string& room : rooms) {
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), root));
    }
  }
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), root));
  }
  std::ranges::sort(files);
  return files;
}

const std::vector<std::string> kArithmetic = {"kernels", "runtime"};
const std::vector<std::string> kAllRooms = {"kernels", "runtime", "invariance", "tools", "tests"};

// ---- Checking

std::vector<std::string> Violations(const std::string& file, const std::string& text,
                                    const std::vector<Rule>& rules) {
  static std::map<std::string, std::regex> compiled;
  std::vector<std::string> found;
  const std::vector<std::string> lines = Lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const Rule& rule : rules) {
      if (lines[i].find(rule.needle) == std::string::npos) continue;
      const auto [pattern, inserted] = compiled.try_emplace(rule.pattern, rule.pattern);
      if (!std::regex_search(lines[i], pattern->second)) continue;
      const bool allowed = std::ranges::any_of(rule.exceptions, [&](const Exception& e) {
        const bool here = e.file.back() == '/' ? file.starts_with(e.file) : file == e.file;
        return here && lines[i].find(e.in_line) != std::string::npos;
      });
      if (!allowed) found.push_back(file + ":" + std::to_string(i + 1) + ": " + rule.name);
    }
  }
  return found;
}

// Names of variables whose type is a container without an order.
std::set<std::string> HashContainers(const std::string& code) {
  std::set<std::string> names;
  static const std::regex type(R"((unordered|flat_hash|node_hash)_(map|set)<)");
  for (std::sregex_iterator it(code.begin(), code.end(), type), end; it != end; ++it) {
    auto at = static_cast<size_t>(it->position() + it->length());
    for (int depth = 1; at < code.size() && depth > 0; ++at) {
      depth += code[at] == '<' ? 1 : code[at] == '>' ? -1 : 0;
    }
    while (at < code.size() && (std::isspace(static_cast<unsigned char>(code[at])) ||
                                code[at] == '&' || code[at] == '*')) {
      ++at;
    }
    std::string name;
    while (at < code.size() &&
           (std::isalnum(static_cast<unsigned char>(code[at])) || code[at] == '_')) {
      name += code[at++];
    }
    if (!name.empty()) names.insert(name);
  }
  return names;
}

// Lines that walk one of `names`.
std::vector<std::string> Walks(const std::string& file, const std::string& code,
                               const std::set<std::string>& names) {
  std::vector<std::string> found;
  const std::vector<std::string> lines = Lines(code);
  for (const std::string& name : names) {
    const std::regex walk("(for\\s*\\(.*:\\s*([\\w]+(\\.|->))*" + name + "\\))|\\b" + name +
                          "\\.c?begin\\(");
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].find(name) == std::string::npos) continue;
      if (std::regex_search(lines[i], walk)) {
        found.push_back(file + ":" + std::to_string(i + 1) + ": walks " + name +
                        ", which has no order");
      }
    }
  }
  return found;
}

bool HasVagueName(const fs::path& path) {
  static const std::regex vague(R"((^|[_.-])(utils?|helpers?|common|misc|stuff|tmp)([_.-]|$))");
  return std::ranges::any_of(
      path, [](const fs::path& part) { return std::regex_search(part.string(), vague); });
}

TEST(Tidy, NothingThatDecidesBitsIsLeftToChance) {
  std::vector<std::string> found;
  int sources = 0;
  for (const fs::path& file : Files(kArithmetic)) {
    if (!IsSource(file)) continue;
    ++sources;
    const std::string code = WithoutComments(Read(fs::path(ISOBIT_SOURCE_DIR) / file));
    const auto more = Violations(file.generic_string(), code, CodeRules());
    found.insert(found.end(), more.begin(), more.end());
  }
  EXPECT_GT(sources, 50);
  EXPECT_THAT(found, IsEmpty());
}

TEST(Tidy, NoOrderReadsTheBatch) {
  std::vector<std::string> found;
  int numerics = 0, constants = 0;
  for (const fs::path& file : Files({"kernels"})) {
    if (!IsSource(file) || MayNameOtherOrders(file)) continue;
    const std::string name = file.generic_string();
    const bool is_numerics = name.starts_with("kernels/numerics/");
    std::string code = WithoutComments(Read(fs::path(ISOBIT_SOURCE_DIR) / file));
    if (is_numerics) {
      ++numerics;
      for (const Rule& rule : OrderRules()) {
        constants += static_cast<int>(Violations(name, code, {rule}).size());
      }
    }
    const auto more = Violations(name, code, is_numerics ? NumericsRules() : OrderRules());
    found.insert(found.end(), more.begin(), more.end());
  }
  EXPECT_GT(numerics, 8);
  EXPECT_EQ(constants, 4) << "an order constant is missing, or defined twice";
  EXPECT_THAT(found, IsEmpty());
}

TEST(Tidy, NoHashContainerIsWalked) {
  // A member is declared in one file and used in others of its folder.
  std::map<fs::path, std::set<std::string>> names;
  std::map<fs::path, std::string> code;
  for (const fs::path& file : Files(kArithmetic)) {
    if (!IsSource(file)) continue;
    code[file] = WithoutComments(Read(fs::path(ISOBIT_SOURCE_DIR) / file));
    names[file.parent_path()].merge(HashContainers(code[file]));
  }
  std::vector<std::string> found;
  size_t containers = 0;
  for (const auto& [folder, in_folder] : names) containers += in_folder.size();
  for (const auto& [file, text] : code) {
    const auto more = Walks(file.generic_string(), text, names[file.parent_path()]);
    found.insert(found.end(), more.begin(), more.end());
  }
  EXPECT_GT(containers, 3u);
  EXPECT_THAT(found, IsEmpty());
}

TEST(Tidy, NoBuildFileAsksForFastMath) {
  std::vector<std::string> found;
  bool contraction_is_off = false;
  for (const fs::path& file : Files(kAllRooms)) {
    if (!IsBuildFile(file)) continue;
    const std::string text = Read(fs::path(ISOBIT_SOURCE_DIR) / file);
    contraction_is_off |= text.find("-ffp-contract=off") != std::string::npos;
    const auto more = Violations(file.generic_string(), text, BuildRules());
    found.insert(found.end(), more.begin(), more.end());
  }
  EXPECT_TRUE(contraction_is_off);
  EXPECT_THAT(found, IsEmpty());
}

TEST(Tidy, FilesAreShortAndNamed) {
  std::vector<std::string> found;
  for (const fs::path& file : Files(kAllRooms)) {
    if (HasVagueName(file)) found.push_back(file.generic_string() + ": says nothing by its name");
    if (!IsSource(file)) continue;
    const size_t lines = Lines(Read(fs::path(ISOBIT_SOURCE_DIR) / file)).size();
    if (lines > kLongestFile) {
      found.push_back(file.generic_string() + ": " + std::to_string(lines) + " lines");
    }
  }
  EXPECT_THAT(found, IsEmpty());
}

TEST(Tidy, NothingIsLeftToDo) {
  const std::vector<Rule> rules = {{"left to do",
                                    "",
                                    "\\b(TO"
                                    "DO|FIX"
                                    "ME|XX"
                                    "X)\\b",
                                    {}}};
  std::vector<std::string> found;
  for (const fs::path& file : Files(kAllRooms)) {
    if (!IsSource(file)) continue;
    const auto more =
        Violations(file.generic_string(), Read(fs::path(ISOBIT_SOURCE_DIR) / file), rules);
    found.insert(found.end(), more.begin(), more.end());
  }
  EXPECT_THAT(found, IsEmpty());
}

// ---- The rules themselves

bool Caught(const std::string& line, const std::vector<Rule>& rules = CodeRules()) {
  return !Violations("kernels/cpu/some.cc", WithoutComments(line), rules).empty();
}

TEST(TidyRules, CatchWhatTheyAreFor) {
  for (const char* line : {
           "std::atomic<float> sum;",
           "atomicAdd(&sum, x);",
           "atomicAdd(out + i, acc[i]);",
           R"(asm volatile("red.global.add.f32 [%0], %1;" :: "l"(p), "f"(x));)",
           "y = __expf(x);",
           "y = __fdividef(a, b);",
           "#pragma omp parallel for reduction(+:sum)",
           "#pragma GCC optimize(\"fast-math\")",
           "sum = std::reduce(v.begin(), v.end());",
           "y = std::exp(x);",
           "y = expf(x);",
           "seed = std::chrono::steady_clock::now();",
           "t = clock64();",
           "t = absl::Now();",
           "srand(time(nullptr));",
           "x = rand();",
           "std::mt19937 generator;",
       }) {
    EXPECT_TRUE(Caught(line)) << line;
  }
  for (const char* line : {
           "atomicAdd(&count, 1u);",
           "at = atomicAdd(&bucket[Of(request, tile)], 1);",
           "atomicAdd(&p_.counters->tiles, Counter{tiles_});",
           "std::atomic<int64_t> tiles;",
           "y = ieee::Sqrt(x);",
           "y = std::sqrt(x);",
           "config.rope_cos->As<float>();",
           "// no clock: std::chrono is not used, nor rand()",
           "/* atomicAdd(&sum, x) */ int x;",
           "float operand(int i);",
       }) {
    EXPECT_FALSE(Caught(line)) << line;
  }
  for (const char* line : {
           "constexpr int kSplitKeys = 512;",
           "kSplitKeys = rows > 16 ? 1024 : 256;",
           "plan.split_k = rows < 8 ? 4 : 1;",
           "const int num_splits = sms / tiles;",
           "using Mainloop = StreamK;",
       }) {
    EXPECT_TRUE(Caught(line, OrderRules())) << line;
  }
  for (const char* line : {
           "const int64_t begin = split * kSplitKeys;",
           "if (begin % kSplitKeys == 0) EndSplit();",
           "const bool first = seen.first / kBlockKeys == block_begin / kBlockKeys;",
           "// split_k is never used",
       }) {
    EXPECT_FALSE(Caught(line, OrderRules())) << line;
  }
  for (const char* line : {
           "inline int SplitKeys(int rows) { return rows > 16 ? 1024 : 256; }",
           "constexpr int kSplitKeys = 64 * kBlocks;",
           "lane[threadIdx.x] = x;",
           "float Sum(const float* x, int64_t n, int threads);",
           "if (batch.size() > 4) Half();",
       }) {
    EXPECT_TRUE(Caught(line, NumericsRules())) << line;
  }
  EXPECT_FALSE(Caught("inline constexpr int kSplitKeys = 1024;", NumericsRules()));
  for (const char* line : {
           "asm(\"ex2.approx.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));",
           "y = sm90::ApproximateExp2(x);",
           "std::map<const Weight*, int> order;",
           "std::set<Page *> pages;",
           "std::hash<std::string> hash;",
       }) {
    EXPECT_TRUE(Caught(line)) << line;
  }
  EXPECT_FALSE(Caught("std::map<std::string, Weight*> by_name;"));
  for (const char* flag : {"-ffast-math", "-Ofast", "--use_fast_math", "-ffp-contract=fast",
                           "-march=native", "-fassociative-math", "--fmad=true"}) {
    EXPECT_TRUE(Caught(flag, BuildRules())) << flag;
  }
  EXPECT_FALSE(Caught("-ffp-contract=off -fno-fast-math --fmad=false -O3", BuildRules()));
}

TEST(TidyRules, HashContainersAreFound) {
  const std::string code =
      "std::unordered_map<int, std::vector<int>>\n    by_id_;\n"
      "void F(const absl::flat_hash_set<int>& seen) { for (int x : seen) Use(x); }\n"
      "for (auto& [k, v] : state.by_id_) {}\n"
      "auto it = by_id_.find(3);\n"
      "std::map<int, int> ordered; for (auto& x : ordered) {}\n";
  const std::set<std::string> names = HashContainers(code);
  EXPECT_EQ(names, (std::set<std::string>{"by_id_", "seen"}));
  EXPECT_EQ(Walks("f.cc", code, names),
            (std::vector<std::string>{"f.cc:4: walks by_id_, which has no order",
                                      "f.cc:3: walks seen, which has no order"}));
}

TEST(TidyRules, VagueNames) {
  for (const char* path : {"kernels/utils.h", "runtime/common/x.h", "tools/string_util.cc",
                           "tests/helpers.cc", "misc/a.cc", "runtime/test_helper.h"}) {
    EXPECT_TRUE(HasVagueName(path)) << path;
  }
  EXPECT_FALSE(HasVagueName("kernels/cuda/attention_split.cuh"));
}

}  // namespace
}  // namespace isobit
