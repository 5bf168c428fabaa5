#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include "lambda_node.h"
#include "logging_hooks.h"
#include "random_graph.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

bool any_defined(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.defined();
  });
}

TEST(ExecutorSplitGraphs, GiveTheGradientsOfAFusedPass) {
  Executor executor;
  size_t with_border = 0;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    const RandomGraph graph(graph_options(seed)), twin(graph_options(seed));
    const variable_list wanted = executor.backward(
        {twin.roots, twin.gradients}, {.inputs = nodes_of(twin.inputs)});
    WeightRest weights;
    const variable_list got = executor.input_pass(
        {graph.roots, graph.gradients}, {.inputs = nodes_of(graph.inputs)}, weights);
    ASSERT_TRUE(same_gradients(got, wanted)) << "graph " << seed;
    ASSERT_FALSE(any_defined(graph.grads())) << "graph " << seed;
    with_border += !weights.empty();
    executor.weight_pass(std::move(weights), {});
    ASSERT_TRUE(same_gradients(graph.grads(), twin.grads())) << "graph " << seed;
  }
  EXPECT_GT(with_border, kGraphs / 2);
}

TEST(ExecutorSplitGraphs, CallEachHookOnce) {
  Executor executor;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    std::vector<std::string> log, twin_log;
    GraphOptions options = graph_options(seed);
    options.log = &log;
    const RandomGraph graph(options);
    options.log = &twin_log;
    const RandomGraph twin(options);
    executor.backward({twin.roots, twin.gradients}, {.inputs = nodes_of(twin.inputs)});
    WeightRest weights;
    executor.input_pass(
        {graph.roots, graph.gradients}, {.inputs = nodes_of(graph.inputs)}, weights);
    executor.weight_pass(std::move(weights), {});
    ASSERT_TRUE(same_gradients(graph.grads(), twin.grads())) << "graph " << seed;
    std::sort(log.begin(), log.end());
    std::sort(twin_log.begin(), twin_log.end());
    ASSERT_EQ(log, twin_log) << "graph " << seed;
  }
}

TEST(ExecutorSplitGraphs, AreKeptForAnotherPass) {
  Executor executor;
  for (uint32_t seed = 0; seed < kGraphs; seed += 5) {
    const RandomGraph graph(graph_options(seed)), twin(graph_options(seed));
    const std::vector<NodePtr> inputs = nodes_of(graph.inputs);
    for (int i = 0; i < 2; ++i) {
      executor.backward(
          {twin.roots, twin.gradients},
          {.inputs = nodes_of(twin.inputs), .keep_graph = true});
      WeightRest weights;
      executor.input_pass(
          {graph.roots, graph.gradients},
          {.inputs = inputs, .keep_graph = true},
          weights);
      executor.weight_pass(std::move(weights), {.keep_graph = true});
    }
    executor.backward({twin.roots, twin.gradients}, {});
    executor.backward({graph.roots, graph.gradients}, {});
    ASSERT_TRUE(same_gradients(graph.grads(), twin.grads())) << "graph " << seed;
  }
}

/// Leaves of one microbatch after another, and the two ways of running backward.
struct Split {
  Executor executor;
  at::Tensor x = leaf({3, 5});
  at::Tensor w = leaf({5, 5});
  NodePtr input = gradient_edge(x).function;
  WeightRest weights;

  static Roots from(const variable_list& outputs) {
    Roots roots;
    for (const at::Tensor& output : outputs) {
      roots.edges.push_back(gradient_edge(output));
      roots.gradients.push_back(at::ones_like(output.detach()));
    }
    return roots;
  }
  at::Tensor fused(const variable_list& outputs) {
    return executor.backward(from(outputs), {.inputs = {&input, 1}}).at(0);
  }
  at::Tensor first_half(const variable_list& outputs) {
    return executor.input_pass(from(outputs), {.inputs = {&input, 1}}, weights).at(0);
  }
  void second_half() { executor.weight_pass(std::move(weights), {}); }
  static at::Tensor take_grad(const at::Tensor& tensor) {
    return std::exchange(tensor.mutable_grad(), at::Tensor());
  }

  /// Whether both ways give the same for what `make` makes.
  void compare(
      const std::function<variable_list()>& make, const variable_list& leaves) {
    const at::Tensor dx = fused(make());
    variable_list wanted, got;
    for (const at::Tensor& tensor : leaves)
      wanted.push_back(take_grad(tensor));
    EXPECT_TRUE(same_gradients({first_half(make())}, {dx}));
    for (const at::Tensor& tensor : leaves)
      EXPECT_FALSE(tensor.grad().defined());
    second_half();
    for (const at::Tensor& tensor : leaves)
      got.push_back(take_grad(tensor));
    EXPECT_TRUE(same_gradients(got, wanted));
    EXPECT_TRUE(any_defined(got));
  }
};

TEST(ExecutorSplit, CountsASharedWeightOnce) {
  Split split;
  const at::Tensor &x = split.x, &w = split.w;
  split.compare(
      [&] { return variable_list{x.matmul(w).tanh().matmul(w).matmul(w).pow(2)}; },
      {w});
}

TEST(ExecutorSplit, KeepsTheOrderOfSumsOfASharedWeight) {
  // One of the nodes has a post-hook, one is made in place on a view: both run as a
  // whole.
  Split split;
  const at::Tensor &x = split.x, &w = split.w;
  std::vector<NodePtr> held;
  const auto make = [&] {
    at::Tensor y = x.matmul(w).sin();
    y = y.matmul(w);
    std::vector<std::string> unused;
    struct Same : torch::autograd::FunctionPostHook {
      variable_list operator()(
          const variable_list& outputs, const variable_list&) override {
        return outputs;
      }
    };
    y.grad_fn()->add_post_hook(std::make_unique<Same>());
    y = y.sin() * 1;
    y.narrow(0, 1, 2).mul_(w.narrow(0, 0, 2));
    return variable_list{y.matmul(w).sin().matmul(w), w * 3};
  };
  split.compare(make, {w});
}

struct TwoOfBoth : torch::autograd::Function<TwoOfBoth> {
  using Context = torch::autograd::AutogradContext;
  static variable_list forward(Context* context, at::Tensor x, at::Tensor w) {
    context->set_materialize_grads(false);
    context->save_for_backward({x, w});
    return {x.matmul(w), x.matmul(w.t()).sin()};
  }
  static variable_list backward(Context* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1];
    at::Tensor dx, dw;
    const auto add = [](at::Tensor& sum, const at::Tensor& gradient) {
      sum = sum.defined() ? sum + gradient : gradient;
    };
    for (const size_t i : {0, 1}) {
      if (!gradients[i].defined())
        continue;
      const at::Tensor g = i == 0 ? gradients[0] : gradients[1] * x.matmul(w.t()).cos();
      if (context->needs_input_grad(0))
        add(dx, g.matmul(i == 0 ? w.t() : w));
      if (context->needs_input_grad(1))
        add(dw, i == 0 ? x.t().matmul(g) : g.t().matmul(x));
    }
    calls.push_back({context->needs_input_grad(0), context->needs_input_grad(1)});
    return {dx, dw};
  }
  /// For which of its inputs each call was to compute gradients.
  static inline std::vector<std::pair<bool, bool>> calls;
};

TEST(ExecutorSplit, TakesNodesWithSeveralOutputs) {
  Split split;
  const at::Tensor &x = split.x, &w = split.w;
  split.compare([&] { return TwoOfBoth::apply(x.sin(), w); }, {w});
  // Some of the gradients that the first half meets are undefined.
  split.compare([&] { return variable_list{TwoOfBoth::apply(x.sin(), w)[0]}; }, {w});
  split.compare([&] { return variable_list{TwoOfBoth::apply(x.sin(), w)[1]}; }, {w});
  const at::Tensor scale = leaf({5}), bias = leaf({5});
  split.compare(
      [&] {
        const auto [y, mean, rstd] =
            at::native_layer_norm(x.matmul(w), {5}, scale, bias, 1e-5);
        const auto parts = y.chunk(2, 1);
        return variable_list{parts[1].matmul(w.narrow(0, 0, 2)), parts[0] + mean};
      },
      {w, scale, bias});
}

TEST(ExecutorSplit, ComputesEachHalfOnce) {
  Split split;
  const auto make = [&] { return TwoOfBoth::apply(split.x.sin(), split.w); };
  TwoOfBoth::calls.clear();
  split.first_half(make());
  EXPECT_EQ(TwoOfBoth::calls, (std::vector<std::pair<bool, bool>>{{true, false}}));
  TwoOfBoth::calls.clear();
  split.second_half();
  EXPECT_EQ(TwoOfBoth::calls, (std::vector<std::pair<bool, bool>>{{false, true}}));
}

TEST(ExecutorSplit, LeavesRootsWithoutInputsToTheSecondHalf) {
  Split split;
  const at::Tensor &x = split.x, &w = split.w;
  const at::Tensor other = leaf({5});
  split.compare(
      [&] {
        const at::Tensor penalty = (w * w).sum() + other.exp().sum();
        return variable_list{penalty, x.matmul(w) * other, w, penalty * 2};
      },
      {w, other});
}

TEST(ExecutorSplit, DoesEverythingInTheSecondHalfWithoutInputs) {
  Split split;
  const at::Tensor data = at::randn({3, 5});
  const auto make = [&] { return Split::from({data.matmul(split.w).tanh()}); };
  split.executor.backward(make(), {});
  const at::Tensor wanted = Split::take_grad(split.w);
  EXPECT_TRUE(split.executor.input_pass(make(), {}, split.weights).empty());
  EXPECT_FALSE(split.w.grad().defined());
  EXPECT_FALSE(split.weights.empty());
  split.second_half();
  EXPECT_TRUE(testing::same(split.w.grad(), wanted));
}

TEST(ExecutorSplit, HasNothingLeftWithoutWeights) {
  Split split;
  EXPECT_TRUE(split.first_half({split.x.sin()}).defined());
  EXPECT_TRUE(split.weights.empty());
  split.second_half();
}

TEST(ExecutorSplit, InterleavesMicrobatches) {
  Split split;
  const at::Tensor& w = split.w;
  variable_list batches;
  for (int i = 0; i < 10; ++i)
    batches.push_back(leaf({3, 5}));
  const auto make = [&](const at::Tensor& x) {
    return Split::from({x.matmul(w).tanh().matmul(w)});
  };
  for (const at::Tensor& x : batches)
    split.executor.backward(make(x), {});
  const at::Tensor wanted = Split::take_grad(w);
  std::vector<WeightRest> waiting(batches.size());
  for (size_t i = 0; i < batches.size() + 3; ++i) {
    if (i < batches.size()) {
      const std::vector<NodePtr> inputs = nodes_of({batches[i]});
      const variable_list got =
          split.executor.input_pass(make(batches[i]), {.inputs = inputs}, waiting[i]);
      EXPECT_TRUE(testing::same(got.at(0), batches[i].grad()));
    }
    if (i >= 3)
      split.executor.weight_pass(std::move(waiting[i - 3]), {});
  }
  EXPECT_TRUE(testing::same(w.grad(), wanted));
}

TEST(ExecutorSplit, FreesWhatEachHalfHasUsed) {
  Split split;
  const at::Tensor& w = split.w;
  std::optional<MemoryWatch> input, for_inputs, for_weights, gradient;
  const auto start = [&] {
    at::Tensor x = leaf({3, 5});
    at::Tensor kept = x.sin();      // the product needs it for w
    at::Tensor y = kept.matmul(w);  // nobody needs it
    at::Tensor above = y.exp();     // its own node needs it
    Roots roots = Split::from({above.log()});
    input.emplace(x);
    for_weights.emplace(kept);
    for_inputs.emplace(above);
    gradient.emplace(roots.gradients[0]);
    const std::vector<NodePtr> inputs = nodes_of({x});
    split.executor.input_pass(std::move(roots), {.inputs = inputs}, split.weights);
  };
  start();
  EXPECT_FALSE(input->is_alive());
  EXPECT_FALSE(for_inputs->is_alive());
  EXPECT_FALSE(gradient->is_alive());
  EXPECT_TRUE(for_weights->is_alive());
  split.second_half();
  EXPECT_FALSE(for_weights->is_alive());
  start();
  split.weights = WeightRest();  // or it is given up
  EXPECT_FALSE(for_weights->is_alive());
}

TEST(ExecutorSplit, KeepsNoActivationsForVectors) {
  Split split;
  const at::Tensor scale = leaf({5}), bias = leaf({5});
  std::optional<MemoryWatch> saved;
  const auto make = [&] {
    const at::Tensor low = split.x.sin();
    saved.emplace(low);
    return variable_list{at::layer_norm(low, {5}, scale, bias).sin() + bias};
  };
  split.compare(make, {scale, bias});
  split.first_half(make());
  EXPECT_FALSE(saved->is_alive());
  EXPECT_FALSE(scale.grad().defined());
  split.second_half();
  EXPECT_TRUE(scale.grad().defined());
}

variable_list fail(const variable_list&) {
  throw std::runtime_error("no");
}

TEST(ExecutorSplit, HoldsNothingAfterAFailureInTheFirstHalf) {
  Split split;
  std::optional<MemoryWatch> saved;
  const auto start = [&] {
    const at::Tensor low = split.x.sin();
    const at::Tensor y = through(low, fail).matmul(split.w).sin().matmul(split.w);
    saved.emplace(low);
    split.first_half({y});
  };
  EXPECT_THROW(start(), Error);
  EXPECT_TRUE(split.weights.empty());
  EXPECT_FALSE(saved->is_alive());
  const at::Tensor &x = split.x, &w = split.w;
  split.compare([&] { return variable_list{x.matmul(w)}; }, {w});
}

TEST(ExecutorSplit, HoldsNothingAfterAFailureInTheSecondHalf) {
  Split split;
  std::optional<MemoryWatch> saved;
  const auto start = [&] {
    const at::Tensor low = split.x.sin();
    saved.emplace(low);
    split.first_half({low.matmul(through(split.w, fail)).sin().matmul(split.w)});
  };
  start();
  EXPECT_TRUE(saved->is_alive());
  EXPECT_THROW(split.second_half(), Error);
  EXPECT_FALSE(saved->is_alive());
  EXPECT_FALSE(split.w.grad().defined());
  const at::Tensor &x = split.x, &w = split.w;
  split.compare([&] { return variable_list{x.matmul(w)}; }, {w});
}

TEST(ExecutorSplit, CallsHooksOfTheBorderInTheFirstHalf) {
  Split split;
  std::vector<std::string> log;
  HookLog hooks(&log);
  variable_list retained;
  std::vector<NodePtr> held;
  const auto make = [&] {
    const at::Tensor y = split.x.matmul(split.w);
    for (uint32_t kind = 0; kind < 6; ++kind)
      hooks.add_to_tensor(kind, y, retained);
    return variable_list{y};
  };
  hooks.add_to_leaf(4, split.w, held);
  split.first_half(make());
  EXPECT_TRUE(retained.at(0).grad().defined());
  const size_t in_first = log.size();
  EXPECT_EQ(in_first, 8U);  // three hooks on the tensor, two pre, one post, one again
  split.second_half();
  ASSERT_EQ(log.size(), in_first + 4);
  for (size_t i = 0; i < log.size(); ++i)
    EXPECT_EQ(
        log[i].rfind("leaf", 0) == 0 || log[i].rfind("accumulated", 0) == 0,
        i >= in_first)
        << log[i];
}

/// The product x * w * c, split by hand: c is known to it alone, and takes part in W.
class Product : public SplitNode {
 public:
  Product(edge_list edges, at::Tensor x, at::Tensor w, at::Tensor c)
      : SplitNode(std::move(edges)),
        x_(std::move(x)),
        w_(std::move(w)),
        c_(std::move(c)) {}

 private:
  variable_list whole_pass(variable_list gradients) override {
    WeightWork later;
    variable_list outputs = input_pass(std::move(gradients), later);
    EXPECT_TRUE(later(Executor::current()->store()).empty());
    return outputs;
  }
  variable_list input_pass(variable_list gradients, WeightWork& later) override {
    const at::Tensor& g = gradients[0];
    later = [g, x = x_, w = w_, c = c_](GradientStore& store) {
      store.accumulate(c, g * x * w, 1);
      return variable_list();
    };
    return {g * w_ * c_, g * x_ * c_};
  }
  at::Tensor x_, w_, c_;
};

TEST(ExecutorSplit, LetsNodesSplitThemselves) {
  Split split;
  const at::Tensor x = split.x, w = leaf({3, 5}), c = leaf({3, 5});
  const auto make = [&] {
    const at::Tensor from_x = x.sin(), from_w = w.sin();
    at::Tensor y = (from_x * from_w * c).detach();
    torch::autograd::create_gradient_edge(
        y,
        make_node<Product>(
            edge_list{gradient_edge(from_x), gradient_edge(from_w)},
            from_x.detach(),
            from_w.detach(),
            c.detach()));
    return variable_list{y * w};
  };
  split.compare(make, {w});
  GradientMap store;
  split.executor.backward(Split::from(make()), {.store = &store});
  EXPECT_EQ(store.size(), 3U);  // c's stand-in among them
}

}  // namespace
}  // namespace trireme::autograd
