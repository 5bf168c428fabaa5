#include "trireme/dist_autograd/prepared_steps.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

using testing::contains;
using testing::message_of;

const StepId kStep{.driver = 2, .start = 5, .number = 7};

PreparedStep with_decider(rpc::WorkerId decider) {
  return {.optimizer = nullptr, .gradients = {}, .decider = decider};
}

TEST(PreparedSteps, AreTakenOnce) {
  PreparedSteps steps;
  steps.prepare(kStep, with_decider(-1));
  EXPECT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps.take(kStep).decider, -1);
  EXPECT_EQ(steps.size(), 0U);
  EXPECT_TRUE(contains(
      message_of<Error>([&] { steps.take(kStep); }), "got step 7 of worker 2"));
}

TEST(PreparedSteps, TheDeciderRemembersUntilAllKnow) {
  PreparedSteps steps;
  steps.prepare(kStep, with_decider(0));
  EXPECT_EQ(steps.decide(kStep, {.rates = {0.5}, .scale = 2}).decider, 0);
  for (int i = 0; i < 2; ++i) {
    const auto order = steps.verdict(kStep);
    ASSERT_TRUE(order.has_value());
    EXPECT_EQ(order->rates, std::vector<double>{0.5});
    EXPECT_EQ(order->scale, 2);
  }
  steps.settle(kStep);
  EXPECT_FALSE(steps.verdict(kStep).has_value());
}

// Who asks before it is decided has the answer no, and that holds.
TEST(PreparedSteps, WhoAsksTooEarlyDecidesAgainst) {
  PreparedSteps steps;
  steps.prepare(kStep, with_decider(0));
  EXPECT_FALSE(steps.verdict(kStep).has_value());
  EXPECT_EQ(steps.size(), 0U);
  EXPECT_THROW(steps.decide(kStep, {}), Error);
  EXPECT_FALSE(steps.verdict(kStep).has_value());
}

TEST(PreparedSteps, WhatComesAfterTheEndIsRefused) {
  PreparedSteps steps;
  steps.give_up(kStep);
  EXPECT_THROW(steps.prepare(kStep, with_decider(0)), Error);
  EXPECT_EQ(steps.size(), 0U);
  // Nobody is remembered for ever.
  for (std::uint64_t number = 100; number < 5000; ++number)
    steps.give_up({.driver = 2, .start = 5, .number = number});
  steps.prepare(kStep, with_decider(0));
}

TEST(PreparedSteps, AreListedByDriver) {
  PreparedSteps steps;
  steps.prepare(kStep, with_decider(1));
  steps.prepare({.driver = 3, .start = 5, .number = 7}, with_decider(0));
  const auto listed = steps.of_driver(2);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].first, kStep);
  EXPECT_EQ(listed[0].second, 1);
  EXPECT_TRUE(steps.of_driver(0).empty());
}

}  // namespace
}  // namespace trireme::dist_autograd
