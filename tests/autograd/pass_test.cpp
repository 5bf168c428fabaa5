#include "trireme/autograd/pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

std::string complaint(Roots roots) {
  return testing::message_of<InvalidArgument>(
      [&] { check_roots(roots.edges, roots.gradients); });
}

TEST(CheckRoots, TakesWhatFits) {
  const at::Tensor y = at::ones({2, 3}).set_requires_grad(true) * 2;
  const Edge edge = torch::autograd::impl::gradient_edge(y);
  check_roots({}, {});
  check_roots({edge, edge}, {at::ones({2, 3}), at::Tensor()});
}

TEST(CheckRoots, RefusesWhatDoesNot) {
  const at::Tensor y = at::ones({2, 3}).set_requires_grad(true) * 2;
  const Edge edge = torch::autograd::impl::gradient_edge(y);
  EXPECT_EQ(
      complaint({{edge, edge}, {at::ones({2, 3})}}),
      "[autograd] expected a gradient for each of 2 roots, got 1; give undefined ones "
      "where there are none");
  EXPECT_EQ(
      complaint({{edge, Edge()}, {{}, {}}}),
      "[autograd] expected roots that need a gradient, got number 1, which has no "
      "place "
      "in the graph; leave it out");
  EXPECT_TRUE(testing::contains(
      complaint({{Edge(edge.function, 1)}, {{}}}), "no place in the graph"));
  EXPECT_EQ(
      complaint({{edge}, {at::ones({4, 2, 3})}}),
      "[autograd] expected a gradient of shape [2, 3] for root 0, got [4, 2, 3]; give "
      "it "
      "that of its output");
}

}  // namespace
}  // namespace trireme::autograd
