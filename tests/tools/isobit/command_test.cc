// Every command but batch, on a tiny model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/tiny_model.h"
#include "tests/tools/isobit/command_fixture.h"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TinyCommand : public CommandTest {
 protected:
  TinyCommand() : TinyCommand(TinyModelOptions()) {}
  explicit TinyCommand(const TinyModelOptions& options) {
    model_ = folder_.Path("tiny.gguf");
    std::filesystem::rename(WriteTinyModel(options), model_);
  }

  static std::string DigestIn(const std::string& text) {
    std::smatch match;
    return std::regex_search(text, match, std::regex("digest ([0-9a-f]{32})")) ? match[1].str()
                                                                               : "";
  }
};

// ---- Help, wrong use, unusable files

TEST_F(TinyCommand, HelpNamesEveryCommandAndOption) {
  const ProcessResult help = RunProcess(folder_, {IsobitPath(), "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command :
       {"run", "batch", "replay", "check", "order", "tokenize", "inspect", "bench", "roofline"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const ProcessResult own = RunProcess(folder_, {IsobitPath(), command, "--help"});
    EXPECT_EQ(own.exit_code, 0);
    for (const char* option :
         {"--model", "--device", "--threads", "--max-model-len", "--seed", "--max-num-seqs",
          "--max-num-batched-tokens", "--block-size", "--kv-cache-tokens", "--no-prefix-cache",
          "--enforce-eager", "--audit", "--log-level", "--log-file"}) {
      EXPECT_THAT(own.out, HasSubstr(option)) << command;
    }
  }
  const ProcessResult version = RunProcess(folder_, {IsobitPath(), "--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, AllOf(StartsWith("isobit "), HasSubstr("contract")));
}

TEST_F(TinyCommand, WrongUseIsTwo) {
  const std::vector<std::pair<Arguments, const char*>> cases = {
      {{"nonsense"}, "subcommand"},
      {{"run", "-p", "x"}, "--model"},
      {{"run", "-m", model_}, "-p TEXT"},
      {{"run", "-m", model_, "-p", "x", "--threads", "-1"}, "--threads"},
      {{"run", "-m", model_, "-p", "x", "--temperature", "abc"}, "--temperature"},
      {{"run", "-m", model_, "-p", "x", "--temperature", "-1"}, "temperature must be >= 0"},
      {{"run", "-m", model_, "-p", "x", "--top-p", "1.5"}, "top_p must be"},
      {{"run", "-m", model_, "-p", "x", "-n", "-1"}, "max_tokens must be"},
      {{"run", "-m", model_, "-p", "x", "--logit-bias", "5"}, "TOKEN:BIAS"},
      {{"run", "-m", model_, "-p", "x", "-f", "y"}, "excludes"},
      {{"run", "-m", model_, "-p", "x", "--system", "y"}, "--chat"},
      {{"run", "-m", model_, "-p", "x", "--device", "tpu"}, "--device"},
      {{"run", "-m", model_, "-p", "x", "--block-size", "40"}, "block-size"},
      {{"run", "-m", model_, "-p", "x", "--max-model-len", "1000000"}, "max-model-len"},
      {{"run", "-m", model_, "-p", std::string(5000, 'x')}, "prompt has 5000 tokens"},
      {{"run", "-m", model_, "-p", "x", "--unknown"}, "--unknown"},
      {{"batch", "-m", model_}, "input"},
      {{"batch", "-m", model_, "-", "-o", "-", "--resume"}, "--resume needs an output file"},
      {{"replay", "-m", model_}, "receipts"},
      {{"bench", "-m", model_, "--repeat", "0"}, "--repeat"},
      {{"bench", "-m", model_, "--parts", "speeds"}, "--parts"},
      {{"bench", "-m", model_, "--device", "cpu", "--parts", "gemm"}, "gemm is for a GPU"},
      {{"bench"}, "either --model or --shape"},
      {{"roofline", "-m", model_, "--steps", "0"}, "--steps"},
      {{"roofline"}, "either --model or --shape"},
      {{"roofline", "-m", model_, "--shape", "llama-3.1-8b"}, "either --model or --shape"},
      {{"roofline", "--shape", "llama"}, "--shape"},
      {{"roofline", "-m", model_, "--layers", "1"}, "--shape"},
  };
  for (const auto& [arguments, reason] : cases) {
    Arguments command = {IsobitPath()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = RunProcess(folder_, command);
    EXPECT_EQ(result.exit_code, 2) << arguments[0] << " " << reason << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(reason));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(TinyCommand, WhatCanNotBeUsedIsThree) {
  const std::string zip = folder_.Write("zip", "PK\x03\x04 not a model at all");
  const std::string empty = folder_.Write("empty", "");
  const std::string whole = TempFolder::Read(model_);
  const std::string half = folder_.Write("half.gguf", whole.substr(0, whole.size() / 2));
  const std::string input = folder_.Write("in.jsonl", "{\"id\":\"a\",\"prompt\":\"x\"}\n");
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"run", "-m", "/nowhere.gguf", "-p", "x"}, "/nowhere.gguf"},
      {{"run", "-m", folder_.Path(""), "-p", "x"}, folder_.Path("")},
      {{"run", "-m", zip, "-p", "x"}, zip},
      {{"run", "-m", empty, "-p", "x"}, empty},
      {{"run", "-m", half, "-p", "x"}, half},
      {{"run", "-m", model_, "-f", "/nowhere.txt"}, "/nowhere.txt"},
      {{"run", "-m", model_, "-p", "x", "--log-file", "/nowhere/log"}, "/nowhere/log"},
      {{"batch", "-m", model_, "/nowhere", "-o", folder_.Path("o")}, "/nowhere"},
      {{"batch", "-m", model_, input, "-o", "/nowhere/o"}, "/nowhere/o"},
      {{"batch", "-m", zip, input, "-o", folder_.Path("o")}, zip},
      {{"tokenize", "-m", zip, input}, zip},
      {{"tokenize", "-m", model_, "/nowhere"}, "/nowhere"},
      {{"inspect", "-m", zip}, zip},
      {{"check", "-m", zip}, zip},
      {{"bench", "-m", zip}, zip},
      {{"replay", "-m", model_, "/nowhere"}, "/nowhere"},
  };
  for (const auto& [arguments, reason] : cases) {
    Arguments command = {IsobitPath()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = RunProcess(folder_, command);
    EXPECT_EQ(result.exit_code, 3) << arguments[0] << " " << reason << ": " << result.err;
    std::string message = result.err;
    // A build with CUDA says first that there is no GPU.
    if (message.starts_with("isobit: warning: runs on the CPU: ")) {
      message.erase(0, message.find('\n') + 1);
    }
    EXPECT_THAT(message, AllOf(StartsWith("isobit: error: "), HasSubstr(reason)));
  }
}

// ---- run

TEST_F(TinyCommand, RunStreamsWhatBatchAnswers) {
  const ProcessResult run = Run("run", {"-p", "Hello", "-n", "20", "--temp", "0", "--ignore-eos"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json answer =
      Batch(R"({"id":"a","prompt":"Hello","max_tokens":20,"temperature":0,"ignore_eos":true})")
          .at(0);
  const std::string text = answer.at("choices").at(0).at("text");
  EXPECT_EQ(run.out, text + (text.ends_with('\n') ? "" : "\n"));
  EXPECT_EQ(answer.at("digest"), DigestIn(run.err));
  EXPECT_THAT(run.err, AllOf(HasSubstr(" + 20 tokens (length)"), HasSubstr("tok/s")));
  EXPECT_THAT(run.err, Not(HasSubstr("seed"))) << "greedy has none";
}

TEST_F(TinyCommand, RunTakesEverySamplingOption) {
  const ProcessResult run = Run("run", {"-p",
                                        "Hello",
                                        "--max-tokens",
                                        "12",
                                        "--temperature",
                                        "0.8",
                                        "--top-k",
                                        "40",
                                        "--top-p",
                                        "0.9",
                                        "--min-p",
                                        "0.01",
                                        "--seed",
                                        "5",
                                        "--presence-penalty",
                                        "0.5",
                                        "--frequency-penalty",
                                        "0.25",
                                        "--repetition-penalty",
                                        "1.1",
                                        "--logit-bias",
                                        "65:2.5",
                                        "--logit-bias",
                                        "66:-1",
                                        "--stop",
                                        "zzz",
                                        "--stop-token-ids",
                                        "7",
                                        "--min-tokens",
                                        "2",
                                        "--ignore-eos"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json answer =
      Batch(
          R"({"id":"a","prompt":"Hello","max_tokens":12,"temperature":0.8,"top_k":40,"top_p":0.9,)"
          R"("min_p":0.01,"seed":5,"presence_penalty":0.5,"frequency_penalty":0.25,)"
          R"("repetition_penalty":1.1,"logit_bias":{"65":2.5,"66":-1},"stop":["zzz"],)"
          R"("stop_token_ids":[7],"min_tokens":2,"ignore_eos":true})")
          .at(0);
  EXPECT_EQ(answer.at("digest"), DigestIn(run.err));
  EXPECT_THAT(run.err, HasSubstr("seed 5"));
}

TEST_F(TinyCommand, RunReadsAFileOrStdin) {
  const Arguments rest = {"-n", "4", "--temp", "0"};
  const auto with = [&rest](Arguments first) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  };
  const std::string text = "Two\nlines";
  const std::string digest = DigestIn(Run("run", with({"-p", text})).err);
  EXPECT_NE(digest, "");
  EXPECT_EQ(DigestIn(Run("run", with({"-f", folder_.Write("text", text)})).err), digest);
  EXPECT_EQ(DigestIn(Run("run", with({"-f", "-"}), text).err), digest);
}

TEST_F(TinyCommand, ASeedThatIsDrawnIsSaid) {
  const ProcessResult first = Run("run", {"-p", "Hello", "-n", "30", "--ignore-eos"});
  std::smatch seed;
  ASSERT_TRUE(std::regex_search(first.err, seed, std::regex("seed ([0-9]+)"))) << first.err;
  const ProcessResult again =
      Run("run", {"-p", "Hello", "-n", "30", "--ignore-eos", "--seed", seed[1].str()});
  EXPECT_EQ(DigestIn(again.err), DigestIn(first.err));
  EXPECT_EQ(again.out, first.out);
}

TEST_F(TinyCommand, ChatIsTheTemplatesPrompt) {
  const Arguments options = {"-n", "6", "--temp", "0"};
  Arguments chat = {"--chat", "--system", "Be brief.", "-p", "hi"};
  chat.insert(chat.end(), options.begin(), options.end());
  const ProcessResult run = Run("run", chat);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json answer = Batch(R"({"id":"a","messages":[{"role":"system","content":"Be brief."},)"
                            R"({"role":"user","content":"hi"}],"max_tokens":6,"temperature":0})")
                          .at(0);
  EXPECT_EQ(answer.at("digest"), DigestIn(run.err));
}

TEST_F(TinyCommand, AConversationKeepsItsHistory) {
  const ProcessResult run =
      Run("run", {"--chat", "-n", "5", "--temp", "0", "--ignore-eos"}, "hi\n\nand then?\n");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  json first = json::parse(
      R"({"id":"a","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0,)"
      R"("ignore_eos":true})");
  const json answer = Batch(first.dump()).at(0);
  json second = first;
  second["messages"].push_back(
      {{"role", "assistant"}, {"content", answer.at("choices").at(0).at("text")}});
  second["messages"].push_back({{"role", "user"}, {"content", "and then?"}});
  const json next = Batch(second.dump()).at(0);
  const size_t at = run.err.find(answer.at("digest"));
  ASSERT_NE(at, std::string::npos) << run.err;
  EXPECT_NE(run.err.find(next.at("digest"), at), std::string::npos) << run.err;
}

TEST_F(TinyCommand, CtrlCEndsARunCleanly) {
  Process run(folder_, CommandLine("run", {"-p", "Hello", "-n", "4000", "--temp", "0",
                                           "--ignore-eos", "--receipt", folder_.Path("receipt")}));
  ASSERT_TRUE(run.WaitForOutput([](const std::string& out) { return !out.empty(); }));
  run.Signal(SIGINT);
  const ProcessResult result = run.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("(cancelled)"));
  EXPECT_TRUE(result.out.ends_with('\n'));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("receipt")));
}

TEST_F(TinyCommand, OutputThatCanNotBeWritten) {
  for (const char* command : {"run", "inspect", "tokenize", "replay"}) {
    const std::string receipt = folder_.Path("receipt");
    ASSERT_EQ(Run("run", {"-p", "x", "-n", "2", "--receipt", receipt}).exit_code, 0);
    Arguments arguments;
    if (command == std::string("run")) arguments = {"-p", "Hello", "-n", "2000", "--ignore-eos"};
    if (command == std::string("tokenize")) arguments = {folder_.Write("t", "{\"text\":\"a\"}\n")};
    if (command == std::string("replay")) arguments = {receipt};
    Process process(folder_, CommandLine(command, arguments), "", "/dev/full");
    const ProcessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 3) << command << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("cannot write standard output")) << command;
  }
}

TEST_F(TinyCommand, AClosedPipeIsNoSignal) {
  const ProcessResult result = RunProcess(
      folder_,
      {"/bin/bash", "-c",
       "\"$0\" run -m \"$1\" -p Hello -n 4000 --temp 1 --ignore-eos | head -c 1 >/dev/null; "
       "exit ${PIPESTATUS[0]}",
       IsobitPath(), model_});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Broken pipe"));
}

// ---- Devices

// A GPU that is there is hidden.
TEST_F(TinyCommand, WithoutAGpu) {
  const auto run_on = [this](const char* device) {
    Arguments line = {"/usr/bin/env", "CUDA_VISIBLE_DEVICES=-1"};
    for (const std::string& argument :
         CommandLine("run", {"-p", "x", "-n", "1", "--seed", "7", "--device", device})) {
      line.push_back(argument);
    }
    return RunProcess(folder_, line);
  };
  const ProcessResult cuda = run_on("cuda");
  EXPECT_EQ(cuda.exit_code, 3) << cuda.err;
  EXPECT_THAT(cuda.err, HasSubstr("error: --device cuda: "));
  const bool built_with_cuda = cuda.err.find("built without CUDA") == std::string::npos;
  if (built_with_cuda) {
    EXPECT_THAT(cuda.err, HasSubstr("no CUDA device can be used"));
  }

  const ProcessResult chosen = run_on("auto");
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_EQ(chosen.err.find("runs on the CPU: no CUDA device") != std::string::npos,
            built_with_cuda)
      << chosen.err;
  EXPECT_EQ(DigestIn(chosen.err), DigestIn(run_on("cpu").err));
}

TEST_F(TinyCommand, TuningNeedsAGpu) {
  const std::string plans = folder_.Path("plans.json");
  const ProcessResult tune = RunProcess(folder_, {"/usr/bin/env", "CUDA_VISIBLE_DEVICES=-1",
                                                  IsobitPath(), "tune", "-m", model_, "-o", plans});
  EXPECT_EQ(tune.exit_code, 3) << tune.err;
  EXPECT_THAT(tune.err,
              AnyOf(HasSubstr("no CUDA device can be used"), HasSubstr("built without CUDA")));
  EXPECT_FALSE(std::filesystem::exists(plans));  // nothing half done is left

  std::ofstream(plans) << "{}";
  const ProcessResult cpu =
      Run("run", {"-p", "x", "-n", "1", "--device", "cpu", "--gemm-plans", plans});
  EXPECT_EQ(cpu.exit_code, 2);
  EXPECT_THAT(cpu.err, HasSubstr("--gemm-plans is for a GPU, not for --device cpu"));
}

// ---- receipts and replay

TEST_F(TinyCommand, ReplayGivesTheSameBits) {
  const std::string receipt = folder_.Path("receipt.json");
  const ProcessResult run =
      Run("run", {"-p", "Hello", "-n", "25", "--ignore-eos", "--receipt", receipt});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const Arguments& options : {Arguments{},
                                   {"--threads", "1"},
                                   {"--block-size", "16"},
                                   {"--device", "reference"},
                                   {"--max-num-batched-tokens", "1"},
                                   {"--no-prefix-cache"}}) {
    Arguments arguments = {receipt, receipt};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult replay = Run("replay", arguments);
    EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
    EXPECT_THAT(replay.out, AllOf(StartsWith(receipt + ": equal "), HasSubstr("25 tokens"),
                                  HasSubstr(DigestIn(run.err))));
  }
}

TEST_F(TinyCommand, ReplayNamesTheFirstDifference) {
  const std::string receipt = folder_.Path("receipt.json");
  ASSERT_EQ(
      Run("run", {"-p", "Hello", "-n", "8", "--temp", "0", "--ignore-eos", "--receipt", receipt})
          .exit_code,
      0);
  json changed = json::parse(TempFolder::Read(receipt));
  changed["choices"][0]["logprobs"][3] = -0.015625;
  const std::string other = folder_.Write("other.json", changed.dump());
  const ProcessResult replay = Run("replay", {receipt, other});
  EXPECT_EQ(replay.exit_code, 1);
  EXPECT_THAT(replay.out, AllOf(HasSubstr(receipt + ": equal "),
                                HasSubstr(other + ": DIFFERS  choice 0, token 3, logprob: recorded "
                                                  "-0.015625 (bc800000), replayed ")));
}

TEST_F(TinyCommand, ReplayRefusesAnotherModel) {
  const std::string receipt = folder_.Path("receipt.json");
  ASSERT_EQ(Run("run", {"-p", "Hello", "-n", "2", "--receipt", receipt}).exit_code, 0);
  model_ = folder_.Path("other.gguf");
  TinyModelOptions options;
  options.seed = 2;
  std::filesystem::rename(WriteTinyModel(options), model_);
  const ProcessResult replay = Run("replay", {receipt});
  EXPECT_EQ(replay.exit_code, 1);
  EXPECT_THAT(replay.out, HasSubstr("DIFFERS  model digest: recorded"));
}

TEST_F(TinyCommand, ReplayGoesOnAfterABrokenReceipt) {
  const std::string receipt = folder_.Path("receipt.json");
  ASSERT_EQ(Run("run", {"-p", "Hello", "-n", "2", "--receipt", receipt}).exit_code, 0);
  const std::string broken = folder_.Write("broken.json", TempFolder::Read(receipt).substr(0, 100));
  const ProcessResult replay = Run("replay", {broken, receipt});
  EXPECT_EQ(replay.exit_code, 3);
  EXPECT_THAT(replay.err, HasSubstr(broken));
  EXPECT_THAT(replay.out, HasSubstr(receipt + ": equal "));
}

// ---- tokenize, inspect, bench, check

TEST_F(TinyCommand, TokenizeAnswersEveryLine) {
  const ProcessResult result =
      Run("tokenize", {"-"},
          "{\"text\": \"the \xc3\xa9\"}\n"
          R"({"id": "m", "messages": [{"role": "user", "content": "x"}]})"
          "\n"
          R"({"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": false})"
          "\n"
          "broken\n"
          R"({"text": 1})"
          "\n"
          R"({"id": "e", "text": ""})"
          "\n");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const std::vector<json> lines = ParseLines(result.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].at("text"), "the \xc3\xa9");
  // "the" is one merge, and each byte of the last character a token of its own.
  EXPECT_EQ(lines[0].at("pieces"), json::parse("[\"the\", \" \", \"\ufffd\", \"\ufffd\"]"));
  EXPECT_EQ(lines[0].at("ids").size(), 4u);
  EXPECT_EQ(lines[1].at("id"), "m");
  EXPECT_EQ(lines[1].at("text"), "<|im_start|>user\nx<|im_end|><|im_start|>");
  EXPECT_EQ(lines[2].at("text"), "<|im_start|>user\nx<|im_end|>");
  EXPECT_EQ(lines[1].at("ids").at(0), kTinyVocab - 3) << "special tokens are recognised";
  EXPECT_THAT(lines[3].at("error").at("message").get<std::string>(),
              HasSubstr("line 4: not valid"));
  EXPECT_THAT(lines[4].at("error").at("message").get<std::string>(),
              HasSubstr("line 5: text must be a string"));
  EXPECT_EQ(lines[5].at("ids"), json::array());
}

TEST_F(TinyCommand, InspectDescribesModelAndPlan) {
  const ProcessResult text = Run("inspect", {"--device", "cpu", "--kv-cache-tokens", "4096"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  const ProcessResult machine =
      Run("inspect", {"--json", "--device", "cpu", "--kv-cache-tokens", "4096"});
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json object = json::parse(machine.out);
  EXPECT_EQ(object.at("model").at("layers"), 2);
  EXPECT_EQ(object.at("model").at("name"), "tiny");
  EXPECT_EQ(object.at("tokenizer").at("vocab"), kTinyVocab);
  EXPECT_EQ(object.at("tokenizer").at("eos_id"), kTinyEos);
  EXPECT_EQ(object.at("memory").at("kv_pool_tokens"), 4096);
  EXPECT_EQ(object.at("memory").at("kv_pool_bytes"), 4096 * 4 * 2 * 2 * 16);
  EXPECT_EQ(object.at("device").at("kind"), "cpu");
  EXPECT_EQ(object.at("guarantee"), "portable");
  const std::string digest = object.at("model_digest");
  EXPECT_THAT(text.out, AllOf(HasSubstr(digest), HasSubstr("portable"), HasSubstr("tiny")));
  EXPECT_EQ(Batch(R"({"id":"a","prompt":"x","max_tokens":1})").at(0).at("model_digest"), digest);
}

TEST_F(TinyCommand, RooflineListsEveryOperationOfAStep) {
  const std::string svg = testing::TempDir() + "isobit-roofline.svg";
  const ProcessResult decode = Run("roofline", {"--device", "cpu", "--json", "--sequences", "3",
                                                "--context", "20", "--steps", "2", "--svg", svg});
  ASSERT_EQ(decode.exit_code, 0) << decode.err;
  const json object = json::parse(decode.out);
  EXPECT_EQ(object.at("phase"), "decode");
  EXPECT_EQ(object.at("steps"), 2);
  std::map<std::string, double> calls, flops;
  for (const json& o : object.at("operations")) {
    calls[o.at("name")] = o.at("calls");
    flops[o.at("name")] = o.at("flops");
    EXPECT_GT(o.at("seconds"), 0) << o;
    EXPECT_GT(o.at("floor_seconds"), 0) << o;
  }
  // Two layers of width 64 and 96, four heads of 16, two of them for keys.
  const std::map<std::string, double> expected = {{"embedding", 1},
                                                  {"RMSNorm", 5},
                                                  {"GEMM 128 x 64, rotation, KV write", 2},
                                                  {"attention", 2},
                                                  {"GEMM 64 x 64", 2},
                                                  {"GEMM 192 x 64, SiLU gate", 2},
                                                  {"GEMM 64 x 96", 2},
                                                  {"GEMM 267 x 64, fp32", 1},
                                                  {"sampling", 1}};
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(flops["GEMM 128 x 64, rotation, KV write"], 2 * 2 * 3 * 128 * 64);
  std::stringstream picture;
  picture << std::ifstream(svg).rdbuf();
  EXPECT_THAT(picture.str(), AllOf(HasSubstr("<svg "), HasSubstr("GEMM 192 x 64, SiLU gate"),
                                   HasSubstr("</svg>")));

  const ProcessResult prefill =
      Run("roofline", {"--device", "cpu", "--prefill", "--context", "33", "--steps", "1"});
  ASSERT_EQ(prefill.exit_code, 0) << prefill.err;
  EXPECT_THAT(prefill.out, AllOf(HasSubstr("prefill of 1 x 33 tokens"), HasSubstr("attention")));
}

TEST_F(TinyCommand, BenchMeasures) {
  const Arguments options = {"--repeat",   "1", "--decode-tokens", "8",  "--prefill-tokens", "32",
                             "--together", "4", "--device",        "cpu"};
  Arguments with_json = options;
  with_json.push_back("--json");
  const ProcessResult machine = Run("bench", with_json);
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json object = json::parse(machine.out);
  for (const char* figure :
       {"decode_tokens_per_second", "prefill_tokens_per_second", "together_tokens_per_second"}) {
    EXPECT_GT(object.at(figure).at("median").get<double>(), 0) << figure;
  }
  EXPECT_GT(object.at("read_bytes_per_second").get<double>(), 1e8);
  EXPECT_GT(object.at("decode_bytes_per_token").get<int64_t>(), 100000);
  EXPECT_GT(object.at("gemm_tiles").get<int64_t>(), 0);
  const ProcessResult text = Run("bench", options);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("decode"), HasSubstr("GB/s"), HasSubstr("exact path")));
}

// Whole steps and many requests, whose floors are what weights, keys and values and the prompts'
// GEMMs take at the ceilings that were measured in the same run.
TEST_F(TinyCommand, BenchMeasuresSteps) {
  const Arguments options = {
      "--parts", "steps,requests",  "--requests", "6", "--device", "cpu", "--repeat",
      "1",       "--decode-tokens", "4"};
  Arguments with_json = options;
  with_json.push_back("--json");
  const ProcessResult machine = Run("bench", with_json);
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json object = json::parse(machine.out);
  EXPECT_FALSE(object.contains("decode_tokens_per_second"));
  const double read_rate = object.at("read_bytes_per_second").get<double>();
  constexpr double kKvBytesPerToken = 256;  // 2 layers of 2 heads of 16, keys and values in bf16
  double weights = 0;                       // read a step, the same at every batch
  for (const json& row : object.at("steps").at("decode")) {
    EXPECT_GT(row.at("seconds").get<double>(), 0) << row;
    const double kv_bytes =
        row.at("sequences").get<double>() * row.at("context").get<double>() * kKvBytesPerToken;
    const double rest = row.at("floor_seconds").get<double>() * read_rate - kv_bytes;
    if (weights == 0) weights = rest;
    EXPECT_NEAR(rest, weights, 1);
  }
  EXPECT_EQ(object.at("steps").at("decode").size(), 3u);
  EXPECT_GT(weights, 100000);
  EXPECT_GT(object.at("steps").at("prefill_seconds").get<double>(), 0);
  EXPECT_GT(object.at("steps").at("prefill_floor_seconds").get<double>(), 0);
  const json& requests = object.at("requests");
  EXPECT_EQ(requests.at("at_once"), 6);
  EXPECT_GT(requests.at("seconds").get<double>(), 0);
  EXPECT_GT(requests.at("floor_seconds").get<double>(), 0);

  const ProcessResult text = Run("bench", options);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("whole steps"), HasSubstr("decode  64 x"),
                              HasSubstr("6 requests"), Not(HasSubstr("exact path"))));
}

TEST_F(TinyCommand, CheckPrintsATable) {
  const ProcessResult result = Run("check", {});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("ok  "), HasSubstr("values equal"),
                                HasSubstr("rows, 0 failed"), Not(HasSubstr("FAIL"))));
}

TEST_F(TinyCommand, LogGoesToItsFile) {
  const std::string log = folder_.Path("log");
  const ProcessResult result =
      Run("run", {"-p", "x", "-n", "1", "--log-level", "info", "--log-file", log});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(TempFolder::Read(log), AllOf(HasSubstr("info"), HasSubstr(model_)));
  EXPECT_THAT(result.err, Not(HasSubstr("info")));
}

}  // namespace
}  // namespace isobit
