// Training by tables on servers, of one trainer and of several.
#include <optional>

#include <torch/nn/modules/embedding.h>
#include <torch/optim/sgd.h>

#include "embedding_world.h"

namespace trireme::dist_autograd {
namespace {

TEST(ShardedEmbeddingRanks, StepsAsTorch) {
  for (const int count : {1, 3})
    with_servers(count, [&](Agent& agent) {
      ShardedEmbedding items(agent, servers(count), options_of());
      torch::nn::Embedding here(torch::nn::EmbeddingOptions(kRows, kDim)
                                    .sparse(true)
                                    ._weight(items.read("weight", 0, kRows)));
      torch::optim::SGD sgd(here->parameters(), 0.2);
      std::vector<double> expected;
      for (int step = 0; step < 6; ++step) {
        sgd.zero_grad();
        const at::Tensor loss = loss_of(here(ids_of_step(step)));
        loss.backward();
        sgd.step();
        expected.push_back(loss.item<double>());
      }
      const auto [losses, weight] = trained(agent, items, Ahead::No);
      for (std::size_t i = 0; i < losses.size(); ++i)
        EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]);
      EXPECT_TRUE(at::allclose(weight, here->weight, 1e-5, 1e-5));
      EXPECT_EQ(items.steps(), 6);
    });
}

// The number of servers and how rows are spread make no difference, whatever the rule.
TEST(ShardedEmbeddingRanks, TheSameForAnyServers) {
  for (const RowRule rule : {RowRule::SGD, RowRule::Adagrad, RowRule::Adam}) {
    std::optional<at::Tensor> first;
    for (const Spread kind : {Spread::Remainder, Spread::Range})
      for (const int count : {1, 2, 3})
        with_servers(count, [&](Agent& agent) {
          ShardedEmbedding items(
              agent,
              servers(count),
              options_of({.spread = kind, .optimizer = {.rule = rule}}));
          const at::Tensor start = items.read("weight", 0, kRows);
          const at::Tensor weight = trained(agent, items, Ahead::No).second;
          EXPECT_FALSE(at::allclose(start, weight, 0.1, 0.01));
          if (!first)
            first = weight;
          expect_rows(weight, *first);
        });
  }
}

TEST(ShardedEmbeddingRanks, PrefetchChangesNothing) {
  with_servers(2, [](Agent& agent) {
    const auto run = [&](Ahead ahead) {
      ShardedEmbedding items(
          agent, servers(2), options_of({.optimizer = {.rule = RowRule::Adagrad}}));
      return trained(agent, items, ahead);
    };
    const auto [losses, weight] = run(Ahead::No);
    for (const Ahead ahead :
         {Ahead::Before, Ahead::Inside, Ahead::Behind, Ahead::Partly}) {
      SCOPED_TRACE(static_cast<int>(ahead));
      const auto [others, other] = run(ahead);
      EXPECT_EQ(others, losses);
      EXPECT_TRUE(at::equal(other, weight));
    }
  });
}

// A lookup whose rows are there makes no call, and its gradients are the step's.
TEST(ShardedEmbeddingRanks, PrefetchedRowsNeedNoCall) {
  with_servers(2, [](Agent& agent) {
    ShardedEmbedding items(agent, servers(2), options_of());
    items.prefetch(ids_of({1, 2, 3, 3}));
    const Context context(agent);
    auto before = calls_to(agent, 2);
    at::Tensor rows = items.lookup(ids_of({3, 2, 2}));
    EXPECT_EQ(calls_since(agent, before), (std::vector<std::uint64_t>{0, 0}));
    // The second lookup of a context has to fetch.
    at::Tensor more = items.lookup(ids_of({2}));
    EXPECT_EQ(calls_since(agent, before), (std::vector<std::uint64_t>{1, 0}));
    context.backward({rows.sum() + more.sum()});
    at::Tensor expected = at::zeros({kRows, kDim});
    expected[2] = 3;
    expected[3] = 1;
    expect_rows(whole_gradient(agent, 2, Spread::Remainder), expected);
  });
}

// Rows that are fetched at once do not wait for the step, and miss it.
TEST(ShardedEmbeddingRanks, PrefetchAtOnceMissesTheStep) {
  with_servers(2, [](Agent& agent) {
    ShardedEmbedding items(agent, servers(2), options_of());
    const at::Tensor old = items.lookup(ids_of({4}));
    for (const Prefetch when : {Prefetch::AtOnce, Prefetch::AfterStep}) {
      std::optional<Context> context(agent);
      const at::Tensor row = items.lookup(ids_of({4}));
      items.prefetch(ids_of({4}), when);  // of worker 1
      // The step shall not come first.
      EXPECT_TRUE(soon(
          [&] { return agent.counters(agent.workers()[1]).figures().waiting() == 0; }));
      context->backward({row.sum()});
      items.step(*context, {.lr = 1});
      context.emplace(agent);
      const at::Tensor next = items.lookup(ids_of({4}));
      EXPECT_TRUE(at::equal(next, when == Prefetch::AtOnce ? row : row - 1));
    }
  });
}

TEST(ShardedEmbeddingRanks, PrefetchesThatNobodyUses) {
  with_servers(2, [](Agent& agent) {
    std::optional<ShardedEmbedding> items(
        std::in_place, agent, servers(2), options_of());
    for (int i = 0; i < 3; ++i) {
      const Context context(agent);
      const at::Tensor rows = items->lookup(ids_of({1}));
      items->prefetch(ids_of({2}), Prefetch::AtOnce);
      context.backward({rows.sum()});
    }
    EXPECT_EQ(contexts_of(agent)->size(), 1U);  // that of the last prefetch
    items.reset();
    EXPECT_EQ(contexts_of(agent)->size(), 0U);
  });
}

TEST(ShardedEmbeddingRanks, OutsideOfContexts) {
  with_servers(2, [](Agent& agent) {
    ShardedEmbedding items(agent, servers(2), options_of());
    EXPECT_FALSE(items.lookup(ids_of({1, 2})).requires_grad());
    const Context context(agent);
    {
      const c10::NoGradGuard no_grad;
      EXPECT_FALSE(items.lookup(ids_of({1, 2})).requires_grad());
    }
    EXPECT_TRUE(items.lookup(ids_of({1, 2})).requires_grad());
    // A step without any gradient is one.
    items.step(context, {.lr = 1});
    EXPECT_EQ(items.steps(), 1);
  });
}

// -- Several trainers: workers 0 to 2, with servers 3 and 4.

const std::vector<std::string> kShared{"worker3", "worker4"};

void with_trainers(const std::function<void(Agent&, ShardedEmbedding&)>& body) {
  run_world(5, table(), [&](Agent& agent) {
    if (agent.me().id >= 3)
      return;
    ShardedEmbedding items(agent, kShared, options_of());
    body(agent, items);
    const Context last(agent);  // nobody lets the table go before all have seen it
    items.step(last, {.lr = 0, .trainers = 3});
  });
}

TEST(ShardedEmbeddingRanks, TrainersThatStepTogether) {
  // In one process: the mean of three losses.
  at::Tensor weight;
  with_servers(1, [&](Agent& agent) {
    ShardedEmbedding items(agent, servers(1), options_of());
    for (int step = 0; step < 5; ++step) {
      const Context context(agent);
      at::Tensor loss = at::zeros({});
      for (int trainer = 0; trainer < 3; ++trainer)
        loss = loss + loss_of(items.lookup(ids_of_step(3 * step + trainer))) / 3;
      context.backward({loss});
      items.step(context, {.lr = 0.2});
    }
    weight = items.read("weight", 0, kRows);
  });
  with_trainers([&](Agent& agent, ShardedEmbedding& items) {
    for (int step = 0; step < 5; ++step) {
      const Context context(agent);
      context.backward({loss_of(items.lookup(ids_of_step(3 * step + agent.me().id)))});
      items.step(context, {.lr = 0.2, .trainers = 3});
    }
    expect_rows(items.read("weight", 0, kRows), weight);
    EXPECT_EQ(items.steps(), 5);
  });
}

// Each in its own time: no gradient is lost.
TEST(ShardedEmbeddingRanks, TrainersThatStepAlone) {
  with_trainers([&](Agent& agent, ShardedEmbedding& items) {
    const at::Tensor first = items.read("weight", 0, kRows);
    {
      const Context all_have_read(agent);
      items.step(all_have_read, {.lr = 0, .trainers = 3});
    }
    constexpr int kSteps = 20;
    for (int step = 0; step < kSteps; ++step) {
      const Context context(agent);
      context.backward({items.lookup(ids_of({agent.me().id, 8, 9})).sum()});
      items.step(context, {.lr = 0.5});
    }
    const Context all_are_through(agent);
    items.step(all_are_through, {.lr = 0, .trainers = 3});
    at::Tensor expected = first.clone();
    for (const int row : {0, 1, 2})
      expected[row] -= 0.5 * kSteps;
    for (const int row : {8, 9})
      expected[row] -= 0.5 * kSteps * 3;
    EXPECT_TRUE(at::allclose(items.read("weight", 0, kRows), expected, 1e-5, 1e-4));
  });
}

// Who gives up waiting for others leaves nothing behind.
TEST(ShardedEmbeddingRanks, ATrainerThatWaitsAlone) {
  with_servers(2, [](Agent& agent) {
    auto options = options_of();
    options.timeout = seconds(2);
    ShardedEmbedding hasty(agent, servers(2), options);
    const at::Tensor first = hasty.read("weight", 0, kRows);
    {
      const Context context(agent);
      context.backward({hasty.lookup(ids_of({1, 2})).sum()});
      EXPECT_THROW(hasty.step(context, {.lr = 1, .trainers = 2}), TimeoutError);
    }
    const Context context(agent);
    context.backward({hasty.lookup(ids_of({3})).sum()});
    hasty.step(context, {.lr = 1});
    at::Tensor expected = first.clone();
    expected[3] -= 1;
    expect_rows(hasty.read("weight", 0, kRows), expected);
    EXPECT_EQ(hasty.steps(), 1);
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
