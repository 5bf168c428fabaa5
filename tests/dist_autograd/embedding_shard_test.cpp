#include "trireme/dist_autograd/embedding_shard.h"

#include <cmath>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

ShardPlan plan(std::int64_t server = 0, std::int64_t servers = 1) {
  return {
      .name = "items",
      .rows = 10,
      .dim = 5,
      .server = server,
      .servers = servers,
      .seed = 3};
}

// A row's first value depends on nothing but the seed, the name and its id.
TEST(EmbeddingShard, FirstValuesByRow) {
  const at::Tensor all = first_values(plan(), at::arange(10));
  EXPECT_TRUE(at::equal(
      first_values(plan(1, 3), at::tensor({7, 2}, at::kLong)),
      at::stack({all[7], all[2]})));
  ShardPlan other = plan();
  other.seed = 4;
  EXPECT_FALSE(at::equal(first_values(other, at::arange(10)), all));
  other = plan();
  other.name = "users";
  EXPECT_FALSE(at::equal(first_values(other, at::arange(10)), all));
  const auto pairs = at::unique_consecutive(std::get<0>(at::sort(all.flatten())));
  EXPECT_EQ(std::get<0>(pairs).numel(), 50);  // no number comes twice
}

TEST(EmbeddingShard, FirstValuesAreNormal) {
  ShardPlan wide = plan();
  wide.dim = 131;  // odd, and of more than one group
  wide.deviation = 0.5;
  const at::Tensor values = first_values(wide, at::arange(2000));
  EXPECT_NEAR(values.mean().item<double>(), 0, 0.005);
  EXPECT_NEAR(values.std().item<double>(), 0.5, 0.005);
  EXPECT_NEAR((values.abs() < 0.5).to(at::kFloat).mean().item<double>(), 0.6827, 0.005);
  for (const std::int64_t column : {0, 63, 64, 130})
    EXPECT_NEAR(values.select(1, column).std().item<double>(), 0.5, 0.05) << column;
}

// Outside of contexts nobody would fetch a gradient.
TEST(EmbeddingShard, LooksUpWithoutGraphOutsideOfContexts) {
  const EmbeddingShard shard(plan(1, 2));
  const at::Tensor rows = shard.lookup(at::tensor({4, 0, 4}, at::kLong));
  EXPECT_FALSE(rows.requires_grad());
  EXPECT_TRUE(at::equal(rows, first_values(plan(), at::tensor({9, 1, 9}, at::kLong))));
}

TEST(EmbeddingShard, NobodyIsTrusted) {
  EmbeddingShard shard(plan(1, 2));
  const auto refused = [&](const at::Tensor& numbers) {
    return contains(
        message_of<InvalidArgument>([&] { shard.lookup(numbers); }), "below 5");
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused(at::tensor({5}, at::kLong)));
  EXPECT_TRUE(refused(at::tensor({-1}, at::kLong)));
  EXPECT_TRUE(refused(at::tensor({1}, at::kInt)));
  EXPECT_TRUE(refused(at::zeros({1, 1}, at::kLong)));
  EXPECT_THROW(shard.read("weight", 0, 6), InvalidArgument);
  EXPECT_THROW(shard.read("weight", -1, 2), InvalidArgument);
  EXPECT_THROW(shard.read("sum", 0, 1), InvalidArgument);
  EXPECT_THROW(shard.write("weight", 5, at::zeros({1, 5})), InvalidArgument);
  EXPECT_THROW(shard.write("weight", 0, at::zeros({1, 4})), InvalidArgument);
  EXPECT_THROW(
      shard.write("weight", 0, at::zeros({1, 5}, at::kDouble)), InvalidArgument);
  EXPECT_THROW(shard.step({.lr = 1}), InvalidArgument);  // in no context
  for (const auto& spoil : std::vector<std::function<void(ShardPlan&)>>{
           [](ShardPlan& p) { p.rows = 0; },
           [](ShardPlan& p) { p.dim = 0; },
           [](ShardPlan& p) { p.server = 2; },
           [](ShardPlan& p) { p.server = -1; },
           [](ShardPlan& p) { p.deviation = NAN; },
           [](ShardPlan& p) { p.spread = static_cast<Spread>(9); },
           [](ShardPlan& p) { p.optimizer.beta1 = 2; }}) {
    ShardPlan spoilt = plan(1, 2);
    spoil(spoilt);
    EXPECT_THROW(EmbeddingShard{spoilt}, InvalidArgument);
  }
}

// A server has one table of a name, for all who come with the same plan.
TEST(EmbeddingShardRanks, OneOfAName) {
  lead_world(2, {}, [](Agent& agent) {
    const auto to = agent.to("worker1");
    auto shard = to.remote(kMakeShard, plan());
    const auto same = to.remote(kMakeShard, plan());
    shard.call(&EmbeddingShard::write, std::string("weight"), 0, at::ones({1, 5}));
    EXPECT_TRUE(at::equal(
        same.call(&EmbeddingShard::read, std::string("weight"), 0, 1),
        at::ones({1, 5})));
    ShardPlan other = plan();
    other.dim = 6;
    const std::string complaint =
        message_of<Error>([&] { to.remote(kMakeShard, other).made().get(); });
    EXPECT_TRUE(contains(complaint, "part 0 of 1 of 10 x 5")) << complaint;
    EXPECT_TRUE(contains(complaint, "part 0 of 1 of 10 x 6")) << complaint;
    EXPECT_THROW(to.remote(kMakeShard, plan(0, 2)).made().get(), Error);
    // Another one of that name is another table.
    ShardPlan second = plan();
    second.ordinal = 2;
    const auto fresh = to.remote(kMakeShard, second);
    EXPECT_TRUE(at::equal(
        fresh.call(&EmbeddingShard::read, std::string("weight"), 0, 1),
        first_values(second, at::zeros({1}, at::kLong))));
  });
}

// Who wants another step than the others is refused; those who wait for nobody are not
// held up, and see to it that those who have given up go.
TEST(EmbeddingShardRanks, TrainersThatDoNotAgree) {
  lead_world(2, {}, [](Agent& agent) {
    const auto shard = agent.to("worker1").remote(kMakeShard, plan());
    const auto contexts = contexts_of(agent);
    const auto step = [&](const std::shared_ptr<ContextState>& context, RowStep how) {
      const ContextScope scope(context);
      return shard.async(&EmbeddingShard::step, how);
    };
    std::vector<std::shared_ptr<ContextState>> both;
    std::vector<rpc::Future<void>> done;
    for (const double lr : {1, 2}) {
      both.push_back(contexts->create());
      done.push_back(step(both.back(), {.lr = lr, .trainers = 3}));
    }
    EXPECT_TRUE(soon([&] { return done[0].ready() || done[1].ready(); }));
    const std::size_t refused = done[0].ready() ? 0 : 1;
    const std::string complaint = message_of<Error>([&] { done[refused].get(); });
    EXPECT_TRUE(contains(complaint, "a step of 3 trainers by")) << complaint;
    EXPECT_FALSE(done[1 - refused].ready());
    contexts->end(both[1 - refused]->id());
    EXPECT_TRUE(soon([&] {
      step(both[refused], {.lr = 1}).get();
      return done[1 - refused].ready();
    }));
    EXPECT_TRUE(done[1 - refused].failed());
    contexts->end(both[refused]->id());
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
