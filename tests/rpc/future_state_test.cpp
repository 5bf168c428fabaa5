#include "trireme/rpc/future_state.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"
#include "trireme/core/log.h"
#include "trireme/rpc/future.h"
#include "trireme/rpc/word_wait.h"

namespace trireme::rpc {
namespace {

using HookCargo = Cargo<struct FutureStateTest>;

// A hook that cancels nothing else.
template <class Function>
CancelHook lone_hook(Function function) {
  return [function = std::move(function)](const std::string& why) mutable {
    function(why);
    return StatePointer();
  };
}

// Notes that it was run, then has others run.
struct NotingContinuation final : Continuation {
  void run() noexcept override {
    notes->push_back(name);
    if (then)
      run_continuations(then);
    notes->push_back(-name);
  }
  std::vector<int>* notes = nullptr;
  int name = 0;
  Continuation* then = nullptr;
};

}  // namespace

TEST(CancelSlot, GivesTheHookToWhoTakesIt) {
  CancelSlot slot;
  std::string heard;
  CancelHook hook = lone_hook([&](const std::string& why) { heard = why; });
  EXPECT_TRUE(slot.put(hook));
  CancelHook taken = slot.take();
  ASSERT_TRUE(taken);
  taken("so");
  EXPECT_EQ(heard, "so");
  EXPECT_FALSE(slot.take());
}

TEST(CancelSlot, TheLastHookCounts) {
  CancelSlot slot;
  CancelHook first = lone_hook([cargo = HookCargo(1)](const std::string&) { FAIL(); });
  int calls = 0;
  CancelHook second = lone_hook([&](const std::string&) { ++calls; });
  EXPECT_TRUE(slot.put(first));
  EXPECT_TRUE(slot.put(second));
  EXPECT_EQ(HookCargo::alive, 0);
  slot.take()("");
  EXPECT_EQ(calls, 1);
}

TEST(CancelSlot, LeavesALateHookAlone) {
  CancelSlot slot;
  EXPECT_FALSE(slot.take());
  int calls = 0;
  CancelHook late = lone_hook([&](const std::string&) { ++calls; });
  EXPECT_FALSE(slot.put(late));
  ASSERT_TRUE(late);
  late("");
  EXPECT_EQ(calls, 1);
}

TEST(CancelSlot, AHookIsGivenToOneOfTheTwo) {
  for (int round = 0; round < 5000; ++round) {
    CancelSlot slot;
    int firsts = 0, seconds = 0;  // by whoever has the hook
    CancelHook first = lone_hook([&](const std::string&) { ++firsts; });
    CancelHook second = lone_hook([&](const std::string&) { ++seconds; });
    std::atomic<bool> go{false};
    CancelHook taken;
    std::thread taker([&] {
      while (!go) {
      }
      taken = slot.take();
    });
    go = true;
    const bool first_in = slot.put(first);
    const bool second_in = slot.put(second);
    taker.join();
    EXPECT_LE(second_in, first_in);
    EXPECT_EQ(static_cast<bool>(second), !second_in);
    if (taken)
      taken("");
    if (second)
      second("");
    EXPECT_EQ(seconds, 1);  // the taker's, or given back
    EXPECT_LE(firsts, second_in ? 0 : 1);
  }
}

TEST(Continuation, OneThatIsRunByAnotherWaitsForItsEnd) {
  std::vector<int> notes;
  NotingContinuation a, b, c;
  a.notes = b.notes = c.notes = &notes;
  a.name = 1, b.name = 2, c.name = 3;
  a.then = &b;
  b.then = &c;
  run_continuations(&a);
  EXPECT_EQ(notes, (std::vector<int>{1, -1, 2, -2, 3, -3}));
}

TEST(Continuation, ListsRunInOrder) {
  std::vector<int> notes;
  NotingContinuation a, b, c;
  a.notes = b.notes = c.notes = &notes;
  a.name = 1, b.name = 2, c.name = 3;
  a.next = &b;
  a.then = &c;
  run_continuations(&a);
  EXPECT_EQ(notes, (std::vector<int>{1, -1, 2, -2, 3, -3}));
  run_continuations(nullptr);
  EXPECT_EQ(notes.size(), 6u);
}

TEST(FutureState, CountsHoldersApartFromReferences) {
  auto* state = new StateOf<HookCargo>;
  state->retain(FutureState::kHolder);
  state->retain(FutureState::kHolder);
  state->retain(FutureState::kReference);
  EXPECT_EQ(state->holders(), 2u);
  state->set(HookCargo(3));
  state->release(FutureState::kReference);
  state->release(FutureState::kHolder);
  EXPECT_EQ(state->holders(), 1u);
  state->release(FutureState::kReference);
  EXPECT_EQ(HookCargo::alive, 1);
  state->release(FutureState::kHolder);
  EXPECT_EQ(HookCargo::alive, 0);
}

TEST(FutureState, TheFirstEndCounts) {
  auto* state = new StateOf<int>;
  EXPECT_TRUE(state->set(1));
  EXPECT_FALSE(state->set(2));
  EXPECT_FALSE(state->fail(std::make_exception_ptr(1)));
  EXPECT_FALSE(state->cancel("late"));
  EXPECT_EQ(state->value(), 1);
  state->release(FutureState::kReference);
}

TEST(FutureState, AContinuationThatComesTooLateRunsAlone) {
  std::vector<int> notes;
  NotingContinuation late, stranger;
  late.notes = stranger.notes = &notes;
  late.name = 1, stranger.name = 2;
  // As it is left by a try to get into the list just before it was closed.
  late.next = &stranger;
  auto* state = new StateOf<int>;
  state->set(1);
  state->add(late);
  EXPECT_EQ(notes, (std::vector<int>{1, -1}));
  state->release(FutureState::kReference);
}

TEST(FutureState, AHookThatThrowsIsLogged) {
  std::vector<std::string> lines;
  const auto scope =
      set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  for (int kind = 0; kind < 2; ++kind) {
    auto* state = new StateOf<int>;
    state->on_cancel(lone_hook([kind](const std::string&) {
      if (kind == 0)
        throw Error("broken");
      throw 1;
    }));
    EXPECT_TRUE(state->cancel(""));
    EXPECT_TRUE(state->ready());
    state->release(FutureState::kReference);
  }
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("broken"), std::string::npos);
}

// Whom this thread has not woken yet may be the one that it waits for.
TEST(FutureState, AWaitWakesFirstWhomItHasKeptForLater) {
  Promise<void> there, back;
  std::thread other([&back, there = there.future()] {
    there.get();
    back.set_value();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // asleep by now
  {
    const LateWakes late;
    there.set_value();
    EXPECT_TRUE(back.future().wait_for(std::chrono::seconds(10)));
  }
  other.join();
}

}  // namespace trireme::rpc
