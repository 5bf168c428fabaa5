#include "trireme/autograd/engine_pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lambda_node.h"
#include "random_graph.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

at::Tensor ones_leaf() {
  return at::ones({3}).set_requires_grad(true);
}

TEST(EnginePass, LeavesHooksOfLeavesToTheEngine) {
  const at::Tensor x = ones_leaf(), w = ones_leaf();
  int calls = 0;
  w.register_hook([&calls](const at::Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  // The node of x * w * w, as a checkpoint would be.
  const auto block = [&] {
    at::Tensor y = (x * w * w).detach();
    torch::autograd::create_gradient_edge(
        y,
        make_node<LambdaNode>(
            edge_list{gradient_edge(x), gradient_edge(w)},
            [&](variable_list gradients) {
              c10::AutoGradMode grad_mode(true);
              const at::Tensor stand_in = x.detach().requires_grad_();
              const edge_list leaves{gradient_edge(w)};
              return run_inside_engine(
                  {{gradient_edge(stand_in * w * w)}, std::move(gradients)},
                  nodes_of({stand_in}),
                  leaves);
            }));
    return y;
  };
  torch::autograd::backward({block().sum()});
  EXPECT_TRUE(testing::same(x.grad(), at::ones({3})));
  EXPECT_TRUE(testing::same(w.grad(), at::full({3}, 4.0)));
  EXPECT_EQ(calls, 1);
  // Where the engine is to compute some gradients only.
  const variable_list got = torch::autograd::grad({block().sum()}, {x});
  EXPECT_TRUE(testing::same(got[0], at::ones({3})));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace trireme::autograd
