#include "trireme/dist_autograd/context.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

rpc::FunctionTable context_functions() {
  rpc::FunctionTable table = basic_functions();
  table.add("id", [] { return this_context().id(); });
  return table;
}

TEST(ContextRanks, AThreadHasOneAtATime) {
  lead_world(2, context_functions(), [](Agent& agent) {
    const Context context(agent);
    const std::string complaint =
        message_of<InvalidArgument>([&] { const Context another(agent); });
    EXPECT_TRUE(contains(complaint, to_string(context.id()))) << complaint;
    EXPECT_EQ(agent.to("worker1").call<ContextId>("id"), context.id());
  });
}

TEST(ContextRanks, AnotherThreadMayWorkInIt) {
  lead_world(2, context_functions(), [](Agent& agent) {
    const at::Tensor a = leaf({3});
    const Context context(agent);
    at::Tensor y;
    std::thread([&] {
      EXPECT_EQ(current_context(), nullptr);
      const ContextScope scope(context.state());
      y = agent.to("worker1").call<at::Tensor>("mul", a, a);
    }).join();
    context.backward({y.sum()});
    EXPECT_TRUE(at::allclose(context.gradient(a), 2 * a));
  });
}

TEST(ContextRanks, AreNamedWhereTheyAreUnknown) {
  lead_world(2, context_functions(), [](Agent& agent) {
    EXPECT_TRUE(contains(
        message_of<Error>([&] {
          context_of(agent, {1, 7});
        }),
        "never heard of"));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          context_of(agent, {9, 7});
        }),
        "worker 9"));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([] { this_context(); }), "make a Context"));
  });
}

TEST(ContextRanks, TellsItsGradients) {
  lead_world(1, {}, [](Agent& agent) {
    const at::Tensor a = leaf({3}), b = leaf({2}), c = leaf({2});
    const Context context(agent);
    EXPECT_TRUE(context.gradients().empty());
    context.backward({(a * 2).sum() + b.sum()});
    EXPECT_EQ(context.gradients().size(), 2U);
    for (const auto& [parameter, gradient] : context.gradients())
      EXPECT_TRUE(at::equal(gradient, context.gradient(parameter)));
    EXPECT_FALSE(context.gradient(c).defined());
    EXPECT_FALSE(a.grad().defined());
    EXPECT_TRUE(
        at::equal(context_of(agent, context.id()).gradient(a), at::full({3}, 2.0F)));
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
