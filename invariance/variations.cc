#include "invariance/variations.h"

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

void AddCompany(const EngineOptions& base, bool full, std::vector<Variation>* all) {
  all->push_back({.name = "all at once", .engine = base});
  for (int64_t n : {2, 3, 7, 16}) {
    Variation v = {.name = absl::StrCat(n, " at once"), .engine = base};
    v.engine.max_num_seqs = n;
    all->push_back(v);
  }
  for (uint64_t seed = 1; seed <= (full ? 4 : 1); ++seed) {
    all->push_back({.name = absl::StrCat("shuffled, arriving one by one", full ? " " : "",
                                         full ? std::to_string(seed) : ""),
                    .engine = base,
                    .shuffle_seed = seed,
                    .steps_between = 1});
  }
  all->push_back({.name = "among noise", .engine = base, .noise = full ? 24 : 8});
  all->push_back({.name = "among cancelled neighbours",
                  .engine = base,
                  .noise = full ? 24 : 6,
                  .cancel_noise = true});
  if (full) {
    Variation v = {
        .name = "beside long prefills", .engine = base, .noise = 8, .longest_noise = 400};
    v.engine.max_num_batched_tokens = 64;
    v.engine.kv_cache_tokens += 8 * 512;
    all->push_back(v);
  }
}

void AddSteps(const EngineOptions& base, std::vector<Variation>* all) {
  for (int64_t budget : {1, 7, 64, 4096}) {
    Variation v = {
        .name = absl::StrCat("step budget of ", budget, budget == 1 ? " token" : " tokens"),
        .engine = base};
    v.engine.max_num_batched_tokens = budget;
    all->push_back(v);
  }
}

void AddPages(const EngineOptions& base, int64_t longest, bool full, std::vector<Variation>* all) {
  for (int64_t page : {int64_t{16}, int64_t{32}, kLargestPage}) {
    Variation v = {.name = absl::StrCat("KV pages of ", page, " tokens"),
                   .engine = base,
                   .shuffle_seed = static_cast<uint64_t>(page)};
    v.engine.block_size = page;
    all->push_back(v);
  }
  EngineOptions tight = base;
  tight.block_size = 16;
  tight.kv_cache_tokens = (longest + 15) / 16 * 16 + 32;
  all->push_back({.name = "small KV pool, preempted", .engine = tight, .expect_preemption = true});
  all->push_back({.name = "free KV pages hold NaN",
                  .engine = tight,
                  .shuffle_seed = 3,
                  .poison_free_pages = true});

  EngineOptions cached = base;
  cached.prefix_cache = true;
  cached.block_size = 16;
  all->push_back(
      {.name = "prefix cache, cold and warm", .engine = cached, .runs = 2, .expect_cached = true});
  tight.prefix_cache = true;
  tight.kv_cache_tokens += full ? 256 : 64;
  all->push_back({.name = "prefix cache evicted and preempted",
                  .engine = tight,
                  .shuffle_seed = 4,
                  .expect_preemption = true,
                  .expect_cached = true});
}

}  // namespace

std::vector<Variation> MakeVariations(const EngineOptions& base, int64_t longest, bool full) {
  std::vector<Variation> all;
  AddCompany(base, full, &all);
  AddSteps(base, &all);
  AddPages(base, longest, full, &all);
  all.push_back({.name = "log-probabilities not asked for", .engine = base, .ask_logprobs = false});
  return all;
}

}  // namespace isobit
