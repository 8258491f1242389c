#include "runtime/text/bpe.h"

#include <algorithm>
#include <functional>

namespace isobit {

bool Bpe::Add(int32_t left, int32_t right, int32_t merged, uint32_t rank) {
  return merges_.try_emplace(Key(left, right), Merged{rank, merged}).second;
}

const Bpe::Merged* Bpe::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(Key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::Look(int32_t position, Scratch* scratch) const {
  Scratch::Symbol& symbol = scratch->symbols[static_cast<size_t>(position)];
  symbol.rank = kNoPair;
  if (symbol.next < 0) return;
  const Merged* merged = Find(symbol.id, scratch->symbols[static_cast<size_t>(symbol.next)].id);
  if (merged == nullptr) return;
  symbol.rank = merged->rank;
  scratch->heap.push_back(uint64_t{merged->rank} << 32 | static_cast<uint32_t>(position));
  std::push_heap(scratch->heap.begin(), scratch->heap.end(), std::greater<>());
}

void Bpe::Merge(const std::vector<int32_t>& ids, Scratch* scratch,
                std::vector<int32_t>* out) const {
  auto& symbols = scratch->symbols;
  auto& heap = scratch->heap;
  const auto count = static_cast<int32_t>(ids.size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({ids[static_cast<size_t>(i)], i + 1 < count ? i + 1 : -1, i - 1, kNoPair});
  }
  for (int32_t i = 0; i < count; ++i) Look(i, scratch);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const auto position = static_cast<int32_t>(heap.back() & UINT32_MAX);
    heap.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(position)];
    if (left.rank != rank) continue;  // the pair has changed or is gone since it was queued
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = Find(left.id, right.id)->id;
    left.next = right.next;
    right.rank = kNoPair;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = position;
    Look(position, scratch);
    if (left.previous >= 0) Look(left.previous, scratch);
  }
  for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    out->push_back(symbols[static_cast<size_t>(i)].id);
  }
}

}  // namespace isobit
