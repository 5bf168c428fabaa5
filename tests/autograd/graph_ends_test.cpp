#include "trireme/autograd/graph_ends.h"

#include <algorithm>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

at::Tensor plain_leaf() {
  return at::ones({3}).set_requires_grad(true);
}

TEST(GraphEnds, ThatAreNoLeavesGoOnElsewhere) {
  struct End final : Node {
    variable_list apply(variable_list&&) override { return {}; }
  };
  const at::Tensor a = plain_leaf();
  EXPECT_FALSE(goes_on_elsewhere(*gradient_edge(a).function));
  EXPECT_FALSE(goes_on_elsewhere(*gradient_edge(a * 2).function));
  EXPECT_TRUE(goes_on_elsewhere(*make_node<End>()));
}

TEST(GraphEnds, AreTheLeavesEachOnce) {
  const at::Tensor a = plain_leaf(), b = plain_leaf(), c = plain_leaf(),
                   plain = at::ones({3});
  const GraphMark start;
  const at::Tensor y = (a * b + a).sin();
  edge_list ends = graph_ends({y, at::Tensor(), plain, y * c, c}, start);
  ASSERT_EQ(ends.size(), 3U);
  for (const at::Tensor& tensor : {a, b, c})
    EXPECT_NE(std::find(ends.begin(), ends.end(), gradient_edge(tensor)), ends.end());
  EXPECT_TRUE(graph_ends({plain}, start).empty());
}

TEST(GraphEnds, KnowNodesFromBefore) {
  const at::Tensor early = plain_leaf().sin();
  const GraphMark start;
  const at::Tensor late = plain_leaf().sin();
  EXPECT_FALSE(start.is_before(*early.grad_fn()));
  EXPECT_TRUE(start.is_before(*late.grad_fn()));
  EXPECT_EQ(graph_ends({late}, start).size(), 1U);
  const edge_list both = graph_ends({late * early, early}, start);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_NE(std::find(both.begin(), both.end(), gradient_edge(early)), both.end());
  at::Tensor others;
  std::thread([&] {
    for (int i = 0; i < 100; ++i)
      others = plain_leaf().sin();
  }).join();
  EXPECT_EQ(graph_ends({others}, start), edge_list{gradient_edge(others)});
}

TEST(GraphEnds, ShowTheNodesBetween) {
  const at::Tensor early = plain_leaf().sin();
  const GraphMark start;
  const at::Tensor y = (early.cos() + plain_leaf()).neg();
  std::vector<std::string> names;
  for_each_node({y, y}, start, [&](Node& node) { names.push_back(node.name()); });
  std::sort(names.begin(), names.end());
  EXPECT_EQ(
      names,
      (std::vector<std::string>{"AddBackward0", "CosBackward0", "NegBackward0"}));
}

TEST(GraphEnds, NeedNoDeepStack) {
  const GraphMark start;
  at::Tensor y = plain_leaf();
  for (int i = 0; i < 50000; ++i)
    y = y.neg();
  EXPECT_EQ(graph_ends({y}, start).size(), 1U);
}

}  // namespace
}  // namespace trireme::autograd
