#ifndef ISOBIT_RUNTIME_ENGINE_PAGE_POOL_H_
#define ISOBIT_RUNTIME_ENGINE_PAGE_POOL_H_

// The KV pages and the prefix cache over them.
//
// A page is in use (one or more sequences hold it), cached (nobody holds it, but it keeps the keys
// and values of a known prefix), or blank. Full pages of a sequence are published under the hash of
// all tokens up to their end; another sequence finds them by that hash and takes them only if the
// tokens are really equal (hash to find, tokens to confirm). When no blank page is left, the cached
// page that was let go longest ago is overwritten. Time is a count of operations, so the same
// operations evict the same pages.
//
// What is cached never shows in bits: a page's content is a function of the tokens up to its end
// (contract 4).
//
// Not thread-safe.

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "runtime/receipt/digest.h"

namespace isobit {

// A place in the tree of published prefixes: the page that ends there and the serial number of its
// content, since the page may be overwritten by then.
struct PrefixEnd {
  int32_t page = -1;    // -1: before the first page
  uint64_t serial = 0;  // 0: not published
};

class PagePool {
 public:
  // REQUIRES: pages >= 0, page_tokens >= 1.
  PagePool(int64_t pages, int64_t page_tokens, bool prefix_cache);

  int64_t pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t page_tokens() const { return page_tokens_; }
  int64_t available() const { return static_cast<int64_t>(blank_.size() + cached_.size()); }
  int64_t in_use() const { return pages() - available(); }
  int32_t holders(int32_t page) const { return pages_[static_cast<size_t>(page)].holders; }
  int64_t cached() const { return static_cast<int64_t>(cached_.size()); }
  std::span<const int32_t> blank() const { return blank_; }  // pages that hold nothing

  // The pages that hold the longest published prefix of `tokens`. Changes nothing.
  std::vector<int32_t> Find(std::span<const int32_t> tokens) const;
  // How many of these pages nobody holds: taking them makes that many fewer available.
  int64_t CountUnheld(std::span<const int32_t> pages) const;

  // Holds a page found by Find once more.
  void Hold(int32_t page);
  // A page with undefined content, held once; nullopt if none is available.
  std::optional<int32_t> Allocate();
  // Lets a held page go. Release the pages of a sequence from its end, so that a prefix outlives
  // what follows it.
  void Release(int32_t page);

  // Publishes a held page whose keys and values are complete. `parent` is where the prefix before
  // it ends; if that is not published any more, nothing is. Returns where this content is known:
  // in `page`, or in another that was there before, which the caller does not hold.
  PrefixEnd Publish(int32_t page, PrefixEnd parent, std::span<const int32_t> tokens);
  PrefixEnd EndAt(int32_t page) const { return {page, pages_[static_cast<size_t>(page)].serial}; }

  // Forgets every cached prefix: pages in use stay, but nobody new will find them.
  void Clear();

  // Every page is in exactly one state, counts and lists agree, and each page of `held` (all pages
  // of all sequences, with repetitions) is held exactly as often as it stands there.
  absl::Status CheckIntegrity(std::span<const int32_t> held) const;

 private:
  struct Page {
    int32_t holders = 0;
    bool published = false;
    Digest hash;                             // of all tokens up to this page's end; if published
    uint64_t serial = 0;                     // of this content, 0 unless published; never reused
    uint64_t parent_serial = 0;              // 0: first page
    std::vector<int32_t> tokens;             // of this page alone; if published
    std::list<int32_t>::iterator in_cached;  // if cached
  };

  static Digest Hash(const Digest& parent, std::span<const int32_t> tokens);
  std::optional<int32_t> FindChild(const Digest& hash, uint64_t parent_serial,
                                   std::span<const int32_t> tokens) const;
  void Unpublish(Page& page);

  int64_t page_tokens_;
  bool prefix_cache_;
  std::vector<Page> pages_;
  std::vector<int32_t> blank_;
  std::list<int32_t> cached_;  // let go longest ago first
  uint64_t next_serial_ = 1;

  struct DigestHash {
    size_t operator()(const Digest& d) const { return static_cast<size_t>(d.low); }
  };
  std::unordered_map<Digest, int32_t, DigestHash>
      by_hash_;  // looked up only, never walked in order
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_PAGE_POOL_H_
