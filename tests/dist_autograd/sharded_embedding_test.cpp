// Tables on servers beside torch's embeddings in one process.
#include "trireme/dist_autograd/sharded_embedding.h"

#include <csignal>

#include <torch/nn/modules/embedding.h>

#include "embedding_world.h"

namespace trireme::dist_autograd {
namespace {

// Ids with repetitions, of each server and of few, in several shapes.
Tensors id_cases() {
  at::manual_seed(1);
  return {
      ids_of({3, 3, 0, 22, 7, 3}),
      ids_of({5}),
      at::randint(kRows, {4, 3, 2}, at::kLong),
      at::randint(kRows, {200}, at::kLong),
      at::tensor({2, 2, 9}, at::kInt),
      at::full({}, 4, at::kLong),
      at::empty({0, 3}, at::kLong)};
}

TEST(ShardedEmbeddingRanks, ValuesAndGradientsAsTorch) {
  for (const Spread kind : {Spread::Remainder, Spread::Range})
    for (const int count : {1, 2, 3})
      with_servers(count, [&](Agent& agent) {
        ShardedEmbedding items(agent, servers(count), options_of({.spread = kind}));
        const at::Tensor weight = items.read("weight", 0, kRows);
        for (const at::Tensor& ids : id_cases()) {
          SCOPED_TRACE(text(count, " servers, ids ", ids.sizes()));
          torch::nn::Embedding here(torch::nn::EmbeddingOptions(kRows, kDim)
                                        .sparse(true)
                                        ._weight(weight.clone()));
          const at::Tensor expected = here(ids);
          const at::Tensor factor = at::rand(expected.sizes());
          (expected * factor).sum().backward();
          const Context context(agent);
          const at::Tensor got = items.lookup(ids);
          EXPECT_TRUE(at::equal(got, expected));
          if (ids.numel() == 0)
            continue;
          context.backward({(got * factor).sum()});
          std::int64_t entries = 0;
          const at::Tensor whole = whole_gradient(agent, count, kind, &entries);
          expect_rows(whole, here->weight.grad().to_dense());
          // One for each row, however often it was looked up.
          EXPECT_EQ(entries, std::get<0>(at::_unique2(ids)).numel());
        }
      });
}

TEST(ShardedEmbeddingRanks, BagsAsTorch) {
  const at::Tensor ids = ids_of({3, 3, 0, 22, 7, 3, 1, 9});
  struct Case {
    at::Tensor ids, offsets;
  };
  const std::vector<Case> cases{
      {ids, ids_of({0, 3, 3, 7})},  // one is empty
      {ids, ids_of({0, 8})},        // the last one is
      {ids.view({2, 4}), {}},
      {ids.to(at::kInt), at::tensor({0, 5}, at::kInt)}};
  for (const int count : {1, 2, 3})
    with_servers(count, [&](Agent& agent) {
      ShardedEmbedding items(agent, servers(count), options_of());
      const at::Tensor weight = items.read("weight", 0, kRows);
      for (const Bag bag : {Bag::Sum, Bag::Mean})
        for (const Case& one : cases) {
          auto options = torch::nn::EmbeddingBagOptions(kRows, kDim)
                             .sparse(true)
                             ._weight(weight.clone());
          if (bag == Bag::Sum)
            options.mode(torch::kSum);
          else
            options.mode(torch::kMean);
          torch::nn::EmbeddingBag here(options);
          const at::Tensor expected = here->forward(one.ids, one.offsets);
          const at::Tensor factor = at::rand(expected.sizes());
          (expected * factor).sum().backward();
          const Context context(agent);
          const at::Tensor got = items.lookup_bags(one.ids, bag, one.offsets);
          expect_rows(got, expected);
          context.backward({(got * factor).sum()});
          expect_rows(
              whole_gradient(agent, count, Spread::Remainder),
              here->weight.grad().to_dense());
        }
    });
}

// -- What travels.

// However many ids and features there are, a lookup is one call a server, and so is
// what backward marks, what it sends back, and the step.
TEST(ShardedEmbeddingRanks, OneCallAServer) {
  with_servers(3, [](Agent& agent) {
    using Calls = std::vector<std::uint64_t>;
    ShardedEmbedding items(agent, servers(3), options_of());
    const Context context(agent);
    auto before = calls_to(agent, 3);
    const Tensors rows = items.lookup(
        {at::randint(kRows, {500}, at::kLong), at::arange(kRows), ids_of({1, 1})});
    EXPECT_EQ(calls_since(agent, before), (Calls{1, 1, 1}));
    EXPECT_EQ(rows[1].sizes(), (std::vector<std::int64_t>{kRows, kDim}));
    before = calls_to(agent, 3);
    context.backward(
        {rows[0].sum() + rows[1].sum() + rows[2].sum()}, {.mode = Mode::Fast});
    EXPECT_EQ(calls_since(agent, before), (Calls{1, 1, 1}));
    before = calls_to(agent, 3);
    items.step(context, {.lr = 0.1});
    EXPECT_EQ(calls_since(agent, before), (Calls{1, 1, 1}));
    // Who has none of the ids is not asked.
    before = calls_to(agent, 3);
    items.lookup(ids_of({1, 4, 22, 4}));
    EXPECT_EQ(calls_since(agent, before), (Calls{0, 1, 0}));
  });
}

// Each row travels once, however often its id stands there.
TEST(ShardedEmbeddingRanks, EachRowTravelsOnce) {
  with_servers(1, [](Agent& agent) {
    ShardedEmbedding items(agent, servers(1), {.rows = 4, .dim = 4096, .deviation = 1});
    const auto bytes = [&] {
      return agent.counters(agent.workers()[1]).figures().bytes_in;
    };
    const auto before = bytes();
    items.lookup(at::zeros({1000}, at::kLong));
    EXPECT_LT(bytes() - before, 3U * 4096 * sizeof(float));
  });
}

// -- What goes wrong.

TEST(ShardedEmbeddingRanks, IdsThatCannotBe) {
  with_servers(2, [](Agent& agent) {
    ShardedEmbedding items(agent, servers(2), options_of());
    const auto complaint = [&](const at::Tensor& ids) {
      return message_of<InvalidArgument>([&] { items.lookup(ids); });
    };
    EXPECT_TRUE(contains(complaint(ids_of({1, 23})), "from 0 to 22, got 23"));
    EXPECT_TRUE(contains(complaint(ids_of({-1, 2})), "from 0 to 22, got -1"));
    EXPECT_TRUE(contains(complaint(at::ones({2})), "int64 or int32"));
    EXPECT_TRUE(contains(complaint({}), "undefined"));
    EXPECT_THROW(items.prefetch(ids_of({23})), InvalidArgument);
    const auto bags = [&](const at::Tensor& ids, const at::Tensor& offsets) {
      return message_of<InvalidArgument>(
          [&] { items.lookup_bags(ids, Bag::Sum, offsets); });
    };
    EXPECT_TRUE(contains(bags(ids_of({1, 2}), {}), "two dims"));
    for (const at::Tensor& offsets :
         {ids_of({1}),
          ids_of({0, 2, 1}),
          ids_of({0, 3}),
          at::zeros({1}),
          ids_of({0}).view({1, 1})})
      EXPECT_TRUE(contains(bags(ids_of({1, 2}), offsets), "where each bag begins"));
  });
}

TEST(ShardedEmbeddingRanks, TablesThatCannotBe) {
  with_servers(2, [](Agent& agent) {
    const auto complaint = [&](std::vector<std::string> names,
                               const ShardedEmbeddingOptions& options) {
      return message_of<Error>(
          [&] { ShardedEmbedding(agent, std::move(names), options); });
    };
    const auto good = options_of();
    EXPECT_TRUE(contains(complaint({}, good), "one or more different workers"));
    EXPECT_TRUE(contains(
        complaint({"worker1", "worker1"}, good), "one or more different workers"));
    EXPECT_TRUE(contains(complaint({"worker7"}, good), "worker7"));
    auto bad = good;
    bad.dim = 0;
    EXPECT_TRUE(contains(complaint(servers(2), bad), "23 x 0"));
    bad = good;
    bad.optimizer.beta2 = 1;
    EXPECT_TRUE(contains(complaint(servers(2), bad), "beta2"));
    ShardedEmbedding items(agent, servers(2), good);
    const Context context(agent);
    EXPECT_TRUE(contains(
        message_of<Error>([&] { items.step(context, {.lr = NAN}); }), "finite rate"));
    EXPECT_TRUE(contains(
        message_of<Error>([&] { items.step(context, {.lr = 1, .trainers = 0}); }),
        "0 trainers"));
  });
}

// Whatever a trainer does when a server is killed, it hears of it by name within two
// seconds.
TEST(ShardedEmbeddingProcs, AServerThatIsKilled) {
  auto options = with_functions([] {
    rpc::FunctionTable functions = table();
    functions.add("die", [] { ::raise(SIGKILL); });
    return functions;
  }());
  options.timeout = seconds(20);
  testing::RpcProcesses world(3, options);
  testing::SharedNumber done;
  const auto serve = [&done](Agent&) -> int {
    return soon([&] { return *done == 1; }) ? 0 : 5;
  };
  world.start([&done](Agent& agent) -> int {
    ShardedEmbedding items(agent, servers(2), options_of());
    const Context context(agent);
    const at::Tensor rows = items.lookup(at::arange(kRows));
    items.prefetch(at::arange(kRows), Prefetch::AtOnce);
    const auto start = std::chrono::steady_clock::now();
    agent.to("worker2").async<void>("die");
    int heard = 0;
    const auto hears = [&](const std::function<void()>& act) {
      try {
        act();
      } catch (const PeerError& error) {
        heard += error.rank() == 2 && contains(error.what(), "its process has ended");
      }
    };
    hears([&] { context.backward({rows.sum()}); });
    hears([&] { items.lookup(at::arange(kRows)); });
    hears([&] { items.step(context, {.lr = 1}); });
    hears([&] { items.read("weight", 0, kRows); });
    const auto took = std::chrono::steady_clock::now() - start;
    // What the other server has can still be had.
    const bool others = items.lookup(ids_of({0, 2, 4})).size(0) == 3;
    *done = 1;
    return heard == 4 && others && took < seconds(2) ? 0 : 10 + heard;
  });
  world.start(serve);
  world.start(serve);
  const auto ends = world.processes().wait(seconds(30));
  EXPECT_EQ(ends[0].exit_code, 0);
}

}  // namespace
}  // namespace trireme::dist_autograd
