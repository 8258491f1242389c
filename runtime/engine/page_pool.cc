#include "runtime/engine/page_pool.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace isobit {

PagePool::PagePool(int64_t pages, int64_t page_tokens, bool prefix_cache)
    : page_tokens_(page_tokens), prefix_cache_(prefix_cache), pages_(static_cast<size_t>(pages)) {
  // Taken from the back: low page numbers first.
  for (int64_t i = pages - 1; i >= 0; --i) blank_.push_back(static_cast<int32_t>(i));
}

Digest PagePool::Hash(const Digest& parent, std::span<const int32_t> tokens) {
  return DigestBuilder().Add(parent).Add(tokens).Finish();
}

std::optional<int32_t> PagePool::FindChild(const Digest& hash, uint64_t parent_serial,
                                           std::span<const int32_t> tokens) const {
  const auto it = by_hash_.find(hash);
  if (it == by_hash_.end()) return std::nullopt;
  const Page& page = pages_[static_cast<size_t>(it->second)];
  if (page.parent_serial != parent_serial || !std::ranges::equal(page.tokens, tokens))
    return std::nullopt;
  return it->second;
}

std::vector<int32_t> PagePool::Find(std::span<const int32_t> tokens) const {
  std::vector<int32_t> found;
  if (by_hash_.empty()) return found;
  Digest hash;
  uint64_t parent = 0;
  const auto size = static_cast<size_t>(page_tokens_);
  for (; tokens.size() >= size; tokens = tokens.subspan(size)) {
    hash = Hash(hash, tokens.first(size));
    const auto page = FindChild(hash, parent, tokens.first(size));
    if (!page) break;
    found.push_back(*page);
    parent = pages_[static_cast<size_t>(*page)].serial;
  }
  return found;
}

int64_t PagePool::CountUnheld(std::span<const int32_t> pages) const {
  return std::ranges::count_if(
      pages, [this](int32_t page) { return pages_[static_cast<size_t>(page)].holders == 0; });
}

void PagePool::Hold(int32_t index) {
  Page& page = pages_[static_cast<size_t>(index)];
  assert(page.published);
  if (page.holders++ == 0) cached_.erase(page.in_cached);
}

std::optional<int32_t> PagePool::Allocate() {
  int32_t index;
  if (!blank_.empty()) {
    index = blank_.back();
    blank_.pop_back();
  } else if (!cached_.empty()) {
    index = cached_.front();
    cached_.pop_front();
    Unpublish(pages_[static_cast<size_t>(index)]);
  } else {
    return std::nullopt;
  }
  pages_[static_cast<size_t>(index)].holders = 1;
  return index;
}

void PagePool::Release(int32_t index) {
  Page& page = pages_[static_cast<size_t>(index)];
  assert(page.holders > 0);
  if (--page.holders > 0) return;
  if (page.published) {
    page.in_cached = cached_.insert(cached_.end(), index);
  } else {
    blank_.push_back(index);
  }
}

PrefixEnd PagePool::Publish(int32_t index, PrefixEnd parent, std::span<const int32_t> tokens) {
  Page& page = pages_[static_cast<size_t>(index)];
  if (!prefix_cache_ || page.published) return EndAt(index);
  assert(page.holders > 0 && static_cast<int64_t>(tokens.size()) == page_tokens_);
  Digest parent_hash;
  if (parent.page >= 0) {
    const Page& before = pages_[static_cast<size_t>(parent.page)];
    // Forgotten by Clear, or overwritten since: what follows can't be found either.
    if (!before.published || before.serial != parent.serial) return EndAt(index);
    parent_hash = before.hash;
  }
  const Digest hash = Hash(parent_hash, tokens);
  const auto [it, inserted] = by_hash_.try_emplace(hash, index);
  if (!inserted) {
    // The same content is known already, or (never seen) another one has the same hash: then this
    // one stays private.
    return EndAt(FindChild(hash, parent.serial, tokens).value_or(index));
  }
  page.published = true;
  page.hash = hash;
  page.serial = next_serial_++;
  page.parent_serial = parent.serial;
  page.tokens.assign(tokens.begin(), tokens.end());
  return EndAt(index);
}

void PagePool::Unpublish(Page& page) {
  by_hash_.erase(page.hash);
  page.published = false;
  page.tokens.clear();
  page.serial = 0;
}

void PagePool::Clear() {
  for (int32_t index : cached_) blank_.push_back(index);
  cached_.clear();
  for (Page& page : pages_) {
    if (page.published) Unpublish(page);
  }
}

absl::Status PagePool::CheckIntegrity(std::span<const int32_t> held) const {
  auto fail = [](auto... parts) {
    return absl::InternalError(absl::StrCat("page pool: ", parts...));
  };
  std::vector<int32_t> holders(pages_.size(), 0);
  for (int32_t page : held) {
    if (page < 0 || page >= pages()) return fail("page ", page, " of a sequence does not exist");
    ++holders[static_cast<size_t>(page)];
  }
  std::vector<int> listed(pages_.size(), 0);
  for (int32_t page : blank_) ++listed[static_cast<size_t>(page)];
  for (int32_t page : cached_) ++listed[static_cast<size_t>(page)];
  for (size_t i = 0; i < pages_.size(); ++i) {
    const Page& page = pages_[i];
    if (page.holders != holders[i]) {
      return fail("page ", i, " counts ", page.holders, " holders, sequences hold it ", holders[i],
                  " times");
    }
    if (listed[i] != (page.holders == 0 ? 1 : 0)) {
      return fail("page ", i, " with ", page.holders, " holders stands ", listed[i],
                  " times in the free lists");
    }
    if (page.published) {
      const auto it = by_hash_.find(page.hash);
      if (it == by_hash_.end() || it->second != static_cast<int32_t>(i))
        return fail("page ", i, " can't be found by its hash");
      if (static_cast<int64_t>(page.tokens.size()) != page_tokens_)
        return fail("page ", i, " keeps ", page.tokens.size(), " tokens");
    }
  }
  for (int32_t page : blank_) {
    if (pages_[static_cast<size_t>(page)].published)
      return fail("blank page ", page, " is published");
  }
  for (int32_t page : cached_) {
    if (!pages_[static_cast<size_t>(page)].published)
      return fail("cached page ", page, " is not published");
  }
  const auto published =
      std::ranges::count_if(pages_, [](const Page& page) { return page.published; });
  if (static_cast<size_t>(published) != by_hash_.size()) {
    return fail(by_hash_.size(), " hashes for ", published, " published pages");
  }
  return absl::OkStatus();
}

}  // namespace isobit
