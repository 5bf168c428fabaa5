// What calls in a context leave behind: sends that wait for gradients, and receives.
#include "trireme/dist_autograd/receive_node.h"

#include <fstream>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

using autograd::Node;

const Node& node_of(const at::Tensor& tensor) {
  return *torch::autograd::impl::gradient_edge(tensor).function;
}

const ReceiveNode* as_receive(const Node* node) {
  return dynamic_cast<const ReceiveNode*>(node);
}

/// One send of a worker in the context, as text: whose, and where its edges lead.
std::string picture_of(const ContextState& context) {
  std::multiset<std::string> lines;
  for (const auto& [send, edges] : context.sends()) {
    std::string line = text(
        send.answer ? "answer" : "call",
        " to ",
        send.answer ? send.call.caller : send.call.callee,
        ":");
    for (const autograd::Edge& edge : edges)
      line += " " + edge.function->name();
    lines.insert(line);
  }
  std::string all;
  for (const std::string& line : lines)
    all += line + "\n";
  return all;
}

constexpr const char* kLeaf = "torch::autograd::AccumulateGrad";

rpc::FunctionTable picture_functions() {
  rpc::FunctionTable table = basic_functions();
  table.add("picture", [] { return picture_of(*this_context().state()); });
  table.add(
      "on", [](const at::Tensor& a, const at::Tensor& b, const std::string& next) {
        return rpc::this_agent().to(next).call<at::Tensor>("add", a, b);
      });
  table.add(
      "make", [](std::int64_t n) { return at::ones({n}).set_requires_grad(true); });
  table.add("none", [](const at::Tensor& a) { return a.detach() + 1; });
  table.add("sum_all", [](const Tensors& all) {
    at::Tensor sum = all[0];
    for (std::size_t i = 1; i < all.size(); ++i)
      sum = sum + all[i];
    return sum;
  });
  return table;
}

Tensors two_leaves(bool sparse) {
  Tensors leaves;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor dense = at::rand({3, 3});
    leaves.push_back((sparse ? dense.to_sparse() : dense).set_requires_grad(true));
  }
  return leaves;
}

// One send with an edge to each leaf; the result's history is a receive. There: one
// send, whose add has both edges to the same receive.
TEST(GraphRanks, OfOneCall) {
  for (const bool sparse : {false, true})
    for (const Way way : {Way::Call, Way::Async, Way::Remote})
      lead_world(2, picture_functions(), [&](Agent& agent) {
        const Tensors leaves = two_leaves(sparse);
        const Context context(agent);
        const at::Tensor y = apply(agent, way, "worker1", "add", leaves[0], leaves[1]);
        const std::string mine = picture_of(*context.state());
        EXPECT_EQ(mine, text("call to 1: ", kLeaf, " ", kLeaf, "\n"));
        const ReceiveNode* receive = as_receive(&node_of(y));
        ASSERT_NE(receive, nullptr);
        EXPECT_EQ(receive->sender(), 1);
        EXPECT_EQ(receive->context(), context.state());
        EXPECT_EQ(
            agent.to("worker1").call<std::string>("picture"),
            "answer to 0: AddBackward0\n");
      });
}

TEST(GraphRanks, BothArgumentsAreOfOneReceive) {
  rpc::FunctionTable table = picture_functions();
  table.add("look", [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor y = a + b;
    const auto& edges = node_of(y).next_edges();
    EXPECT_EQ(edges[0].function, edges[1].function);
    EXPECT_NE(as_receive(edges[0].function.get()), nullptr);
    EXPECT_NE(edges[0].input_nr, edges[1].input_nr);
    return y;
  });
  lead_world(2, table, [](Agent& agent) {
    const Tensors leaves = two_leaves(false);
    const Context context(agent);
    agent.to("worker1").call<at::Tensor>("look", leaves[0], leaves[1]);
  });
}

// The worker in the middle sends twice; what it passes on leads straight to its
// receive.
TEST(GraphRanks, OfACallInsideOfACall) {
  for (const bool sparse : {false, true})
    for (const std::string last : {"worker2", "worker0", "worker1"})
      lead_world(3, picture_functions(), [&](Agent& agent) {
        const Tensors leaves = two_leaves(sparse);
        const Context context(agent);
        const at::Tensor y =
            agent.to("worker1").call<at::Tensor>("on", leaves[0], leaves[1], last);
        const std::string leaf_send = text("call to 1: ", kLeaf, " ", kLeaf, "\n");
        const std::string on =
            text("call to ", last.back(), ": trireme::Receive trireme::Receive\n");
        const std::string answer = "answer to 1: AddBackward0\n";
        const std::string back = "answer to 0: trireme::Receive\n";
        const std::string middle = agent.to("worker1").call<std::string>("picture");
        const std::string mine = picture_of(*context.state());
        EXPECT_EQ(mine, last == "worker0" ? answer + leaf_send : leaf_send);
        EXPECT_EQ(middle, last == "worker1" ? back + answer + on : back + on);
        context.backward({sparse ? at::_sparse_sum(y) : y.sum()});
        EXPECT_EQ(context.gradient(leaves[0]).to_dense().sum().item<float>(), 9.0F);
      });
}

TEST(GraphRanks, NoneWhereNothingNeedsAGradient) {
  for (const bool sparse : {false, true})
    for (const Way way : {Way::Call, Way::Remote})
      lead_world(2, picture_functions(), [&](Agent& agent) {
        at::Tensor a = at::rand({3}), b = at::rand({3});
        if (sparse)
          a = a.to_sparse(), b = b.to_sparse();
        const Context context(agent);
        const at::Tensor y = apply(agent, way, "worker1", "add", a, b);
        EXPECT_FALSE(y.requires_grad());
        EXPECT_EQ(picture_of(*context.state()), "");
        EXPECT_EQ(agent.to("worker1").call<std::string>("picture"), "");
      });
}

TEST(GraphRanks, OfAResultAlone) {
  for (const bool remote : {false, true})
    lead_world(2, picture_functions(), [&](Agent& agent) {
      const Context context(agent);
      const auto caller = agent.to("worker1");
      const at::Tensor y =
          remote ? caller.remote<at::Tensor>("make", std::int64_t{3}).to_here()
                 : caller.call<at::Tensor>("make", std::int64_t{3});
      EXPECT_NE(as_receive(&node_of(y)), nullptr);
      EXPECT_EQ(picture_of(*context.state()), "");
      EXPECT_EQ(
          caller.call<std::string>("picture"), text("answer to 0: ", kLeaf, "\n"));
    });
}

TEST(GraphRanks, OfAnArgumentAlone) {
  lead_world(2, picture_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({3});
    const Context context(agent);
    EXPECT_FALSE(agent.to("worker1").call<at::Tensor>("none", x).requires_grad());
    EXPECT_EQ(picture_of(*context.state()), text("call to 1: ", kLeaf, "\n"));
    EXPECT_EQ(agent.to("worker1").call<std::string>("picture"), "");
  });
}

// Only those of a list that need a gradient have edges.
TEST(GraphRanks, OfLists) {
  for (const bool sparse : {false, true})
    for (const bool remote : {false, true})
      lead_world(2, picture_functions(), [&](Agent& agent) {
        Tensors all;
        for (int i = 0; i < 10; ++i) {
          const at::Tensor one = at::rand({3, 3});
          all.push_back((sparse ? one.to_sparse() : one).set_requires_grad(i % 2 == 0));
        }
        const Context context(agent);
        const auto caller = agent.to("worker1");
        const at::Tensor y = remote
                                 ? caller.remote<at::Tensor>("sum_all", all).to_here()
                                 : caller.call<at::Tensor>("sum_all", all);
        const auto sends = context.state()->sends();
        ASSERT_EQ(sends.size(), 1U);
        ASSERT_EQ(sends[0].second.size(), 5U);
        for (std::size_t i = 0; i < 5; ++i)
          EXPECT_EQ(
              sends[0].second[i].function,
              torch::autograd::impl::gradient_edge(all[2 * i]).function);
      });
}

TEST(GraphRanks, KnowsTheWorkersThatItTouches) {
  lead_world(3, picture_functions(), [](Agent& agent) {
    const at::Tensor x = at::rand({2});
    const Context context(agent);
    EXPECT_TRUE(context.state()->peers().empty());
    agent.to("worker1").call<at::Tensor>("add", x, x);
    agent.to("worker2").remote<at::Tensor>("add", x, x).to_here();
    EXPECT_EQ(context.state()->peers(), (std::vector<rpc::WorkerId>{1, 2}));
  });
}

// What backward has gone over is let go of, on all workers, before the context ends.
TEST(GraphRanks, GoesWithItsPass) {
  lead_world(3, picture_functions(), [](Agent& agent) {
    const Tensors leaves = two_leaves(false);
    const Context context(agent);
    const at::Tensor y = agent.to("worker1").call<at::Tensor>(
        "on", leaves[0], leaves[1], std::string("worker2"));
    const at::Tensor unused = agent.to("worker2").call<at::Tensor>("mul", y, y);
    context.backward({y.sum()}, {.keep_graph = true});
    EXPECT_NE(agent.to("worker1").call<std::string>("picture"), "");
    context.backward({y.sum()});
    EXPECT_EQ(agent.to("worker1").call<std::string>("picture"), "");
    // The call that nobody used was not gone over.
    EXPECT_EQ(
        picture_of(*context.state()), "call to 2: trireme::Receive trireme::Receive\n");
    EXPECT_TRUE(at::allclose(context.gradient(leaves[0]), 2 * at::ones({3, 3})));
  });
}

/// Gives the gradient that it gets on as its own, and remembers its memory.
const void* memory_of_gradient = nullptr;
std::optional<at::Tensor> extra_reference;
struct Remember : torch::autograd::Function<Remember> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& gradients) {
    at::Tensor made = gradients[0] * 2;
    memory_of_gradient = made.data_ptr();
    if (extra_reference)
      extra_reference = made;
    return {made};
  }
};

// A gradient that nobody else holds becomes the leaf's without a copy; one that
// somebody holds is copied, lest the next sum change it.
TEST(GraphRanks, GradientsAreTakenOverOrCopied) {
  lead_world(1, picture_functions(), [](Agent& agent) {
    for (const bool held : {false, true}) {
      const at::Tensor x = leaf({4, 4});
      const Context context(agent);
      const at::Tensor y = Remember::apply(
          agent.to("worker0").call<at::Tensor>("add", x, at::ones({4, 4})));
      extra_reference.reset();
      const at::Tensor z = Remember::apply(x);
      if (held)
        extra_reference.emplace();
      context.backward({z.sum()});
      EXPECT_EQ(context.gradient(x).data_ptr() == memory_of_gradient, !held);
      context.backward({y.sum()});
      EXPECT_TRUE(at::allclose(context.gradient(x), at::full({4, 4}, 4.0)));
      extra_reference.reset();
    }
  });
}

std::int64_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4;
}

TEST(GraphRanks, AThousandPassesTakeNoMoreMemory) {
  lead_world(2, picture_functions(), [](Agent& agent) {
    const at::Tensor x = leaf({64, 64}), w = leaf({64, 64});
    std::int64_t before = 0;
    for (int i = 0; i < 1200; ++i) {
      const Context context(agent);
      at::Tensor y = agent.to("worker1").call<at::Tensor>("matmul", x, w);
      y = agent.to("worker1").remote<at::Tensor>("mul", y, w).to_here();
      context.backward({y.sum()}, {.static_graph = i % 2 == 0});
      if (i == 200)
        before = resident_kib();
    }
    EXPECT_LT(resident_kib() - before, 4096);
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
