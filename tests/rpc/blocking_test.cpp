#include "trireme/rpc/blocking.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/future.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

// Writes down what it is told.
class NotingHook : public BlockingHook {
 public:
  NotingHook(std::string& notes, char name) : notes_(notes), name_(name) {}
  void block() override { (notes_ += '+') += name_; }
  void unblock() noexcept override { (notes_ += '-') += name_; }

 private:
  std::string& notes_;
  char name_;
};

class RefusingHook : public BlockingHook {
 public:
  void block() override { throw Error("full"); }
};

}  // namespace

// Hooks belong to a thread, so each test has one of its own.
template <class Function>
void on_own_thread(Function function) {
  std::thread(function).join();
}

TEST(Blocking, TellsEachHookOnceAndInTurn) {
  on_own_thread([] {
    std::string notes;
    const auto a = std::make_shared<NotingHook>(notes, 'a');
    const auto b = std::make_shared<NotingHook>(notes, 'b');
    add_blocking_hook(a);
    add_blocking_hook(b);
    add_blocking_hook(a);
    {
      Blocking blocking;
      EXPECT_EQ(notes, "+a+b");
    }
    EXPECT_EQ(notes, "+a+b-b-a");
  });
}

// It may be what the thread waits for.
TEST(Blocking, RunsWhatTheThreadHasPutOff) {
  std::string notes;
  ready_future().then([&notes] {
    ready_future().then([&notes] { notes += "put off "; });
    notes += "before ";
    const Blocking blocking;
    notes += "waits";
  });
  EXPECT_EQ(notes, "before put off waits");
}

TEST(Blocking, ForgetsAHookThatIsGone) {
  on_own_thread([] {
    std::string notes;
    add_blocking_hook(std::make_shared<NotingHook>(notes, 'a'));
    const auto b = std::make_shared<NotingHook>(notes, 'b');
    add_blocking_hook(b);
    { Blocking blocking; }
    EXPECT_EQ(notes, "+b-b");
  });
}

TEST(Blocking, HoldsAHookUntilTheWaitIsOver) {
  on_own_thread([] {
    std::string notes;
    auto hook = std::make_shared<NotingHook>(notes, 'a');
    add_blocking_hook(hook);
    {
      Blocking blocking;
      hook.reset();
    }
    EXPECT_EQ(notes, "+a-a");
  });
}

TEST(Blocking, AHookThatThrowsEndsTheWaitBeforeItBegins) {
  on_own_thread([] {
    std::string notes;
    const auto a = std::make_shared<NotingHook>(notes, 'a');
    const auto full = std::make_shared<RefusingHook>();
    const auto b = std::make_shared<NotingHook>(notes, 'b');
    add_blocking_hook(a);
    add_blocking_hook(full);
    add_blocking_hook(b);
    EXPECT_EQ(trireme::testing::message_of<Error>([] { Blocking blocking; }), "full");
    EXPECT_EQ(notes, "+a-a");
  });
}

TEST(Blocking, IsRefusedWhereItsThreadMustNotWait) {
  on_own_thread([] {
    const auto refusal = [] {
      return trireme::testing::message_of<Error>([] { Blocking blocking; });
    };
    {
      const MustNotWait outer;
      { const MustNotWait inner; }
      EXPECT_NE(
          refusal().find("does not wait on a thread of the network"),
          std::string::npos);
      on_own_thread([] { Blocking blocking; });
    }
    Blocking blocking;
  });
}

TEST(Blocking, IsOfOneThread) {
  on_own_thread([] {
    std::string notes;
    const auto hook = std::make_shared<NotingHook>(notes, 'a');
    add_blocking_hook(hook);
    on_own_thread([] { Blocking blocking; });
    EXPECT_EQ(notes, "");
  });
}

}  // namespace trireme::rpc
