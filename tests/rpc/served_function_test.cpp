#include "trireme/rpc/served_function.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/call_context.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;

struct Answered {
  int times = 0;
  std::exception_ptr error;
  Answer answer() {
    return Answer([this](Returned, std::exception_ptr given) {
      ++times;
      error = std::move(given);
    });
  }
};

// Keeps tasks until they are run by hand, as long as it has room.
struct Queue final : Executor {
  bool try_run(Task&& task) override {
    if (tasks.size() == room)
      return false;
    tasks.push_back(std::move(task));
    return true;
  }
  std::size_t room = 1;
  std::vector<Task> tasks;
};

TEST(ServedFunction, IsAnsweredOnce) {
  Answered answered;
  answered.answer().give({});
  EXPECT_EQ(answered.times, 1);
  EXPECT_EQ(answered.error, nullptr);
  answered.answer().fail(std::make_exception_ptr(Error("[test] no")));
  EXPECT_EQ(answered.times, 2);
  EXPECT_NE(answered.error, nullptr);
}

TEST(ServedFunction, OneThatForgetsToAnswerHasFailed) {
  Answered answered;
  { const Answer forgotten = answered.answer(); }
  EXPECT_EQ(answered.times, 1);
  EXPECT_TRUE(contains(
      testing::message_of<Error>([&] { std::rethrow_exception(answered.error); }),
      "expected a function to end with a value or an error, got neither"));
}

TEST(ServedFunction, AnAnswerThatMovesIsStillOne) {
  Answered answered;
  {
    Answer first = answered.answer();
    Answer second = std::move(first);
    second.give({});
  }
  EXPECT_EQ(answered.times, 1);
  EXPECT_EQ(answered.error, nullptr);
}

// What is kept may change while it is on its way.
TEST(Returned, TensorsOfWhatStaysAreCopied) {
  const at::Tensor kept = at::ones({2, 3, 4, 4})
                              .contiguous(at::MemoryFormat::ChannelsLast)
                              .requires_grad_();
  const at::Tensor sparse = at::eye(3).to_sparse();
  Returned returned;
  returned.values.tensors = {kept, at::Tensor(), sparse};
  copy_live_tensors(returned);
  EXPECT_TRUE(returned.values.tensors[0].is_same(kept)) << "it does not stay";
  returned.kept = {
      .value = std::make_shared<at::Tensor>(kept), .type = &value_type<at::Tensor>()};
  copy_live_tensors(returned);
  {
    const c10::NoGradGuard no_grad;
    kept.zero_();
    sparse._values().zero_();
  }
  const std::vector<at::Tensor>& sent = returned.values.tensors;
  EXPECT_TRUE(at::equal(sent[0].detach(), at::ones({2, 3, 4, 4})));
  EXPECT_EQ(sent[0].strides(), kept.strides());
  EXPECT_TRUE(sent[0].requires_grad());
  EXPECT_FALSE(sent[1].defined());
  EXPECT_TRUE(at::equal(sent[2].to_dense(), at::eye(3)));
}

TEST(ResumeCall, RunsOnThePoolOfTheCall) {
  Queue queue;
  const auto home = std::make_shared<int>(1);
  const auto call = std::make_shared<CallContext>(
      CallContext{.function = "wait", .home = home, .resumer = &queue});
  std::vector<std::string> seen;
  const auto see = [&seen] { seen.push_back(this_call()->function); };
  {
    const CallScope scope(call);
    resume_call(see);
    EXPECT_TRUE(seen.empty());
    resume_call(see);  // no room: at once
    EXPECT_EQ(seen.size(), 1u);
  }
  ASSERT_EQ(queue.tasks.size(), 1u);
  EXPECT_EQ(this_call(), nullptr);
  queue.tasks[0]();  // outside of any call, as on a thread of a pool
  EXPECT_EQ(seen, (std::vector<std::string>{"wait", "wait"}));
}

TEST(ResumeCall, RunsHereWhereThePoolIsGone) {
  int runs = 0;
  resume_call([&runs] { ++runs; });
  EXPECT_EQ(runs, 1);
  Queue queue;
  auto home = std::make_shared<int>(1);
  const CallScope scope(
      std::make_shared<CallContext>(CallContext{.home = home, .resumer = &queue}));
  home.reset();
  resume_call([&runs] { ++runs; });
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(queue.tasks.empty());
}

}  // namespace
}  // namespace trireme::rpc
