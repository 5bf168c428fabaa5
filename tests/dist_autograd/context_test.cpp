#include "trireme/dist_autograd/context.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/testing/rpc_world.h"

namespace trireme::dist_autograd {
namespace {

rpc::FunctionTable functions() {
  rpc::FunctionTable table;
  table.add("add", [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
  table.add("mul", [](const at::Tensor& a, const at::Tensor& b) { return a * b; });
  return table;
}

void lead(int workers, const std::function<void(rpc::Agent&)>& body) {
  testing::run_rpc(
      testing::RpcKind::Threads,
      workers,
      {.functions = functions(),
       .edit = [](rpc::AgentOptions& options) { options = with_gradients(options); }},
      [&](rpc::Agent& agent) {
        if (agent.me().id == 0)
          body(agent);
      });
}

TEST(ContextRanks, GradientsCrossOneCall) {
  for (const Mode mode : {Mode::Exact, Mode::Fast})
    lead(2, [&](rpc::Agent& agent) {
      const at::Tensor a = at::rand({3, 3}).set_requires_grad(true);
      const at::Tensor b = at::rand({3, 3}).set_requires_grad(true);
      const Context context(agent);
      const at::Tensor y = agent.to("worker1").call<at::Tensor>("mul", a, b);
      EXPECT_TRUE(y.requires_grad());
      context.backward({y.sum()}, {.mode = mode});
      EXPECT_TRUE(at::equal(context.gradient(a), b));
      EXPECT_TRUE(at::equal(context.gradient(b), a));
      EXPECT_FALSE(a.grad().defined());
    });
}

}  // namespace
}  // namespace trireme::dist_autograd
