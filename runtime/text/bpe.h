#ifndef ISOBIT_RUNTIME_TEXT_BPE_H_
#define ISOBIT_RUNTIME_TEXT_BPE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace isobit {

// Byte pair encoding over token ids: as long as two neighbours form a known pair, the pair of
// lowest rank is replaced by its merged token, the leftmost one first.
//
// Thread-safe once filled.
class Bpe {
 public:
  // Pairs of lower rank merge first; those of equal rank from left to right. False if the pair was
  // added before. REQUIRES: rank < 2^32 - 1.
  bool Add(int32_t left, int32_t right, int32_t merged, uint32_t rank);

  void Reserve(size_t merges) { merges_.reserve(merges); }
  size_t size() const { return merges_.size(); }

  // Working memory of Merge, so that a text of many words allocates once.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t next;  // position of the neighbours, -1 at the ends
      int32_t previous;
      uint32_t rank;  // of the pair that this and the next symbol form
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;  // rank << 32 | position of the left symbol
  };

  // Appends to `out` what is left of `ids` after merging. O(n log n). REQUIRES: n < 2^31.
  void Merge(const std::vector<int32_t>& ids, Scratch* scratch, std::vector<int32_t>* out) const;

 private:
  static constexpr uint32_t kNoPair = UINT32_MAX;

  struct Merged {
    uint32_t rank;
    int32_t id;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  const Merged* Find(int32_t left, int32_t right) const;
  // Sets the rank of the pair that begins at `position`, and queues it if it is known.
  void Look(int32_t position, Scratch* scratch) const;

  absl::flat_hash_map<uint64_t, Merged> merges_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_BPE_H_
