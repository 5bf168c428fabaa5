#include "trireme/autograd/graph_ends.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

at::Tensor leaf() {
  return at::ones({3}).set_requires_grad(true);
}

TEST(GraphEnds, AreTheLeavesEachOnce) {
  const at::Tensor a = leaf(), b = leaf(), c = leaf(), plain = at::ones({3});
  const GraphMark start;
  const at::Tensor y = (a * b + a).sin();
  edge_list ends = graph_ends({y, at::Tensor(), plain, y * c, c}, start);
  ASSERT_EQ(ends.size(), 3U);
  for (const at::Tensor& tensor : {a, b, c})
    EXPECT_NE(std::find(ends.begin(), ends.end(), gradient_edge(tensor)), ends.end());
  EXPECT_TRUE(graph_ends({plain}, start).empty());
}

TEST(GraphEnds, KnowNodesFromBefore) {
  const at::Tensor early = leaf().sin();
  const GraphMark start;
  const at::Tensor late = leaf().sin();
  EXPECT_FALSE(start.is_before(*early.grad_fn()));
  EXPECT_TRUE(start.is_before(*late.grad_fn()));
  EXPECT_EQ(graph_ends({late}, start).size(), 1U);
  EXPECT_THROW(graph_ends({late * early}, start), InvalidArgument);
  at::Tensor others;
  std::thread([&] {
    for (int i = 0; i < 100; ++i)
      others = leaf().sin();
  }).join();
  EXPECT_THROW(graph_ends({others}, start), InvalidArgument);
}

TEST(GraphEnds, NeedNoDeepStack) {
  const GraphMark start;
  at::Tensor y = leaf();
  for (int i = 0; i < 50000; ++i)
    y = y.neg();
  EXPECT_EQ(graph_ends({y}, start).size(), 1U);
}

}  // namespace
}  // namespace trireme::autograd
