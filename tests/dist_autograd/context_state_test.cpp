#include "trireme/dist_autograd/context_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worlds.h"

namespace trireme::dist_autograd {
namespace {

TEST(ContextStateRanks, CountsTheCallsOfEachWorker) {
  lead_world(3, {}, [](Agent& agent) {
    const Context context(agent);
    ContextState& state = *context.state();
    EXPECT_EQ(state.next_call(1, "f"), (CallId{0, 1, 0}));
    EXPECT_EQ(state.next_call(1, "f"), (CallId{0, 1, 1}));
    EXPECT_EQ(state.next_call(2, "f"), (CallId{0, 2, 0}));
    const std::uint64_t calls = state.calls();
    EXPECT_NE(calls, 0U);
    state.next_call(2, "g");
    EXPECT_NE(state.calls(), calls);
    state.meet(2);
    EXPECT_EQ(state.peers(), (std::vector<rpc::WorkerId>{1, 2}));
  });
}

TEST(ContextStateRanks, RemembersWhatNeedsAGradient) {
  lead_world(2, {}, [](Agent& agent) {
    const Context context(agent);
    ContextState& state = *context.state();
    const SendId send{state.next_call(1, "f"), false},
        other{state.next_call(1, "f"), false};
    state.add_send(other, "f", {at::ones({2}), at::Tensor()});
    EXPECT_TRUE(state.sends().empty());
    state.add_send(send, "f", {leaf({2}), at::ones({2}), leaf({3})});
    EXPECT_EQ(state.edges_of(send).size(), 2U);
    EXPECT_EQ(
        state.text_of(send),
        "the arguments of f(), which worker worker0 has sent to worker worker1");
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { state.edges_of(other); }), "keep_graph"));
    state.drop_send(send);
    EXPECT_FALSE(state.find_edges(send));
  });
}

TEST(ContextStateRanks, TakesNothingAfterItsEnd) {
  lead_world(2, {}, [](Agent& agent) {
    const auto state = contexts_of(agent)->create();
    const SendId send{state->next_call(1, "f"), false};
    state->add_send(send, "f", {leaf({2})});
    contexts_of(agent)->end(state->id());
    EXPECT_TRUE(state->ended());
    EXPECT_TRUE(state->sends().empty());
    for (const std::function<void()>& use : std::vector<std::function<void()>>{
             [&] { state->next_call(1, "f"); },
             [&] { state->meet(1); },
             [&] { state->add_send(send, "f", {leaf({2})}); },
             [&] { state->edges_of(send); },
             [&] {
               state->pass({.id = {0, 1}});
             }})
      EXPECT_TRUE(contains(message_of<Error>(use), "has ended"));
  });
}

// Marks that their worker has given up are no reason to refuse its next backward; those
// that run are.
TEST(ContextStateRanks, HasOnePassAtATime) {
  lead_world(2, {}, [](Agent& agent) {
    const Context context(agent);
    ContextState& state = *context.state();
    const auto stale = state.pass({.id = {1, 5}});
    EXPECT_EQ(state.pass({.id = {1, 5}}), stale);
    const auto next = state.pass({.id = {1, 6}});
    EXPECT_NE(next, stale);
    EXPECT_TRUE(contains(
        message_of<Error>([&] {
          state.pass({.id = {1, 5}});
        }),
        "has ended here"));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          state.pass({.id = {0, 1}});
        }),
        "at a time"));
    next->fail({.worker = "worker1", .type = "Error", .text = "given up"});
    EXPECT_EQ(state.running_pass(), nullptr);
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
