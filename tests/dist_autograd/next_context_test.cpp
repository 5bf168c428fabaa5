#include "trireme/dist_autograd/next_context.h"

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

// A call that was made ahead belongs to the context that the thread begins next.
TEST(NextContextRanks, IsTheOneThatTheThreadBegins) {
  lead_world(2, basic_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({3});
    auto next = next_context(contexts_of(agent));
    EXPECT_EQ(next_context(contexts_of(agent)), next);
    rpc::Future<at::Tensor> y;
    {
      const ContextScope scope(next->state());
      y = agent.to("worker1").async<at::Tensor>("mul", x, x);
    }
    std::thread([&] {  // another thread's is another one
      const Context context(agent);
      EXPECT_NE(context.id(), next->state()->id());
    })
        .join();
    const ContextId id = next->state()->id();
    const Context context(agent);
    EXPECT_EQ(context.id(), id);
    next.reset();
    context.backward({y.get().sum()});
    EXPECT_TRUE(at::allclose(context.gradient(x), 2 * x));
  });
}

TEST(NextContextRanks, EachIsBegunOnce) {
  lead_world(1, {}, [](Agent& agent) {
    const auto next = next_context(contexts_of(agent));
    {
      const Context context(agent);
      EXPECT_EQ(context.id(), next->state()->id());
    }
    const Context context(agent);
    EXPECT_NE(context.id(), next->state()->id());
    EXPECT_NE(next_context(contexts_of(agent)), next);
  });
}

// Nobody has begun it: it ends all the same, on all workers.
TEST(NextContextRanks, EndsWithItsLastHandle) {
  rpc::FunctionTable table = basic_functions();
  run_world(2, table, [](Agent& agent) {
    const auto contexts = contexts_of(agent);
    if (agent.me().id == 0) {
      auto next = next_context(contexts);
      const ContextId id = next->state()->id();
      {
        const ContextScope scope(next->state());
        agent.to("worker1").call<at::Tensor>("mul", at::ones({1}), at::ones({1}));
      }
      next.reset();
      EXPECT_EQ(contexts->size(), 0U);
      const Context context(agent);
      EXPECT_NE(context.id(), id);
    }
    EXPECT_TRUE(soon([&] { return contexts->size() == 0; }));
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
