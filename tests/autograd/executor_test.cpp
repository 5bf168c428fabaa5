#include "trireme/autograd/executor.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "lambda_node.h"
#include "random_graph.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

TEST(ExecutorGraphs, EqualTorchsEngine) {
  Executor executor;
  std::vector<int> used(op_kinds());
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    const RandomGraph graph(graph_options(seed)), twin(graph_options(seed));
    run_engine(twin.roots, twin.gradients, false);
    executor.backward({graph.roots, graph.gradients}, {});
    ASSERT_TRUE(same_gradients(graph.grads(), twin.grads())) << "graph " << seed;
    for (size_t kind = 0; kind < used.size(); ++kind)
      used[kind] += graph.used[kind];
  }
  EXPECT_GE(used.size(), 27U);
  for (size_t kind = 0; kind < used.size(); ++kind)
    EXPECT_GT(used[kind], 100) << "kind " << kind;
}

TEST(ExecutorGraphs, GiveTheGradientsOfInputs) {
  Executor executor;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    const RandomGraph graph(graph_options(seed)), twin(graph_options(seed)),
        third(graph_options(seed));
    const variable_list wanted =
        engine_gradients(twin.roots, twin.gradients, twin.inputs);
    run_engine(third.roots, third.gradients, false);
    GradientMap store;
    const std::vector<NodePtr> inputs = nodes_of(graph.inputs);
    const variable_list got = executor.backward(
        {graph.roots, graph.gradients}, {.inputs = inputs, .store = &store});
    ASSERT_TRUE(same_gradients(got, wanted)) << "graph " << seed;
    for (size_t i = 0; i < graph.weights.size(); ++i) {
      ASSERT_FALSE(graph.weights[i].grad().defined());
      ASSERT_TRUE(
          same_gradients({store.get(graph.weights[i])}, {third.weights[i].grad()}))
          << "graph " << seed << ", weight " << i;
    }
  }
}

TEST(ExecutorGraphs, AreKeptForAnotherPass) {
  Executor executor;
  for (uint32_t seed = 0; seed < kGraphs; seed += 5) {
    const RandomGraph graph(graph_options(seed)), twin(graph_options(seed));
    for (const bool keep : {true, true, false}) {
      run_engine(twin.roots, twin.gradients, keep);
      executor.backward({graph.roots, graph.gradients}, {.keep_graph = keep});
    }
    ASSERT_TRUE(same_gradients(graph.grads(), twin.grads())) << "graph " << seed;
  }
}

TEST(ExecutorGraphs, CallHooksAsTheEngineDoes) {
  Executor executor;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    std::vector<std::string> log, twin_log;
    GraphOptions options = graph_options(seed);
    options.log = &log;
    const RandomGraph graph(options);
    options.log = &twin_log;
    const RandomGraph twin(options);
    run_engine(twin.roots, twin.gradients, false);
    executor.backward({graph.roots, graph.gradients}, {});
    ASSERT_EQ(log, twin_log) << "graph " << seed;
    ASSERT_TRUE(same_gradients(graph.grads(), twin.grads())) << "graph " << seed;
  }
}

/// The roots of a pass from a scalar, whose gradient is 1.
Roots roots_of(const at::Tensor& loss) {
  return {{gradient_edge(loss)}, {at::ones_like(loss.detach())}};
}

at::Tensor whole_leaf(at::IntArrayRef sizes) {
  return at::ones(sizes).set_requires_grad(true);
}

TEST(Executor, SumsRootsThatAreNamedTwice) {
  const at::Tensor x = whole_leaf({3});
  const at::Tensor y = x * 2;
  const Edge edge = gradient_edge(y);
  Executor().backward(
      {{edge, edge, edge}, {at::ones(3), at::Tensor(), at::ones(3)}}, {});
  EXPECT_TRUE(testing::same(x.grad(), at::full({3}, 4.0)));
}

TEST(Executor, TakesLeavesAsRoots) {
  const at::Tensor x = whole_leaf({3}), w = whole_leaf({3});
  const NodePtr input = gradient_edge(x).function;
  const variable_list got = Executor().backward(
      {{gradient_edge(x), gradient_edge(w)}, {at::full({3}, 2.0), at::full({3}, 3.0)}},
      {.inputs = {&input, 1}});
  EXPECT_TRUE(testing::same(got.at(0), at::full({3}, 2.0)));
  EXPECT_TRUE(testing::same(w.grad(), at::full({3}, 3.0)));
}

TEST(Executor, GivesNothingForAnInputThatIsNotUsed) {
  const at::Tensor x = whole_leaf({3}), unused = whole_leaf({3});
  const std::vector<NodePtr> inputs = nodes_of({unused, x});
  const variable_list got = Executor().backward(roots_of(x.sum()), {.inputs = inputs});
  EXPECT_FALSE(got.at(0).defined());
  EXPECT_TRUE(testing::same(got.at(1), at::ones(3)));
}

TEST(Executor, RunsAGraphOfHundredThousandNodes) {
  const at::Tensor x = whole_leaf({}), w = whole_leaf({});
  const auto deep = [&] {
    at::Tensor y = x * w;
    for (int i = 0; i < 100000; ++i)
      y = y.neg();
    return y;
  };
  Executor executor;
  executor.backward(roots_of(deep()), {});
  EXPECT_EQ(x.grad().item<float>(), 1);
  const NodePtr input = gradient_edge(x).function;
  WeightRest weights;
  const variable_list got =
      executor.input_pass(roots_of(deep()), {.inputs = {&input, 1}}, weights);
  EXPECT_EQ(got.at(0).item<float>(), 1);
  executor.weight_pass(std::move(weights), {});
  EXPECT_EQ(w.grad().item<float>(), 2);
}

TEST(Executor, RunsAPassInsideAPass) {
  const at::Tensor x = whole_leaf({3}), w = whole_leaf({3});
  GradientMap store;
  // The block x * w * w, whose graph is made only when it is needed.
  const at::Tensor y = through(x, [&](variable_list gradients) {
    Executor* const outer = Executor::current();
    EXPECT_EQ(&outer->store(), &store);
    c10::AutoGradMode grad_mode(true);
    const at::Tensor again = x.detach().requires_grad_();
    const NodePtr input = gradient_edge(again).function;
    Executor inner;
    variable_list got = inner.backward(
        {{gradient_edge(again * w * w)}, std::move(gradients)},
        {.inputs = {&input, 1}, .store = &outer->store()});
    EXPECT_EQ(Executor::current(), outer);
    return got;
  });
  Executor().backward(roots_of((y * 2).sum()), {.store = &store});
  EXPECT_TRUE(testing::same(store.get(x), at::full({3}, 2.0)));
  EXPECT_TRUE(testing::same(store.get(w), at::full({3}, 4.0)));
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(Executor::current(), nullptr);
}

TEST(Executor, AddsUpInTheOuterPassWhatBothPassesReach) {
  const at::Tensor x = whole_leaf({3}), w = whole_leaf({3});
  int calls = 0;
  w.register_hook([&calls](const at::Tensor& gradient) {
    ++calls;
    return gradient;
  });
  const at::Tensor product = x * w;  // w has to wait for it
  const at::Tensor y = through(x, [&](variable_list gradients) {
    c10::AutoGradMode grad_mode(true);
    Executor inner;
    inner.backward(
        {{gradient_edge(w * w), gradient_edge(w)}, {gradients[0], gradients[0]}},
        {.outer = Executor::current()});
    EXPECT_FALSE(w.grad().defined());
    return gradients;
  });
  Executor().backward(roots_of((product + y).sum()), {});
  EXPECT_TRUE(testing::same(w.grad(), at::full({3}, 4.0)));
  EXPECT_EQ(calls, 1);
}

TEST(Executor, CallsWhatWaitsForTheEnd) {
  const at::Tensor x = whole_leaf({3});
  std::vector<std::string> log;
  const at::Tensor y = through(x, [&](variable_list gradients) {
    log.push_back("node");
    Executor::current()->at_end([&] {
      log.push_back("first");
      EXPECT_TRUE(x.grad().defined());
      EXPECT_FALSE(c10::GradMode::is_enabled());
      Executor::current()->at_end([&] { log.push_back("added at the end"); });
    });
    const at::Tensor z = through(whole_leaf({3}), [&](variable_list inner_gradients) {
      Executor::current()->at_end([&] { log.push_back("of the inner pass"); });
      return inner_gradients;
    });
    GradientMap apart;
    Executor inner;
    inner.backward({{gradient_edge(z)}, gradients}, {.store = &apart});
    log.push_back("inner pass is over");
    return gradients;
  });
  Executor().backward(roots_of(y.sum()), {});
  EXPECT_EQ(
      log,
      (std::vector<std::string>{
          "node",
          "inner pass is over",
          "first",
          "of the inner pass",
          "added at the end"}));
}

TEST(Executor, TellsWhatWaitsForTheEndOfAnError) {
  const at::Tensor x = whole_leaf({3});
  bool called = false;
  std::string why;
  const auto failing = [&](variable_list) -> variable_list {
    Executor::current()->at_end(
        [&called] { called = true; }, [&why](const std::string& said) { why = said; });
    throw std::runtime_error("no");
  };
  Executor executor;
  EXPECT_THROW(executor.backward(roots_of(through(x, failing).sum()), {}), Error);
  EXPECT_EQ(why, "no");
  why.clear();
  executor.backward(roots_of(x.sum()), {});
  EXPECT_FALSE(called);
  EXPECT_EQ(why, "");
}

// What has ended well hears nothing of those after it.
TEST(Executor, AnEndThatFailsIsTheEndOfThoseAfterIt) {
  std::vector<std::string> log;
  const auto wait_for_end = [&log](const std::string& name, bool fails) {
    Executor::current()->at_end(
        [&log, name, fails] {
          if (fails)
            throw std::runtime_error("no");
          log.push_back(name);
        },
        [&log, name](const std::string& why) { log.push_back(name + ": " + why); });
  };
  const at::Tensor y = through(whole_leaf({3}), [&](variable_list gradients) {
    wait_for_end("a", false);
    wait_for_end("b", true);
    wait_for_end("c", false);
    return gradients;
  });
  EXPECT_THROW(Executor().backward(roots_of(y.sum()), {}), std::runtime_error);
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b: no", "c: no"}));
}

// As docs/pipeline.md says of what belongs to torch's engine.
TEST(Executor, HasTheEnginesWordsUnderOtherNames) {
  const at::Tensor x = whole_leaf({3});
  Executor executor;
  const Node* running = nullptr;
  const at::Tensor y = through(x, [&](variable_list gradients) {
    EXPECT_ANY_THROW(
        torch::autograd::Engine::get_default_engine().queue_callback([] {}));
    EXPECT_FALSE(torch::autograd::get_current_node());
    EXPECT_EQ(Executor::current(), &executor);
    running = Executor::current()->running_node();
    return gradients;
  });
  executor.backward(roots_of(y), {});
  EXPECT_EQ(running, y.grad_fn().get());
  EXPECT_EQ(executor.running_node(), nullptr);
}

TEST(Executor, CanBeUsedAfterAnErrorAndHoldsNothing) {
  Executor executor;
  const at::Tensor x = whole_leaf({3}), w = whole_leaf({3});
  const std::vector<NodePtr> inputs = nodes_of({x});
  const auto watch_failure = [&] {
    const at::Tensor failing = through(
        w, [](variable_list) -> variable_list { throw std::runtime_error("no"); });
    const at::Tensor used = x * failing;  // its saved tensors are needed by nobody else
    const at::Tensor gradient = at::ones({3});
    EXPECT_THROW(
        executor.backward(
            {{gradient_edge(used.exp() * 2)}, {gradient}}, {.inputs = inputs}),
        Error);
    return std::pair(MemoryWatch(used), MemoryWatch(gradient));
  };
  const auto [saved, gradient] = watch_failure();
  EXPECT_FALSE(saved.is_alive());
  EXPECT_FALSE(gradient.is_alive());
  EXPECT_EQ(Executor::current(), nullptr);
  EXPECT_TRUE(c10::GradMode::is_enabled());
  const variable_list got =
      executor.backward(roots_of((x * w).sum()), {.inputs = inputs});
  EXPECT_TRUE(testing::same(got.at(0), at::ones(3)));
  EXPECT_TRUE(testing::same(w.grad(), at::ones(3)));
}

TEST(Executor, FreesSavedTensorsAsItGoes) {
  const at::Tensor x = whole_leaf({3});
  std::function<bool()> is_alive;
  const at::Tensor first = through(x, [&](variable_list gradients) {
    EXPECT_FALSE(is_alive());
    return gradients;
  });
  at::Tensor y = first.exp();
  is_alive = [watch = MemoryWatch(y)] { return watch.is_alive(); };
  y = y.log();
  EXPECT_TRUE(is_alive());
  Executor().backward(roots_of(y.sum()), {});
  EXPECT_TRUE(x.grad().defined());
}

TEST(Executor, NamesTheNodeThatFails) {
  Executor executor;
  const at::Tensor x = whole_leaf({3});
  const at::Tensor y = (x * x).sum();
  executor.backward(roots_of(y), {});
  const std::string twice =
      testing::message_of<c10::Error>([&] { executor.backward(roots_of(y), {}); });
  EXPECT_TRUE(testing::contains(twice, "second time"));
  EXPECT_TRUE(testing::contains(twice, "[autograd] in the backward of MulBackward0"));

  const auto fail_with = [&](auto fail) {
    executor.backward(
        roots_of(through(
                     x,
                     [fail](variable_list gradients) {
                       fail();
                       return gradients;
                     })
                     .sum()),
        {});
  };
  const std::string index = testing::message_of<c10::IndexError>(
      [&] { fail_with([] { TORCH_CHECK_INDEX(false, "beyond the end"); }); });
  EXPECT_TRUE(testing::contains(index, "beyond the end"));
  EXPECT_TRUE(testing::contains(index, "in the backward of LambdaNode"));
  EXPECT_EQ(
      testing::message_of<Error>(
          [&] { fail_with([] { throw std::out_of_range("too far"); }); }),
      "[autograd] in the backward of LambdaNode: too far");
  EXPECT_EQ(
      testing::message_of<PeerError>(
          [&] { fail_with([] { throw PeerError(3, "[comm] rank 3 is gone"); }); }),
      "[comm] rank 3 is gone");
  try {
    fail_with([] { throw std::out_of_range("too far"); });
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
  EXPECT_THROW(fail_with([] { throw 7; }), int);
}

TEST(Executor, RefusesWrongRootsAndInputs) {
  Executor executor;
  const at::Tensor x = whole_leaf({3});
  const Edge edge = gradient_edge(x.sum());
  const auto message = [&](Roots roots, const std::vector<NodePtr>& inputs) {
    return testing::message_of<InvalidArgument>(
        [&] { executor.backward(std::move(roots), {.inputs = inputs}); });
  };
  EXPECT_TRUE(testing::contains(message({{edge}, {}}, {}), "each of 1 roots, got 0"));
  const std::vector<NodePtr> twice = nodes_of({x, whole_leaf({3}), x});
  EXPECT_EQ(
      message({{edge}, {at::ones({})}}, twice),
      "[autograd] expected different inputs, got the same one as 0 and 2; name each "
      "leaf "
      "once");
  EXPECT_TRUE(testing::contains(
      message({{edge}, {at::ones({})}}, {edge.function}),
      "got SumBackward0 as number 0"));
  EXPECT_TRUE(testing::contains(
      message({{edge}, {at::ones({})}}, {NodePtr()}), "got none as number 0"));
  executor.backward({{edge}, {at::ones({})}}, {});  // none of them did any harm
  EXPECT_TRUE(x.grad().defined());
}

TEST(Executor, RefusesAPassInsideItsOwn) {
  Executor executor;
  const at::Tensor x = whole_leaf({3});
  const at::Tensor y = through(x, [&](variable_list gradients) {
    executor.backward(roots_of(x.sum()), {});
    return gradients;
  });
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>(
          [&] { executor.backward(roots_of(y.sum()), {}); }),
      "make another one"));
}

TEST(ExecutorRanks, EachThreadHasItsOwn) {
  constexpr uint32_t kThreads = 4, kEach = 25;
  std::vector<variable_list> wanted;
  for (uint32_t seed = 0; seed < kThreads * kEach; ++seed) {
    const RandomGraph graph(graph_options(seed));
    run_engine(graph.roots, graph.gradients, false);
    wanted.push_back(graph.grads());
  }
  std::vector<std::string> problems(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&wanted, &problem = problems[t], t] {
      Executor executor;
      for (uint32_t seed = t * kEach; seed < (t + 1) * kEach; ++seed) {
        const RandomGraph graph(graph_options(seed));
        executor.backward({graph.roots, graph.gradients}, {});
        if (const auto same = same_gradients(graph.grads(), wanted[seed]); !same)
          problem += same.message();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& problem : problems)
    EXPECT_EQ(problem, "");
}

TEST(Executor, RefusesAPassWithoutAStore) {
  Executor executor;
  const at::Tensor x = whole_leaf({3});
  const auto refused = [](const std::function<void()>& pass) {
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>(pass),
        "[autograd] expected a store for the gradients of a pass, got none"));
  };
  WeightRest weights;
  refused([&] { executor.backward(roots_of(x.sum()), {.store = nullptr}); });
  refused([&] { executor.input_pass(roots_of(x.sum()), {.store = nullptr}, weights); });
  refused([&] { executor.weight_pass(std::move(weights), {.store = nullptr}); });
  executor.backward(roots_of(x.sum()), {});  // it did no harm
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace trireme::autograd
