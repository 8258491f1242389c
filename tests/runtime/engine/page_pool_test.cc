#include "runtime/engine/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace isobit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int32_t> Tokens(int begin, int end) {
  std::vector<int32_t> tokens;
  for (int i = begin; i < end; ++i) tokens.push_back(i);
  return tokens;
}

// A sequence that holds pages and publishes all of its full ones.
std::vector<int32_t> Fill(PagePool& pool, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> pages;
  PrefixEnd parent;
  const auto size = static_cast<size_t>(pool.page_tokens());
  for (size_t begin = 0; begin + size <= tokens.size(); begin += size) {
    pages.push_back(*pool.Allocate());
    parent = pool.Publish(pages.back(), parent, std::span(tokens).subspan(begin, size));
  }
  return pages;
}

void ReleaseAll(PagePool& pool, const std::vector<int32_t>& pages) {
  for (size_t i = pages.size(); i-- > 0;) pool.Release(pages[i]);
}

TEST(PagePool, HandsOutEveryPageOnce) {
  PagePool pool(3, 4, true);
  EXPECT_EQ(pool.Allocate(), 0);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), 2);
  EXPECT_EQ(pool.Allocate(), std::nullopt);
  EXPECT_EQ(pool.in_use(), 3);
  pool.Release(1);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_TRUE(pool.CheckIntegrity(std::vector<int32_t>{0, 1, 2}).ok());
}

TEST(PagePool, FindsTheLongestPrefixOfWholePages) {
  PagePool pool(8, 4, true);
  const auto pages = Fill(pool, Tokens(0, 12));
  EXPECT_EQ(pool.Find(Tokens(0, 12)), pages);
  EXPECT_EQ(pool.Find(Tokens(0, 40)), pages);
  EXPECT_THAT(pool.Find(Tokens(0, 11)), ElementsAre(pages[0], pages[1]));
  EXPECT_THAT(pool.Find(Tokens(0, 3)), IsEmpty());
  EXPECT_THAT(pool.Find(Tokens(4, 12)), IsEmpty())
      << "the same tokens elsewhere are another prefix";
}

TEST(PagePool, PagesOutliveTheirHoldersUntilSpaceIsNeeded) {
  PagePool pool(3, 4, true);
  const auto pages = Fill(pool, Tokens(0, 12));
  ReleaseAll(pool, pages);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.cached(), 3);
  EXPECT_EQ(pool.CountUnheld(pages), 3);
  // The end of a sequence is let go first, so it is overwritten first: the prefix lasts longest.
  EXPECT_EQ(pool.Allocate(), pages[2]);
  EXPECT_THAT(pool.Find(Tokens(0, 12)), ElementsAre(pages[0], pages[1]));
  pool.Hold(pages[0]);
  EXPECT_EQ(pool.CountUnheld(std::vector<int32_t>{pages[0], pages[1]}), 1);
  EXPECT_EQ(pool.Allocate(), pages[1]);
  EXPECT_EQ(pool.Allocate(), std::nullopt) << "a held page is never overwritten";
  EXPECT_TRUE(pool.CheckIntegrity(pages).ok());
}

TEST(PagePool, ChildOfAnOverwrittenParentIsNotFound) {
  PagePool pool(3, 4, true);
  const auto first = Fill(pool, Tokens(0, 8));
  pool.Hold(first[1]);  // a second holder of the child only
  ReleaseAll(pool, first);
  EXPECT_EQ(pool.Allocate(), 2);         // blank
  EXPECT_EQ(pool.Allocate(), first[0]);  // evicts the parent
  EXPECT_THAT(pool.Find(Tokens(0, 8)), IsEmpty());
  // The parent's tokens come back in another page: the old child belongs to the old content.
  pool.Release(first[0]);
  const int32_t again = *pool.Allocate();
  EXPECT_EQ(pool.Publish(again, {}, Tokens(0, 4)).page, again);
  EXPECT_THAT(pool.Find(Tokens(0, 8)), ElementsAre(again));
}

TEST(PagePool, TheSameContentIsKnownOnce) {
  PagePool pool(4, 4, true);
  const auto first = Fill(pool, Tokens(0, 8));
  const int32_t copy = *pool.Allocate();
  EXPECT_EQ(pool.Publish(copy, {}, Tokens(0, 4)).page, first[0]);
  pool.Release(copy);
  EXPECT_EQ(pool.cached(), 0) << "a copy is not worth keeping";
  EXPECT_TRUE(pool.CheckIntegrity(first).ok());
}

// A copy goes on behind content that it does not hold; once that page holds something else, what
// follows the copy must not be found behind the new content.
TEST(PagePool, WhatFollowsACopyDoesNotMoveToOtherContent) {
  PagePool pool(3, 4, true);
  const auto first = Fill(pool, Tokens(0, 4));
  const int32_t copy = *pool.Allocate();
  const PrefixEnd parent = pool.Publish(copy, {}, Tokens(0, 4));
  ASSERT_EQ(parent.page, first[0]);
  const int32_t next = *pool.Allocate();  // the copy's second page, not complete yet
  ReleaseAll(pool, first);
  ASSERT_EQ(pool.Allocate(), first[0]);  // evicted
  ASSERT_EQ(pool.Publish(first[0], {}, Tokens(50, 54)).page, first[0]);
  pool.Publish(next, parent, Tokens(4, 8));
  std::vector<int32_t> other = Tokens(50, 54);
  for (const int32_t token : Tokens(4, 8)) other.push_back(token);
  EXPECT_THAT(pool.Find(other), ElementsAre(first[0]));
  EXPECT_THAT(pool.Find(Tokens(0, 8)), IsEmpty());
}

TEST(PagePool, WithoutPrefixCacheNothingIsFound) {
  PagePool pool(4, 4, false);
  const auto pages = Fill(pool, Tokens(0, 8));
  EXPECT_THAT(pool.Find(Tokens(0, 8)), IsEmpty());
  ReleaseAll(pool, pages);
  EXPECT_EQ(pool.cached(), 0);
  EXPECT_EQ(pool.available(), 4);
}

TEST(PagePool, ClearForgetsPrefixesAndKeepsHeldPages) {
  PagePool pool(4, 4, true);
  const auto held = Fill(pool, Tokens(0, 4));
  const PrefixEnd parent = pool.EndAt(held[0]);
  ReleaseAll(pool, Fill(pool, Tokens(100, 108)));
  pool.Clear();
  EXPECT_THAT(pool.Find(Tokens(0, 4)), IsEmpty());
  EXPECT_EQ(pool.cached(), 0);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_TRUE(pool.CheckIntegrity(held).ok());
  // A sequence that goes on after Clear can't publish behind a forgotten parent.
  const int32_t next = *pool.Allocate();
  EXPECT_EQ(pool.Publish(next, parent, Tokens(4, 8)).serial, 0u);
  EXPECT_THAT(pool.Find(Tokens(0, 8)), IsEmpty());
}

TEST(PagePool, IntegrityNamesWhatIsWrong) {
  PagePool pool(2, 4, true);
  const int32_t page = *pool.Allocate();
  EXPECT_THAT(std::string(pool.CheckIntegrity({}).message()), HasSubstr("page 0 counts 1 holders"));
  EXPECT_THAT(std::string(pool.CheckIntegrity(std::vector<int32_t>{page, 7}).message()),
              HasSubstr("page 7"));
}

// Against a model that keeps whole token prefixes: what Find returns must be right whatever
// happened.
TEST(PagePool, RandomOperationsKeepEveryInvariant) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    PagePool pool(12, 4, true);
    struct Held {
      std::vector<int32_t> tokens, pages;
      PrefixEnd parent;
    };
    std::vector<Held> sequences;
    std::map<int32_t, std::vector<int32_t>> content;  // page -> all tokens up to its end
    for (int step = 0; step < 400; ++step) {
      const unsigned action = random() % 4;
      if (action == 0) {  // a new sequence, from what is cached
        Held h;
        for (int i = 0; i < 24; ++i) h.tokens.push_back(static_cast<int32_t>(random() % 2));
        h.pages = pool.Find(h.tokens);
        for (size_t i = 0; i < h.pages.size(); ++i) {
          const std::vector<int32_t> prefix(h.tokens.begin(),
                                            h.tokens.begin() + static_cast<ptrdiff_t>(4 * (i + 1)));
          ASSERT_EQ(content.at(h.pages[i]), prefix);
          pool.Hold(h.pages[i]);
        }
        h.parent = h.pages.empty() ? PrefixEnd() : pool.EndAt(h.pages.back());
        sequences.push_back(h);
      } else if (action == 1 && !sequences.empty()) {  // one more page
        Held& h = sequences[random() % sequences.size()];
        const size_t n = h.pages.size();
        if (4 * (n + 1) > h.tokens.size()) continue;
        const auto page = pool.Allocate();
        if (!page) continue;
        h.pages.push_back(*page);
        content[*page].assign(h.tokens.begin(),
                              h.tokens.begin() + static_cast<ptrdiff_t>(4 * (n + 1)));
        h.parent = pool.Publish(*page, h.parent, std::span(h.tokens).subspan(4 * n, 4));
      } else if (action == 2 && !sequences.empty()) {  // one ends
        const size_t i = random() % sequences.size();
        ReleaseAll(pool, sequences[i].pages);
        sequences.erase(sequences.begin() + static_cast<ptrdiff_t>(i));
      } else if (random() % 50 == 0) {
        pool.Clear();
      }
      std::vector<int32_t> held;
      for (const Held& h : sequences) held.insert(held.end(), h.pages.begin(), h.pages.end());
      ASSERT_TRUE(pool.CheckIntegrity(held).ok()) << pool.CheckIntegrity(held);
    }
  }
}

}  // namespace
}  // namespace isobit
