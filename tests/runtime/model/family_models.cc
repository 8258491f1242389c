#include "tests/runtime/model/family_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "kernels/backends.h"
#include "runtime/model/checkpoint.h"
#include "runtime/model/forward.h"
#include "tests/runtime/text/toy_tokenizer.h"

namespace isobit {
namespace {

constexpr int kPageTokens = 16;

std::unique_ptr<Tokenizer> SmallTokenizer() {
  ToyTokenizer toy;
  toy.tokens.resize(128);
  toy.kinds.resize(128);
  auto tokenizer = toy.Build();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

}  // namespace

std::unique_ptr<Backend> CpuBackend() {
  auto backend = CreateCpuBackend({.threads = 1});
  EXPECT_TRUE(backend.ok());
  return *std::move(backend);
}

std::unique_ptr<Model> LoadFamily(const std::string& path, std::unique_ptr<Backend> backend) {
  auto checkpoint = Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  if (!checkpoint.ok()) return nullptr;
  auto model = Model::Load(**checkpoint, SmallTokenizer(), path, std::move(backend), 192);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return model.ok() ? *std::move(model) : nullptr;
}

std::vector<float> Logits(const Model& model, const std::vector<int32_t>& ids, size_t chunk) {
  const ModelConfig& c = model.config();
  const size_t vocab = static_cast<size_t>(c.vocab);
  chunk = std::min(chunk, ids.size());
  const int pages = (static_cast<int>(ids.size()) + kPageTokens - 1) / kPageTokens;
  auto cache = model.backend().CreateKvCache(
      {static_cast<int>(c.layers), c.kv_heads, c.head_dim, kPageTokens, pages});
  EXPECT_TRUE(cache.ok());
  const auto most = static_cast<int64_t>(chunk);
  auto forward = Forward::Create(model, **cache, {most, 1, pages, most});
  EXPECT_TRUE(forward.ok());
  std::vector<float> out(ids.size() * vocab);
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const size_t end = std::min(begin + chunk, ids.size());
    StepRows rows;
    rows.token_ids.assign(ids.begin() + static_cast<int64_t>(begin),
                          ids.begin() + static_cast<int64_t>(end));
    rows.sequence.assign(end - begin, 0);
    rows.first_row = {0, static_cast<int32_t>(end - begin)};
    std::vector<int32_t> all_rows;
    for (size_t i = begin; i < end; ++i) {
      rows.position.push_back(static_cast<int32_t>(i));
      all_rows.push_back(static_cast<int32_t>(i - begin));
    }
    for (int32_t i = 0; i < pages; ++i) rows.page_table.push_back(i);
    rows.page_table_stride = pages;
    rows.max_context = static_cast<int64_t>(end);
    (*forward)->Run(rows);
    const float* logits = (*forward)->Logits(all_rows);
    model.backend().Download(logits, (end - begin) * vocab * sizeof(float),
                             out.data() + begin * vocab);
    EXPECT_TRUE(model.backend().Synchronize().ok());
  }
  return out;
}

}  // namespace isobit
