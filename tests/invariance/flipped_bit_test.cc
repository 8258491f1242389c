// One flipped bit, wherever it is, is caught, and what was found is said by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/repeat_check.h"
#include "kernels/backends.h"
#include "kernels/reference/backend.h"
#include "runtime/receipt/receipt.h"
#include "runtime/receipt/spot_check.h"
#include "tests/invariance/tiny_engine.h"
#include "tests/tools/isobit/process.h"

namespace isobit {
namespace {

using reference::ReferenceBackend;
using reference::ReferenceKvCache;
using reference::ReferenceWeight;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// Bits that flip once when their time has come; in all else the reference.
class FlippingBackend : public ReferenceBackend {
 public:
  enum class In { kNothing, kWeight, kKvCache, kLogit };

  // After `delay` operations of the kind that can flip it.
  explicit FlippingBackend(In in, int delay) : in_(in), delay_(delay) {}

  using ReferenceBackend::Run;
  void Run(const Gemm& op) override {
    const bool logits = op.epilogue == Gemm::Epilogue::kFp32;
    if (in_ == In::kWeight && !logits && IsTime()) {
      static_cast<const ReferenceWeight&>(*op.weight).Row(1)[3].bits ^= 1 << 13;
    }
    ReferenceBackend::Run(op);
    if (in_ == In::kLogit && logits && IsTime()) {
      float* const row = op.out_fp32 + (op.rows - 1) * op.weight->rows();
      float& largest = *std::max_element(row, row + op.weight->rows());
      largest = BitsFloat(FloatBits(largest) ^ 1u << 16);
    }
  }
  void Run(const RopeKvWrite& op) override {
    ReferenceBackend::Run(op);
    if (in_ != In::kKvCache || !IsTime()) return;
    const auto& cache = static_cast<const ReferenceKvCache&>(*op.cache);
    const int page_tokens = cache.shape().page_tokens;
    const int32_t position = op.batch->position[0];
    const int32_t page = reference::PageOf(*op.batch, op.batch->sequence[0], position, page_tokens);
    cache.Value(op.layer, page, 0, position % page_tokens)[2].bits ^= 1 << 13;
  }

 private:
  bool IsTime() { return delay_-- == 0; }

  const In in_;
  int delay_;
};

using In = FlippingBackend::In;

std::unique_ptr<Model> Load(In in, int delay) {
  auto model = Model::Load(WriteTinyModel({}), std::make_unique<FlippingBackend>(in, delay));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

Request Sampled() {
  Request request;
  request.id = "r1";
  request.prompt = std::vector<int32_t>(Tokens(5, 40));
  request.sampling.max_tokens = 24;
  request.sampling.temperature = 0.8;
  request.sampling.top_k = 50;
  request.sampling.repetition_penalty = 1.1;
  request.sampling.seed = 11;
  request.sampling.ignore_eos = true;
  AskForReceipt(request.sampling);
  return request;
}

std::unique_ptr<Engine> Start(In in, int delay = 0) {
  auto engine = Engine::Create(Load(in, delay), {});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

Completion RunOne(Engine& engine, const Request& request) {
  auto results = engine.Generate({request});
  EXPECT_TRUE(results[0].ok()) << results[0].status();
  return *std::move(results[0]);
}

// Of a run of Sampled().
Receipt ReceiptFrom(Engine& engine) {
  auto receipt = MakeReceipt("isobit test", "tiny", engine.model().digest(), Sampled().sampling,
                             RunOne(engine, Sampled()));
  EXPECT_TRUE(receipt.ok()) << receipt.status();
  return *std::move(receipt);
}

Receipt GoodReceipt() { return ReceiptFrom(*Start(In::kNothing)); }

// All tokens drawn again: the first difference.
absl::Status SpotCheck(Engine& engine, const Receipt& receipt, double share) {
  const auto count = static_cast<int64_t>(receipt.completion.choices[0].token_ids.size());
  absl::Status difference;
  RequestCallbacks callbacks;
  callbacks.on_redrawn = [&](int64_t index, const SampledToken& token) {
    difference.Update(CompareRedrawn(receipt, 0, index, token));
  };
  callbacks.on_done = [](const absl::StatusOr<Completion>& done) {
    EXPECT_TRUE(done.ok()) << done.status();
  };
  EXPECT_TRUE(engine.Submit(RedrawOf(receipt, 0, PickTokens(count, share, 3)), callbacks).ok());
  engine.Drain();
  return difference;
}

TEST(FlippedBit, NoneIsNoDifference) {
  const Receipt receipt = GoodReceipt();
  EXPECT_TRUE(CheckIntact(receipt).ok()) << CheckIntact(receipt);
  const auto engine = Start(In::kNothing);
  EXPECT_TRUE(Compare(receipt, RunOne(*engine, RequestOf(receipt))).ok());
  EXPECT_TRUE(SpotCheck(*engine, receipt, 1).ok());
  EXPECT_TRUE(SpotCheck(*engine, receipt, 0.05).ok());
}

// In a weight: what was loaded had the right digest, so only results can tell.
TEST(FlippedBit, InAWeight) {
  const Receipt receipt = GoodReceipt();
  const auto engine = Start(In::kWeight);
  EXPECT_TRUE(CheckReplayable(receipt, engine->model().digest()).ok());
  const absl::Status whole = Compare(receipt, RunOne(*engine, RequestOf(receipt)));
  EXPECT_THAT(std::string(whole.message()),
              MatchesRegex("choice 0, token [0-9]+, (id|logprob): recorded .*, replayed .*"));
  EXPECT_FALSE(SpotCheck(*engine, receipt, 1).ok());
  EXPECT_FALSE(SpotCheck(*engine, receipt, 0.05).ok()) << "one token is enough";
}

// In the file of a model, before it is loaded.
TEST(FlippedBit, InAModelFile) {
  const Receipt receipt = GoodReceipt();
  TinyModelOptions other;
  other.seed += 1;
  auto model = Model::Load(WriteTinyModel(other), CreateReferenceBackend());
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(std::string(CheckReplayable(receipt, (*model)->digest()).message()),
              StartsWith("model digest: recorded"));
}

// A receipt made on a machine that made one mistake, checked on a sound one; and the audit of the
// machine itself, which finds that it does not repeat its own result.
class TransientFlip : public testing::TestWithParam<std::pair<const char*, In>> {};

TEST_P(TransientFlip, IsFoundByReplay) {
  const auto faulty = Start(GetParam().second, 9);
  const Receipt receipt = ReceiptFrom(*faulty);
  ASSERT_NE(receipt.completion.digest, GoodReceipt().completion.digest);
  EXPECT_TRUE(CheckIntact(receipt).ok());
  const auto sound = Start(In::kNothing);
  EXPECT_THAT(std::string(Compare(receipt, RunOne(*sound, RequestOf(receipt))).message()),
              HasSubstr("choice 0, token "));
  EXPECT_THAT(std::string(SpotCheck(*sound, receipt, 1).message()), HasSubstr("choice 0, token "));
}

TEST_P(TransientFlip, IsFoundByAnAudit) {
  EngineOptions options;
  options.audit_share = 1;
  auto engine = Engine::Create(Load(GetParam().second, 9), options);
  ASSERT_TRUE(engine.ok());
  for (int i = 0; i < 3; ++i) {
    RunOne(**engine, Sampled());
    (*engine)->Drain();
  }
  const EngineStats stats = (*engine)->Stats();
  EXPECT_GT(stats.audits, 0);
  EXPECT_EQ(stats.audit_differences, 1);
  EXPECT_THAT(stats.first_audit_difference, StartsWith("r1, choice 0, token "));
}

TEST_P(TransientFlip, IsFoundByRunningTwice) {
  const auto faulty = Start(GetParam().second, 9);
  const auto round = RunTwice(*faulty, 1, 3);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_THAT(round->first_difference,
              MatchesRegex("noise [0-2], token .*: first id .*; again .*"));
  const auto next = RunTwice(*faulty, 2, 3);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->requests, 3);
  EXPECT_GT(next->tokens, 3);
  EXPECT_EQ(next->first_difference, "") << "one mistake, once";
}

// As a user meets it: the receipt as a file, the command on a sound machine.
TEST_P(TransientFlip, IsFoundByTheCommand) {
  const auto faulty = Start(GetParam().second, 9);
  TempFolder folder;
  const std::string path = folder.Path("receipt.json");
  ASSERT_TRUE(WriteReceipt(path, ReceiptFrom(*faulty)).ok());
  const std::vector<std::string> command = {IsobitPath(),       "replay",   path,       "-m",
                                            WriteTinyModel({}), "--device", "reference"};
  const ProcessResult whole = RunProcess(folder, command);
  EXPECT_EQ(whole.exit_code, 1) << whole.err;
  EXPECT_THAT(whole.out, StartsWith(path + ": DIFFERS  choice 0, token "));
  std::vector<std::string> spots = command;
  spots.insert(spots.end(), {"--positions", "100%"});
  const ProcessResult some = RunProcess(folder, spots);
  EXPECT_EQ(some.exit_code, 1) << some.err;
  EXPECT_THAT(some.out, StartsWith(path + ": DIFFERS  choice 0, token "));
}

INSTANTIATE_TEST_SUITE_P(All, TransientFlip,
                         testing::Values(std::pair("KvCache", In::kKvCache),
                                         std::pair("Logit", In::kLogit)),
                         [](const auto& param) { return param.param.first; });

// Every bit of a receipt's file: it can't be read, or it is found, or it says the same.
TEST(FlippedBit, InAReceipt) {
  const Receipt receipt = GoodReceipt();
  const Completion completion = receipt.completion;
  std::string text = ReceiptToJson(receipt);
  int unreadable = 0, found = 0, for_people = 0;
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    const auto flip = [&] { text[i / 8] = static_cast<char>(text[i / 8] ^ 1 << i % 8); };
    flip();
    absl::StatusOr<Receipt> read = ParseReceipt(text);
    flip();
    if (!read.ok()) {
      ++unreadable;
      continue;
    }
    if (!CheckReplayable(*read, receipt.model_digest).ok() || !CheckIntact(*read).ok() ||
        !Compare(*read, completion).ok()) {
      ++found;
      continue;
    }
    // Names that decide nothing, and how much was asked for beyond the tokens.
    read->build = receipt.build;
    read->model_name = receipt.model_name;
    read->completion.id = completion.id;
    read->sampling.logprobs = receipt.sampling.logprobs;
    EXPECT_EQ(ReceiptToJson(*read), text) << "bit " << i % 8 << " of byte " << i / 8 << ", in "
                                          << text.substr(i / 8 - std::min<size_t>(i / 8, 30), 60);
    ++for_people;
  }
  EXPECT_GT(unreadable, 1000);
  EXPECT_GT(found, 1000);
  EXPECT_LT(for_people, 300);
}

TEST(FlippedBit, AReceiptSaysWhichPartWasChanged) {
  Receipt receipt = GoodReceipt();
  const auto message = [](const Receipt& r) { return std::string(CheckIntact(r).message()); };
  Receipt changed = receipt;
  (*changed.completion.choices[0].logprobs)[3].logprob = -1;
  EXPECT_THAT(message(changed), StartsWith("the receipt was changed: choice 0, digest: recorded"));
  changed = receipt;
  changed.sampling.top_k = 51;
  EXPECT_THAT(message(changed), StartsWith("the receipt was changed: choice 0, digest: recorded"));
  changed = receipt;
  changed.completion.digest.low ^= 1;
  EXPECT_THAT(message(changed), StartsWith("the receipt was changed: digest: recorded"));
  changed = receipt;
  changed.sampling.n = 2;
  EXPECT_THAT(message(changed), HasSubstr("n is 2, but there are 1 choices"));
}

TEST(PickTokens, IsAShareAndAtLeastOne) {
  EXPECT_EQ(PickTokens(1, 0.05, 1), (std::vector<int64_t>{0}));
  EXPECT_EQ(PickTokens(10, 0.01, 1).size(), 1u);
  EXPECT_EQ(PickTokens(100, 0.05, 1).size(), 5u);
  EXPECT_EQ(PickTokens(101, 0.05, 1).size(), 6u);
  const std::vector<int64_t> all = PickTokens(50, 1, 1);
  EXPECT_EQ(all.size(), 50u);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_NE(PickTokens(1000, 0.05, 1), PickTokens(1000, 0.05, 2));
}

}  // namespace
}  // namespace isobit
