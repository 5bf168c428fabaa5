#include "trireme/rpc/word_wait.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;
using Word = std::atomic<std::uint32_t>;

}  // namespace

TEST(WordWait, ReturnsAtOnceWhenTheWordIsAnother) {
  const Word word{1};
  EXPECT_TRUE(wait_while(word, 0, Deadline::after(milliseconds(-1))));
  wait_while(word, 0);
}

TEST(WordWait, KeepsTheDeadline) {
  const Word word{0};
  const auto start = Deadline::Clock::now();
  EXPECT_FALSE(wait_while(word, 0, Deadline::after(milliseconds(50))));
  const auto took = Deadline::Clock::now() - start;
  EXPECT_GE(took, milliseconds(50));
  EXPECT_LT(took, milliseconds(5000));
}

TEST(WordWait, SleepsOnWhenItIsWokenForNothing) {
  Word word{0};
  std::atomic<bool> over{false};
  std::thread pest([&] {
    while (!over)
      wake_all(word);
  });
  EXPECT_FALSE(wait_while(word, 0, Deadline::after(milliseconds(30))));
  over = true;
  pest.join();
}

TEST(WordWait, WakesOneAndAll) {
  Word word{0};
  std::atomic<int> awake{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 8; ++i)
    sleepers.emplace_back([&] {
      wait_while(word, 0);
      ++awake;
    });
  EXPECT_EQ(awake, 0);
  word = 1;
  wake_one(word);
  wake_all(word);
  for (auto& sleeper : sleepers)
    sleeper.join();
  EXPECT_EQ(awake, 8);
}

TEST(WordWait, NoWakeupIsLost) {
  constexpr std::uint32_t kRounds = 5000;
  Word ball{0};
  const auto play = [&](std::uint32_t mine) {
    for (std::uint32_t i = mine; i < kRounds; i += 2) {
      for (std::uint32_t seen = ball; seen != i; seen = ball)
        ASSERT_TRUE(wait_while(ball, seen, Deadline::after(std::chrono::seconds(30))));
      ball = i + 1;
      wake_one(ball);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(ball, kRounds);
}

TEST(WordWait, SpinsUntilItIsDoneOrTheTimeIsOver) {
  int looks = 0;
  EXPECT_TRUE(spin_until(milliseconds(1000), [&] { return ++looks == 100; }));
  EXPECT_EQ(looks, 100);
  EXPECT_FALSE(spin_until(milliseconds(1), [] { return false; }));
  looks = 0;
  EXPECT_FALSE(spin_until(milliseconds(0), [&] { return ++looks > 1; }));
  EXPECT_EQ(looks, 1);
}

TEST(WordWait, AMomentEndsByItselfOrByAWake) {
  Word word{0};
  wait_a_moment(word, 0, std::chrono::microseconds(50));
  wait_a_moment(word, 1, std::chrono::hours(1));  // it is another already
  wait_a_moment(word, 0, std::chrono::nanoseconds(-1));
  std::thread waker([&] {
    word = 1;
    wake_one(word);
  });
  while (word == 0)
    wait_a_moment(word, 0, std::chrono::hours(1));
  waker.join();
}

TEST(LateWakes, WakeWhenTheLastOfThemEnds) {
  Word word{0};
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    wait_while(word, 0);
    woken = true;
  });
  std::this_thread::sleep_for(milliseconds(20));  // asleep by now
  {
    const LateWakes outer;
    {
      const LateWakes inner;
      word = 1;
      wake_all_later(word);
    }
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(woken);
  }
  sleeper.join();
  EXPECT_TRUE(woken);
}

TEST(LateWakes, WakeAtOnceWhenToldTo) {
  Word word{0};
  std::thread sleeper([&] { wait_while(word, 0); });
  std::this_thread::sleep_for(milliseconds(20));
  const LateWakes late;
  word = 1;
  wake_all_later(word);
  wake_late();
  sleeper.join();
}

TEST(LateWakes, AreNeededByNobody) {
  Word word{0};
  std::thread sleeper([&] { wait_while(word, 0); });
  std::this_thread::sleep_for(milliseconds(20));
  word = 1;
  wake_all_later(word);
  sleeper.join();
}

TEST(LateWakes, HaveRoomForAny) {
  std::vector<Word> words(100);
  std::vector<std::thread> sleepers;
  for (Word& word : words)
    sleepers.emplace_back([&word] { wait_while(word, 0); });
  {
    const LateWakes late;
    for (Word& word : words) {
      word = 1;
      wake_all_later(word);
    }
  }
  for (auto& sleeper : sleepers)
    sleeper.join();
}

}  // namespace trireme::rpc
