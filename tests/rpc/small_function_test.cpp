#include "trireme/rpc/small_function.h"

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cargo.h"

namespace trireme::rpc {
namespace {

using SmallTask = SmallFunction<void()>;
using FunctionCargo = Cargo<struct SmallFunctionTest>;

struct LargeCargo {
  int operator()() const { return cargo.value; }
  FunctionCargo cargo;
  std::array<char, 100> ballast{};
};

}  // namespace

TEST(SmallFunction, CallsWhatItHoldsWithItsArguments) {
  int calls = 0;
  SmallFunction<int(int, const std::string&)> function = [&](int number,
                                                             const std::string& text) {
    ++calls;
    return number + static_cast<int>(text.size());
  };
  EXPECT_EQ(function(3, "four"), 7);
  EXPECT_EQ(function(0, ""), 0);
  EXPECT_EQ(calls, 2);
}

TEST(SmallFunction, TakesAndGivesWhatOnlyMoves) {
  SmallFunction<std::unique_ptr<int>(std::unique_ptr<int>)> function =
      [own = std::make_unique<int>(1)](std::unique_ptr<int> other) {
        *other += *own;
        return other;
      };
  EXPECT_EQ(*function(std::make_unique<int>(2)), 3);
}

TEST(SmallFunction, PassesReferencesOn) {
  SmallFunction<void(int&)> function = [](int& number) { ++number; };
  int number = 1;
  function(number);
  EXPECT_EQ(number, 2);
}

TEST(SmallFunction, ForgetsAResultThatNobodyAskedFor) {
  int calls = 0;
  SmallTask task = [&] { return ++calls; };
  task();
  EXPECT_EQ(calls, 1);
}

TEST(SmallFunction, KeepsSmallOnesInside) {
  struct Small {
    void operator()() {}
    std::array<char, 48> room;
  };
  struct Large {
    void operator()() {}
    std::array<char, 49> room;
  };
  struct MovesWithTrouble {
    MovesWithTrouble() = default;
    MovesWithTrouble(MovesWithTrouble&&) noexcept(false) {}
    void operator()() {}
  };
  static_assert(SmallTask::kFits<Small>);
  static_assert(!SmallTask::kFits<Large>);
  static_assert(!SmallTask::kFits<MovesWithTrouble>);
  EXPECT_LE(sizeof(SmallTask), 64u);
}

TEST(SmallFunction, DestroysWhatItHoldsOnce) {
  {
    SmallTask inside = [cargo = FunctionCargo(1)] {};
    SmallFunction<int()> outside = LargeCargo{FunctionCargo(2)};
    EXPECT_EQ(FunctionCargo::alive, 2);
    SmallTask moved = std::move(inside);
    SmallFunction<int()> moved_outside = std::move(outside);
    EXPECT_FALSE(inside);
    EXPECT_FALSE(outside);
    EXPECT_EQ(FunctionCargo::alive, 2);
    EXPECT_EQ(moved_outside(), 2);
    moved = [cargo = FunctionCargo(3)] {};
    EXPECT_EQ(FunctionCargo::alive, 2);
    moved = nullptr;
    EXPECT_EQ(FunctionCargo::alive, 1);
    auto& same = moved_outside;
    moved_outside = std::move(same);
    EXPECT_EQ(moved_outside(), 2);
  }
  EXPECT_EQ(FunctionCargo::alive, 0);
  EXPECT_EQ(FunctionCargo::copies, 0);
}

TEST(SmallFunction, IsEmptyWhileItsCargoGoes) {
  struct Looks {
    explicit Looks(SmallTask* task) : owner(task) {}
    Looks(Looks&& other) noexcept : owner(std::exchange(other.owner, nullptr)) {}
    ~Looks() { EXPECT_FALSE(owner && *owner); }
    void operator()() {}
    SmallTask* owner;
  };
  SmallTask task;
  task = Looks(&task);
  ASSERT_TRUE(task);
  task.reset();
  EXPECT_FALSE(task);
}

TEST(SmallFunction, PassesErrorsOn) {
  SmallTask task = [] { throw std::runtime_error("mine"); };
  EXPECT_THROW(task(), std::runtime_error);
  EXPECT_TRUE(task);
}

TEST(SmallFunction, AnEmptyOneIsNotCalled) {
  SmallTask task;
  EXPECT_THROW(task(), InternalError);
}

}  // namespace trireme::rpc
