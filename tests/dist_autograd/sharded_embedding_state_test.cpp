#include <functional>
#include <map>

#include "embedding_world.h"

namespace trireme::dist_autograd {
namespace {

TEST(ShardedEmbeddingRanks, StateForOtherServers) {
  for (const RowRule rule : {RowRule::SGD, RowRule::Adagrad, RowRule::Adam}) {
    std::map<std::string, at::Tensor> state;
    at::Tensor weight;
    const auto options = [&](Spread kind) {
      return options_of({.spread = kind, .optimizer = {.rule = rule}});
    };
    with_servers(2, [&](Agent& agent) {
      ShardedEmbedding items(agent, servers(2), options(Spread::Remainder));
      trained(agent, items, Ahead::No, 3);
      state = items.state_dict();
      EXPECT_EQ(state.size(), items.state_names().size() + 1);
      weight = trained(agent, items, Ahead::No, 3).second;
    });
    with_servers(3, [&](Agent& agent) {
      auto other = options(Spread::Range);
      other.seed = 99;
      ShardedEmbedding items(agent, servers(3), other);
      items.load_state_dict(state);
      expect_rows(trained(agent, items, Ahead::No, 3).second, weight);
      EXPECT_EQ(items.steps(), 6);
    });
  }
}

TEST(ShardedEmbeddingRanks, StateInPieces) {
  with_servers(3, [](Agent& agent) {
    ShardedEmbedding items(agent, servers(3), options_of());
    const at::Tensor all = items.read("weight", 0, kRows);
    EXPECT_TRUE(at::equal(items.read("weight", 5, 9), all.narrow(0, 5, 9)));
    EXPECT_EQ(items.read("weight", 7, 0).size(0), 0);
    items.write("weight", 6, at::ones({4, kDim}));
    at::Tensor expected = all.clone();
    expected.narrow(0, 6, 4).fill_(1);
    EXPECT_TRUE(at::equal(items.read("weight", 0, kRows), expected));
  });
}

TEST(ShardedEmbeddingRanks, StateThatDoesNotFit) {
  with_servers(2, [](Agent& agent) {
    ShardedEmbedding items(
        agent, servers(2), options_of({.optimizer = {.rule = RowRule::Adagrad}}));
    const auto good = items.state_dict();
    const at::Tensor before = items.read("weight", 0, kRows);
    const auto refused =
        [&](const std::function<void(std::map<std::string, at::Tensor>&)>& spoil) {
          auto state = good;
          state["weight"] = at::zeros({kRows, kDim});
          spoil(state);
          const std::string complaint =
              message_of<InvalidArgument>([&] { items.load_state_dict(state); });
          EXPECT_TRUE(contains(complaint, "[23, 4] floats")) << complaint;
          EXPECT_TRUE(at::equal(items.read("weight", 0, kRows), before));
        };
    refused([](auto& state) { state.erase("sum"); });
    refused([](auto& state) { state.erase("steps"); });
    refused([](auto& state) { state["exp_avg"] = state["sum"]; });
    refused([](auto& state) { state["sum"] = at::zeros({kRows, kDim + 1}); });
    refused([](auto& state) { state["sum"] = at::zeros({kRows - 1, kDim}); });
    refused([](auto& state) { state["sum"] = state["sum"].to(at::kDouble); });
    refused([](auto& state) { state["sum"] = at::Tensor(); });
    EXPECT_THROW(items.read("weight", 20, 4), InvalidArgument);
    EXPECT_THROW(items.write("weight", 20, at::zeros({4, kDim})), InvalidArgument);
    EXPECT_THROW(items.write("bias", 0, at::zeros({4, kDim})), InvalidArgument);
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
