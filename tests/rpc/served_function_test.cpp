#include "trireme/rpc/served_function.h"

#include <gtest/gtest.h>

#include "trireme/rpc/function_body.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

// What an answer has come to.
struct AnswerEnd {
  int count = 0;
  Returned returned;
  std::exception_ptr error;
  Answer answer() {
    return Answer([this](Returned value, std::exception_ptr thrown) {
      ++count;
      returned = std::move(value);
      error = std::move(thrown);
    });
  }
};

Values values_of(auto... given) {
  ValueWriter writer;
  write_arguments<decltype(given)...>(writer, given...);
  return writer.take();
}

int int_in(const Values& values) {
  ValueReader reader(values, "a result");
  const int value = read_value<int>(reader);
  reader.expect_end();
  return value;
}

TEST(ServedFunction, AnAnswerThatIsDroppedIsAnError) {
  AnswerEnd end;
  { const Answer dropped = end.answer(); }
  EXPECT_EQ(end.count, 1);
  EXPECT_THROW(std::rethrow_exception(end.error), Error);
  AnswerEnd given;
  given.answer().give({});
  EXPECT_EQ(given.count, 1);
  EXPECT_EQ(given.error, nullptr);
}

TEST(ServedFunction, AFunctionAnswersInTheFormThatTheCallWants) {
  const auto add = FunctionBody<int(int, int)>::of([](int a, int b) { return a + b; });
  AnswerEnd sent, kept;
  add(values_of(2, 3), false, sent.answer());
  EXPECT_EQ(int_in(sent.returned.values), 5);
  add(values_of(2, 3), true, kept.answer());
  EXPECT_EQ(*value_as<int>(kept.returned.kept), 5);
}

TEST(ServedFunction, AFutureAnswersWhenItIsReady) {
  Promise<int> promise;
  const auto later = FunctionBody<Future<int>()>::of([&] { return promise.future(); });
  AnswerEnd end;
  later(Values(), false, end.answer());
  EXPECT_EQ(end.count, 0);
  promise.set_value(9);
  EXPECT_EQ(end.count, 1);
  EXPECT_EQ(int_in(end.returned.values), 9);
  const auto fails = FunctionBody<Future<int>()>::of(
      []() -> Future<int> { throw std::runtime_error("no"); });
  AnswerEnd failed;
  fails(Values(), false, failed.answer());
  EXPECT_THROW(std::rethrow_exception(failed.error), std::runtime_error);
}

TEST(ServedFunction, WrongArgumentsAreAnErrorAndNothingRuns) {
  int runs = 0;
  const auto count = FunctionBody<int(int)>::of([&](int) { return ++runs; });
  for (const Values& wrong : {Values(), values_of(1, 2)}) {
    AnswerEnd end;
    count(wrong, false, end.answer());
    EXPECT_THROW(std::rethrow_exception(end.error), InvalidArgument);
  }
  EXPECT_EQ(runs, 0);
}

TEST(ServedFunction, WhatDoesNotTravelIsKeptOrRefused) {
  struct Tool {};
  const auto make = FunctionBody<std::unique_ptr<Tool>(bool)>::of(
      [](bool good) { return good ? std::make_unique<Tool>() : nullptr; });
  AnswerEnd kept, sent, null;
  make(values_of(true), true, kept.answer());
  EXPECT_NE(value_as<Tool>(kept.returned.kept), nullptr);
  make(values_of(true), false, sent.answer());
  EXPECT_THROW(std::rethrow_exception(sent.error), InvalidArgument);
  make(values_of(false), true, null.answer());
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { std::rethrow_exception(null.error); }),
      "got a null pointer"));
}

}  // namespace
}  // namespace trireme::rpc
