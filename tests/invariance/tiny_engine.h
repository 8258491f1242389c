#ifndef ISOBIT_TESTS_INVARIANCE_TINY_ENGINE_H_
#define ISOBIT_TESTS_INVARIANCE_TINY_ENGINE_H_

// Engines on a tiny model, stepped by hand, and what comes of requests alone. Failures to set up
// are test failures.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "invariance/outcome.h"
#include "invariance/schedule.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/engine_core.h"
#include "tests/tiny_model.h"

namespace isobit {

// "reference", "cuda", or the CPU backend with 2 threads: "cpu", "cpu avx2", "cpu sse4", "cpu
// scalar". "late" is a LateBackend, and "late gpu" one whose steps are recorded.
std::unique_ptr<Backend> MakeBackend(const std::string& name);

// Whether this machine has a GPU for the CUDA backend.
bool HasCuda();

// "reference", the CPU backend with every instruction set that this machine has, and "cuda" where
// there is one.
std::vector<std::string> BackendNames();
// In the name of a test that is run with each of them.
std::string BackendTestName(const testing::TestParamInfo<std::string>& backend);

std::unique_ptr<Model> LoadTiny(const TinyModelOptions& tiny = {},
                                const std::string& backend = "cpu");
std::unique_ptr<EngineCore> MakeCore(const EngineOptions& options = {},
                                     const TinyModelOptions& tiny = {},
                                     const std::string& backend = "cpu");
// With a thread of its own.
std::unique_ptr<Engine> MakeEngine(const EngineOptions& options = {},
                                   const TinyModelOptions& tiny = {},
                                   const std::string& backend = "cpu");

// Greedy, 8 tokens, log-probabilities of each token and one alternative.
PreparedRequest MakeRequest(const std::string& id, std::vector<int32_t> prompt);
// Tokens of the tiny vocabulary, from a seed.
std::vector<int32_t> Tokens(uint64_t seed, int64_t count);
// As the engine takes it from a user.
Request AsRequest(const PreparedRequest& request);

std::vector<Outcome> RunScheduled(EngineCore& engine, std::vector<ScheduledRequest> requests,
                                  const ScheduleOptions& options = {});
// All arrive before the first step.
std::vector<Outcome> RunTogether(EngineCore& engine, const std::vector<PreparedRequest>& requests,
                                 const ScheduleOptions& options = {});
// One at a time, one sequence a step, no prefix cache.
std::vector<Outcome> RunAlone(const std::vector<PreparedRequest>& requests,
                              const TinyModelOptions& tiny = {},
                              const std::string& backend = "cpu");

// The first difference in logits, log-probabilities, ids, text or digests; "nothing was compared"
// if so; empty if all is equal.
std::string Difference(const Outcome& expected, const Outcome& got,
                       CompareScope scope = CompareScope::kAll);
// Of all; the requests must be the same.
std::string Difference(const std::vector<Outcome>& expected, const std::vector<Outcome>& got,
                       CompareScope scope = CompareScope::kAll);

}  // namespace isobit

#endif  // ISOBIT_TESTS_INVARIANCE_TINY_ENGINE_H_
