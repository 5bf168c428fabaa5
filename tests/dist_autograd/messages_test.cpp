// What a worker says that does not keep to the rules: it is refused, and all goes on.
#include "trireme/dist_autograd/messages.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

// A context in which worker1 has sent the result of one call, and a plan over it.
struct Foul {
  explicit Foul(const Agent& agent) : context(agent), x(leaf({3})) {
    plan.id = {0, contexts_of(agent)->next_pass()};
    y = agent.to("worker1").call<at::Tensor>("mul", x, x);
  }
  std::string send(
      const PassPlan& with, const SendId& to, autograd::variable_list gradients) const {
    return answer_of(
        send_gradients(*context.state(), with, 1, to, std::move(gradients)));
  }
  std::string mark(const PassPlan& with, const std::vector<SendId>& sends) const {
    return answer_of(send_marks(*context.state(), with, {{1, sends}}));
  }
  static std::string answer_of(const rpc::Future<Answer>& future) {
    try {
      const Answer answer = future.get();
      return answer ? answer->text : "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  Context context;
  at::Tensor x, y;
  SendId result{{0, 1, 0}, true};
  PassPlan plan{.deadline = Deadline::after(std::chrono::seconds(20))};
};

TEST(MessagesRanks, GradientsThatNobodyWaitsForAreRefused) {
  lead_world(2, basic_functions(), [](Agent& agent) {
    const Foul foul(agent);
    EXPECT_TRUE(contains(
        foul.send(foul.plan, foul.result, {at::ones({3})}), "to be announced"));
    EXPECT_TRUE(contains(
        foul.mark(foul.plan, {{{0, 1, 77}, true}}), "expected the graph of call 77"));
    EXPECT_TRUE(contains(
        foul.mark(foul.plan, {{{5, 1, 0}, true}}), "expected the graph of call 0"));
    EXPECT_EQ(foul.mark(foul.plan, {foul.result, foul.result}), "");
    EXPECT_EQ(foul.send(foul.plan, foul.result, {at::ones({3})}), "");
    EXPECT_TRUE(
        contains(foul.send(foul.plan, foul.result, {at::ones({3})}), "has ended here"));
    EXPECT_TRUE(contains(foul.mark(foul.plan, {foul.result}), "has ended here"));
  });
}

TEST(MessagesRanks, GradientsOfAnotherShapeOrNumberAreRefused) {
  for (const auto& [gradients, words] :
       std::vector<std::pair<autograd::variable_list, std::string>>{
           {{at::ones({2, 3})}, "[3]"},
           {{at::ones({4})}, "[3]"},
           {{}, "1 roots"},
           {{at::ones({3}), at::ones({3})}, "1 roots"}})
    lead_world(2, basic_functions(), [&](Agent& agent) {
      const Foul foul(agent);
      EXPECT_EQ(foul.mark(foul.plan, {foul.result}), "");
      const std::string complaint = foul.send(foul.plan, foul.result, gradients);
      EXPECT_TRUE(contains(complaint, words)) << complaint;
      // The next backward goes on.
      const at::Tensor z = agent.to("worker1").call<at::Tensor>("mul", foul.x, foul.x);
      foul.context.backward({z.sum()});
      EXPECT_TRUE(at::allclose(foul.context.gradient(foul.x), 2 * foul.x));
    });
}

TEST(MessagesRanks, ContextsThatAreNotThereAreNamed) {
  lead_world(2, basic_functions(), [](Agent& agent) {
    const auto other = std::make_shared<ContextState>(
        ContextId{0, 12}, agent.core()->weak_from_this(), std::make_shared<Routes>());
    const PassPlan plan{
        .id = {0, 1}, .deadline = Deadline::after(std::chrono::seconds(9))};
    EXPECT_TRUE(contains(
        Foul::answer_of(send_marks(*other, plan, {{1, {{{0, 1, 0}, true}}}})),
        "never heard of"));
    tell_failed(*agent.core(), 1, other->id(), plan.id, {});
    tell_ended(*agent.core(), 1, other->id());
    EXPECT_TRUE(ask_waiting(agent.core(), 1, other->id(), plan.id).get().sends.empty());
  });
}

TEST(MessagesRanks, AWorkerSaysWhatItWaitsFor) {
  lead_world(2, basic_functions(), [](Agent& agent) {
    const Foul foul(agent);
    EXPECT_EQ(foul.mark(foul.plan, {foul.result}), "");
    const Waiting waiting =
        ask_waiting(agent.core(), 1, foul.context.id(), foul.plan.id).get();
    EXPECT_EQ(
        waiting.sends,
        (std::vector<std::string>{
            "the result of mul(), which worker worker1 has sent to worker worker0"}));
    EXPECT_EQ(waiting.peers, (std::vector<rpc::WorkerId>{0}));
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
