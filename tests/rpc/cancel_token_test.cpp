#include "trireme/rpc/cancel_token.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"
#include "trireme/core/log.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/rpc/word_wait.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using TokenCargo = Cargo<struct CancelTokenTest>;

}  // namespace

TEST(CancelToken, ADefaultOneIsNeverCancelled) {
  const CancelToken token;
  EXPECT_FALSE(token.cancel("no"));
  EXPECT_FALSE(token.cancelled());
  EXPECT_EQ(token.why(), "");
  EXPECT_NO_THROW(token.throw_if_cancelled());
  const auto kept = token.on_cancel([](const std::string&) { FAIL(); });
  const CancelToken child = token.child();
  EXPECT_TRUE(child.cancel("alone"));
}

TEST(CancelToken, IsCancelledOnceForAllItsCopies) {
  const CancelToken token = CancelToken::make();
  const CancelToken copy = token;
  EXPECT_EQ(copy, token);
  EXPECT_NE(copy, CancelToken::make());
  EXPECT_FALSE(copy.cancelled());
  EXPECT_TRUE(token.cancel("the caller has left"));
  EXPECT_FALSE(token.cancel("again"));
  EXPECT_TRUE(copy.cancelled());
  EXPECT_EQ(copy.why(), "the caller has left");
}

TEST(CancelToken, ThrowsWithTheReason) {
  const CancelToken token = CancelToken::make();
  EXPECT_NO_THROW(token.throw_if_cancelled());
  token.cancel("enough");
  EXPECT_EQ(
      trireme::testing::message_of<Cancelled>([&] { token.throw_if_cancelled(); }),
      "[rpc] expected a call that somebody waits for, got its cancellation (enough); "
      "end "
      "its work here");
}

TEST(CancelToken, CallsBackInOrderAndOnce) {
  const CancelToken token = CancelToken::make();
  std::string notes;
  const auto note = [&](char name) {
    return [&notes, name](const std::string& why) { (notes += name) += why; };
  };
  const auto a = token.on_cancel(note('a'));
  auto b = token.on_cancel(note('b'));
  const auto c = token.on_cancel(note('c'));
  b.reset();
  b.reset();
  token.cancel("1");
  token.cancel("2");
  EXPECT_EQ(notes, "a1c1");
  const auto late = token.on_cancel(note('d'));
  EXPECT_EQ(notes, "a1c1d1");
}

TEST(CancelToken, ARegistrationMoves) {
  const CancelToken token = CancelToken::make();
  int calls = 0;
  const auto count = [&](const std::string&) { ++calls; };
  auto first = token.on_cancel(count);
  CancelRegistration second = std::move(first);
  first.reset();
  auto third = token.on_cancel(count);
  third = std::move(second);
  token.cancel("");
  EXPECT_EQ(calls, 1);
}

TEST(CancelToken, ARegistrationOutlivesItsToken) {
  CancelRegistration kept;
  {
    const CancelToken token = CancelToken::make();
    kept = token.on_cancel([cargo = TokenCargo()](const std::string&) {});
    EXPECT_EQ(TokenCargo::alive, 1);
  }
  kept.reset();
  EXPECT_EQ(TokenCargo::alive, 0);
}

TEST(CancelToken, ACallbackMayEndItselfAndTheToken) {
  auto token = std::make_optional(CancelToken::make());
  std::optional<CancelRegistration> kept;
  int calls = 0;
  kept = token->on_cancel([&, cargo = TokenCargo()](const std::string& why) {
    ++calls;
    kept.reset();
    token.reset();
    EXPECT_EQ(why, "end");
  });
  const CancelToken* own = &*token;
  own->cancel("end");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(TokenCargo::alive, 0);
}

TEST(CancelToken, ACallbackMayEndAnother) {
  const CancelToken token = CancelToken::make();
  std::optional<CancelRegistration> other;
  const auto first = token.on_cancel([&](const std::string&) { other.reset(); });
  other = token.on_cancel([](const std::string&) { FAIL(); });
  token.cancel("");
}

TEST(CancelToken, WhatACallbackThrowsIsLogged) {
  std::vector<std::string> lines;
  const auto scope =
      set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  const CancelToken token = CancelToken::make();
  bool called = false;
  const auto a = token.on_cancel([](const std::string&) { throw Error("broken"); });
  const auto b = token.on_cancel([](const std::string&) { throw 1; });
  const auto c = token.on_cancel([&](const std::string&) { called = true; });
  token.cancel("");
  EXPECT_TRUE(called);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("broken"), std::string::npos);
}

TEST(CancelToken, IsCancelledWithItsParentOnly) {
  const CancelToken parent = CancelToken::make();
  const CancelToken child = parent.child();
  const CancelToken grandchild = child.child();
  const CancelToken sibling = parent.child();
  EXPECT_TRUE(child.cancel("child"));
  EXPECT_FALSE(parent.cancelled());
  EXPECT_FALSE(sibling.cancelled());
  EXPECT_EQ(grandchild.why(), "child");
  EXPECT_TRUE(parent.cancel("parent"));
  EXPECT_EQ(sibling.why(), "parent");
  EXPECT_EQ(child.why(), "child");
  EXPECT_EQ(parent.child().why(), "parent");
}

TEST(CancelToken, AChildLeavesNothingBehind) {
  const CancelToken parent = CancelToken::make();
  for (int i = 0; i < 100; ++i) {
    const CancelToken child = parent.child();
    const auto kept = child.on_cancel([cargo = TokenCargo()](const std::string&) {});
  }
  EXPECT_EQ(TokenCargo::alive, 0);
  parent.cancel("");
}

TEST(CancelToken, NoCallbackRunsWhenItsRegistrationIsGone) {
  for (int round = 0; round < 3000; ++round) {
    const CancelToken token = CancelToken::make();
    auto cargo = std::make_unique<int>(0);
    int* number = cargo.get();
    auto kept = token.on_cancel([number](const std::string&) { ++*number; });
    std::atomic<bool> go{false};
    std::thread other([&] {
      while (!go) {
      }
      token.cancel("");
    });
    go = true;
    kept.reset();
    cargo.reset();  // a callback that still runs would write into it
    other.join();
  }
}

TEST(CancelToken, ChildrenComeAndGoWhileTheParentIsCancelled) {
  for (int round = 0; round < 300; ++round) {
    const CancelToken parent = CancelToken::make();
    std::atomic<int> cancelled{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        while (!parent.cancelled()) {
          const CancelToken child = parent.child();
          const auto kept = child.on_cancel([&](const std::string&) { ++cancelled; });
        }
        EXPECT_TRUE(parent.child().cancelled());
      });
    EXPECT_TRUE(parent.cancel("over"));
    for (auto& thread : threads)
      thread.join();
    EXPECT_LE(cancelled, 3);
  }
}

TEST(CancelToken, OneOfManyCancels) {
  for (int round = 0; round < 300; ++round) {
    const CancelToken token = CancelToken::make();
    std::atomic<int> winners{0}, calls{0};
    const auto kept = token.on_cancel([&](const std::string&) { ++calls; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] { winners += token.cancel("me") ? 1 : 0; });
    for (auto& thread : threads)
      thread.join();
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(calls, 1);
  }
}

TEST(CancelToken, IsTheSameForOneThatDoesNotKnowIt) {
  const CancelToken token = CancelToken::make();
  const std::shared_ptr<void> kept = token.share();
  EXPECT_TRUE(CancelToken::shared(kept) == token);
  EXPECT_TRUE(CancelToken::shared(kept).cancel("over"));
  EXPECT_TRUE(token.cancelled());
  EXPECT_FALSE(CancelToken::shared(nullptr).cancel("nobody"));
}

// A callback that runs may wait for what this thread has not woken yet.
TEST(CancelToken, AResetWakesFirstWhomItHasKeptForLater) {
  const CancelToken token = CancelToken::make();
  std::atomic<std::uint32_t> word{0};
  std::atomic<bool> runs{false}, woken{false};
  auto kept = token.on_cancel([&](const std::string&) {
    runs = true;
    woken = wait_while(word, 0, Deadline::after(std::chrono::seconds(5)));
  });
  std::thread other([&] { token.cancel("enough"); });
  while (!runs)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // asleep by now
  const auto start = Deadline::Clock::now();
  {
    const LateWakes late;
    word = 1;
    wake_all_later(word);
    kept.reset();
  }
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(3));
  EXPECT_TRUE(woken);
  other.join();
}

}  // namespace trireme::rpc
