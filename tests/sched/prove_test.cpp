// The proof: what locks up is found and told, what does not is let pass, and both agree
// with threads that run the lists.
#include "trireme/sched/prove.h"

#include "prove_programs.h"

namespace trireme::sched {
namespace {

constexpr Buffers kRendezvous{.messages = 0};

TEST(Prove, TwoRanksThatBothSendFirst) {
  // Stages 0 and 2 on rank 0, 1 and 3 on rank 1: both send an activation before they
  // take the other's.
  const Schedule program = from_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1",
       "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3F1"});
  const Proof proof = prove(program, kRendezvous);
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(
      proof.why,
      "with rendezvous rank 0 waits at 0SEND_F1 for room in the channel to rank 1, "
      "rank "
      "1 waits at 1SEND_F0 for room in the channel to rank 0, and so on in a cycle");
  ASSERT_EQ(proof.cycle.size(), 2U);
  EXPECT_EQ(proof.buffers_needed, 1);
  EXPECT_TRUE(prove(program, {.messages = 1}).holds);
  EXPECT_TRUE(prove(program).holds);
}

TEST(Prove, TheSameWithAReceiveFirstPasses) {
  const Schedule program = from_rows(
      {"0F0,0SEND_F0,0F1,2RECV_F0,0SEND_F1,2F0,2RECV_F1,2SEND_F0,2F1,2SEND_F1",
       "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3F1"});
  const Proof proof = prove(program, kRendezvous);
  EXPECT_TRUE(proof.holds) << proof.why;
  EXPECT_TRUE(proof.cycle.empty());
  EXPECT_FALSE(proof.buffers_needed);
}

TEST(Prove, ASwappedPairOfReceives) {
  const Proof proof =
      prove(from_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F1,1RECV_F0,1F0,1F1"}));
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(
      proof.why,
      "message 0 of the activations from rank 0 to rank 1 is sent by 0SEND_F0 (step 1) "
      "but received by 1RECV_F1 (step 0); a channel keeps its order");
  EXPECT_FALSE(proof.buffers_needed);
}

TEST(Prove, ReceivesOfTwoKindsMayComeInAnyOrder) {
  // Gradients and activations have channels of their own: a near miss of the above.
  const Schedule program = from_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
       "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1"});
  EXPECT_TRUE(prove(program, kRendezvous).holds);
}

TEST(Prove, AMissingSend) {
  const Proof proof =
      prove(from_rows({"0F0,0SEND_F0,0F1", "1RECV_F0,1F0,1RECV_F1,1F1"}));
  EXPECT_FALSE(proof.holds);
  EXPECT_TRUE(contains(proof.why, "is sent by nothing more but received by 1RECV_F1"))
      << proof.why;
}

TEST(Prove, AMissingReceive) {
  const Proof proof = prove(from_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1F0"}));
  EXPECT_TRUE(
      contains(proof.why, "is sent by 0SEND_F1 (step 3) but received by nothing"))
      << proof.why;
}

TEST(Prove, EachWaitsForTheOthersMessage) {
  const Proof proof =
      prove(from_rows({"0RECV_B0,0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}));
  EXPECT_FALSE(proof.holds);
  EXPECT_EQ(
      proof.why,
      "with unbounded buffers rank 0 waits at 0RECV_B0 for a message of rank 1, rank 1 "
      "waits at 1RECV_F0 for a message of rank 0, and so on in a cycle");
  EXPECT_FALSE(proof.buffers_needed);
}

TEST(Prove, ABufferOfTwoIsNeeded) {
  const Schedule program = from_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1",
       "1F0,1SEND_F0,1F1,1SEND_F1,1RECV_F0,1RECV_F1"});
  for (const int size : {0, 1}) {
    const Proof proof = prove(program, {.messages = size});
    EXPECT_FALSE(proof.holds);
    EXPECT_EQ(proof.buffers_needed, 2);
  }
  EXPECT_TRUE(prove(program, {.messages = 2}).holds);
}

TEST(Prove, TheShortestCycleIsTold) {
  // Ranks 0, 1 and 2 in a cycle of three, and beside it ranks 3 and 4 in one of two.
  Schedule program = from_rows(
      {"0F0,0SEND_F0,3RECV_F0,3F0,3SEND_F0",
       "1F0,1SEND_F0,1RECV_F0,4RECV_F0,4F0,4SEND_F0",
       "2F0,2SEND_F0,2RECV_F0,5RECV_F0,5F0,5SEND_F0",
       "6F0,6SEND_F0,6RECV_F0,8RECV_F0,8F0",
       "7F0,7SEND_F0,7RECV_F0"});
  const Proof proof = prove(program, kRendezvous);
  ASSERT_FALSE(proof.holds);
  ASSERT_EQ(proof.cycle.size(), 2U) << proof.why;
  EXPECT_EQ(proof.cycle[0].rank, 3);
  EXPECT_EQ(proof.cycle[1].rank, 4);
}

TEST(Prove, RefusesWhatItCannotMakeSenseOf) {
  EXPECT_TRUE(contains(
      refusal([] { prove(generate("1F1B", {.ranks = 2, .microbatches = 2})); }),
      "lower() it first"));
  Schedule program = lower(generate("1F1B", {.ranks = 2, .microbatches = 2}));
  program.actions[0].push_back(Action(ActionKind::SendForward, 9, 0));
  EXPECT_TRUE(contains(refusal([&] { prove(program); }), "there is no stage 9"));
  program.actions[0].back() = Action(ActionKind::SendBackward, 1, 0);
  EXPECT_TRUE(contains(refusal([&] { prove(program); }), "stage 1 belongs to rank 1"));
}

TEST(Prove, NamesItsBuffers) {
  EXPECT_EQ(to_string(Buffers{}), "unbounded buffers");
  EXPECT_EQ(to_string(kRendezvous), "rendezvous");
  EXPECT_EQ(to_string(Buffers{.messages = 1}), "buffers of 1 message");
  EXPECT_EQ(to_string(Buffers{.messages = 3}), "buffers of 3 messages");
}

TEST(Prove, CountsLiveActivations) {
  EXPECT_EQ(peak_activations(from_rows({"0F0,0F1,0B0,0F2,0B1,0B2"}).actions[0]), 2);
  EXPECT_EQ(peak_activations(from_rows({"0F0,0I0,0F1,0W0,0B1"}).actions[0]), 2);
  EXPECT_EQ(
      peak_activations(from_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"}).actions[0]), 2);
  EXPECT_EQ(peak_activations({}), 0);
}

TEST(Prove, EvaluationKeepsNoActivations) {
  EXPECT_EQ(peak_activations(from_rows({"0F0,0F1,0F2"}).actions[0]), 1);
  const Schedule lowered =
      lower(generate("ForwardOnly", {.ranks = 3, .microbatches = 5}));
  EXPECT_EQ(prove(lowered).peak_activations, (std::vector<int64_t>{1, 1, 1}));
}

// Valid and broken programs, each with queues of several sizes.
TEST(ProveRanks, AgreesWithThreadsOverQueues) {
  std::mt19937 random(99);
  int held = 0, failed = 0, deadlocks = 0;
  for (int round = 0; round < 500; ++round) {
    const Schedule program = random_program(random, round % 5 == 0 ? 0 : 1 + round % 4);
    for (const int size : {0, 1, 2, -1}) {
      const Proof proof = prove(program, {.messages = size});
      const int capacity = size < 0 ? 1 << 20 : size;
      ASSERT_EQ(proof.holds, Threads(program, capacity).run())
          << to_string(Buffers{size}) << ": " << proof.why << "\n"
          << to_csv(program);
      ++(proof.holds ? held : failed);
      deadlocks += proof.cycle.empty() ? 0 : 1;
      if (proof.buffers_needed) {
        EXPECT_GT(*proof.buffers_needed, size);
        EXPECT_TRUE(Threads(program, *proof.buffers_needed).run());
        EXPECT_FALSE(
            *proof.buffers_needed > 0 &&
            Threads(program, *proof.buffers_needed - 1).run());
      }
    }
  }
  EXPECT_GT(held, 300);
  EXPECT_GT(failed, 300);
  EXPECT_GT(deadlocks, 50);
}

}  // namespace
}  // namespace trireme::sched
