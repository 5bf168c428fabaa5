#include "trireme/dist_autograd/pace.h"

#include <atomic>
#include <csignal>
#include <thread>
#include <unistd.h>

#include "optimizer_world.h"

namespace trireme::dist_autograd {
namespace {

using std::chrono::milliseconds;

TrainerGroup group_of(std::vector<std::string> trainers, std::int64_t staleness) {
  return {.name = "group", .trainers = std::move(trainers), .staleness = staleness};
}

// Trainers a, b and c that have all begun.
struct Three {
  explicit Three(std::int64_t staleness) {
    for (const char* const trainer : {"a", "b", "c"})
      paces.join(group_of({"a", "b", "c"}, staleness), trainer);
  }
  rpc::Future<PaceAnswer> done(const std::string& trainer) {
    return paces.done("group", trainer);
  }
  Paces paces;
};

TEST(Pace, WithoutStalenessAllGoTogether) {
  Three three(0);
  const auto a = three.done("a");
  const auto b = three.done("b");
  EXPECT_FALSE(a.ready());
  EXPECT_FALSE(b.ready());
  EXPECT_EQ(
      three.paces.late("group", "a"),
      std::vector<std::string>{"c has done 0 steps of 1"});
  const auto c = three.done("c");
  EXPECT_TRUE(a.ready() && b.ready() && c.ready());
  EXPECT_FALSE(a.get().has_value());
}

TEST(Pace, NobodyIsFurtherAheadThanAllowed) {
  Three three(2);
  EXPECT_TRUE(three.done("a").ready());
  EXPECT_TRUE(three.done("a").ready());
  const auto third = three.done("a");
  EXPECT_FALSE(third.ready());
  EXPECT_TRUE(three.done("b").ready());
  EXPECT_FALSE(third.ready());
  EXPECT_TRUE(three.done("c").ready());
  EXPECT_TRUE(third.ready());
}

TEST(Pace, WhoHasNotBegunIsWaitedFor) {
  Paces paces;
  const TrainerGroup group = group_of({"a", "b"}, 0);
  paces.join(group, "a");
  const auto a = paces.done("group", "a");
  EXPECT_FALSE(a.ready());
  EXPECT_EQ(paces.late("group", "a"), std::vector<std::string>{"b has not begun"});
  paces.join(group, "b");
  EXPECT_FALSE(a.ready());
  EXPECT_TRUE(paces.done("group", "b").ready());
  EXPECT_TRUE(a.ready());
}

TEST(Pace, WhoHasLeftIsNot) {
  Three three(0);
  const auto a = three.done("a");
  three.paces.leave("group", "b");
  EXPECT_FALSE(a.ready());
  three.paces.leave("group", "c");
  EXPECT_TRUE(a.ready());
  EXPECT_FALSE(a.get().has_value());
  EXPECT_EQ(three.paces.size(), 1U);
  three.paces.leave("group", "a");
  EXPECT_EQ(three.paces.size(), 0U);
}

TEST(Pace, WhoIsGoneEndsTheWait) {
  Three three(1);
  static_cast<void>(three.done("a"));
  static_cast<void>(three.done("b"));
  const auto a = three.done("a");
  EXPECT_FALSE(a.ready());
  three.paces.forget("b");  // as far as others have to be
  EXPECT_FALSE(a.ready());
  three.paces.forget("c");
  ASSERT_TRUE(a.ready());
  EXPECT_EQ(a.get(), "c");
  three.paces.leave("group", "a");
  EXPECT_EQ(three.paces.size(), 0U);
}

TEST(Pace, WhoComesBackBeginsWhereTheSlowestIs) {
  Three three(0);
  for (int step = 0; step < 3; ++step)
    for (const char* const trainer : {"a", "b", "c"})
      static_cast<void>(three.done(trainer));
  three.paces.forget("c");
  three.paces.join(group_of({"a", "b", "c"}, 0), "c");
  const auto a = three.done("a");
  static_cast<void>(three.done("b"));
  EXPECT_FALSE(a.ready());
  EXPECT_TRUE(three.done("c").ready());
  EXPECT_TRUE(a.ready());
}

TEST(Pace, GroupsThatCannotBeAreRefused) {
  Paces paces;
  const auto refused = [&](const TrainerGroup& group, const std::string& trainer) {
    return message_of<InvalidArgument>([&] { paces.join(group, trainer); });
  };
  EXPECT_TRUE(contains(refused(group_of({"a"}, -1), "a"), "at least 0, got -1"));
  EXPECT_TRUE(contains(refused(group_of({"a"}, 0), "b"), "b among them"));
  paces.join(group_of({"a", "b"}, 1), "a");
  EXPECT_TRUE(contains(
      refused(group_of({"a", "b"}, 2), "b"), "{a, b} with staleness 2 from b"));
  EXPECT_TRUE(contains(refused(group_of({"a", "b"}, 1), "a"), "got another one of a"));
  EXPECT_THROW(paces.done("group", "b"), InvalidArgument);
  EXPECT_THROW(paces.done("other", "a"), InvalidArgument);
}

DistributedOptimizerOptions in_step(
    std::int64_t staleness, std::vector<std::string> trainers) {
  return {.kind = Sgd{.lr = 1}, .trainers = group_of(std::move(trainers), staleness)};
}

void step_once(Agent& agent, const Parameter& weight, DistributedOptimizer& optimizer) {
  const Context context(agent);
  context.backward({agent.to(weight.owner())
                        .call<at::Tensor>("times", weight, at::ones({2}))
                        .sum()});
  optimizer.step(context);
}

// What optimizers do with it: worker 0 owns, the others train. `steps` has what each
// has begun.
void train(
    std::int64_t staleness,
    const std::function<void(
        Agent&,
        const Parameter&,
        DistributedOptimizer&,
        std::vector<std::atomic<int>>&)>& body) {
  const at::Tensor weight = at::zeros({2}).set_requires_grad(true);
  rpc::FunctionTable functions = layer_functions();
  functions.add("shared", [weight] { return rpc::this_agent().own(weight); });
  std::vector<std::atomic<int>> begun(4);
  run_world(4, functions, [&](Agent& agent) {
    if (agent.me().id == 0)
      return;
    const auto shared = agent.to(0).call<Parameter>("shared");
    DistributedOptimizer optimizer(
        agent, {shared}, in_step(staleness, {"worker1", "worker2", "worker3"}));
    body(agent, shared, optimizer, begun);
  });
}

TEST(PaceRanks, TrainersStayWithinTheirStaleness) {
  for (const std::int64_t staleness : {0, 2})
    train(
        staleness,
        [staleness](
            Agent& agent,
            const Parameter& shared,
            DistributedOptimizer& optimizer,
            std::vector<std::atomic<int>>& begun) {
          const auto me = static_cast<std::size_t>(agent.me().id);
          for (int step = 1; step <= 10; ++step) {
            begun[me] = step;
            for (std::size_t other = 1; other < begun.size(); ++other) {
              EXPECT_GE(begun[other], step - 1 - staleness) << me << ' ' << other;
            }
            if (me == 2)
              std::this_thread::sleep_for(milliseconds(3));
            step_once(agent, shared, optimizer);
          }
        });
}

// A trainer with less to do leaves, and holds nobody up.
TEST(PaceRanks, TrainersMayMakeDifferentNumbersOfSteps) {
  train(
      0,
      [](Agent& agent,
         const Parameter& shared,
         DistributedOptimizer& optimizer,
         std::vector<std::atomic<int>>&) {
        for (int step = 0; step < 3 * static_cast<int>(agent.me().id); ++step)
          step_once(agent, shared, optimizer);
      });
}

TEST(PaceRanks, TheDeadlineNamesWhoIsSlow) {
  std::atomic<bool> late{false};
  const at::Tensor weight = at::zeros({2}).set_requires_grad(true);
  rpc::FunctionTable functions = layer_functions();
  functions.add("shared", [weight] { return rpc::this_agent().own(weight); });
  run_world(3, functions, [&](Agent& agent) {
    if (agent.me().id == 0)
      return;
    const auto shared = agent.to(0).call<Parameter>("shared");
    DistributedOptimizerOptions options = in_step(0, {"worker1", "worker2"});
    options.timeout = agent.me().id == 1 ? milliseconds(2500) : milliseconds(20000);
    DistributedOptimizer optimizer(agent, {shared}, options);
    step_once(agent, shared, optimizer);
    if (agent.me().id == 1) {
      const std::string why =
          message_of<TimeoutError>([&] { step_once(agent, shared, optimizer); });
      EXPECT_TRUE(contains(why, "worker2 has done 1 steps of 2"));
      late = true;
    }
    EXPECT_TRUE(soon([&] { return late.load(); }));
  });
  EXPECT_TRUE(at::equal(weight.detach(), at::full({2}, -3.0)));
}

TEST(PaceProcs, ATrainerThatIsKilledIsNamed) {
  const at::Tensor weight = at::zeros({2}).set_requires_grad(true);
  rpc::FunctionTable functions = layer_functions();
  functions.add("shared", [weight] { return rpc::this_agent().own(weight); });
  testing::RpcProcesses world(3, with_functions(functions));
  const testing::SharedNumber noticed;
  for (int rank = 0; rank < 3; ++rank)
    world.start([&](Agent& agent) {
      if (agent.me().id == 0) {
        EXPECT_TRUE(soon([&] { return *noticed == 1; }));
        return testing::kNoticed;
      }
      const auto shared = agent.to(0).call<Parameter>("shared");
      DistributedOptimizer optimizer(
          agent, {shared}, in_step(0, {"worker1", "worker2"}));
      step_once(agent, shared, optimizer);
      if (agent.me().id == 2)
        ::kill(::getpid(), SIGKILL);
      const std::string why =
          message_of<PeerError>([&] { step_once(agent, shared, optimizer); });
      EXPECT_TRUE(contains(why, "got none of worker2 any more"));
      ++*noticed;
      return testing::kNoticed;
    });
  testing::expect_noticed(world.processes().wait(std::chrono::seconds(40)), 2);
}

}  // namespace
}  // namespace trireme::dist_autograd
