// How many messages are under way at most: never fewer than any run shows.
#include "trireme/sched/flight.h"

#include <set>

#include "prove_programs.h"
#include "trireme/sched/prove.h"

namespace trireme::sched {
namespace {

// A program that is run step by step, the ranks in whatever order.
class Steps {
 public:
  Steps(const Schedule& program, int capacity)
      : program_(program),
        map_(program),
        capacity_(capacity),
        at(program.actions.size()),
        sent(map_.channels().size()),
        received(sent.size()) {}

  bool can_go(size_t rank) const {
    if (at[rank] == program_.actions[rank].size())
      return false;
    const Action& action = program_.actions[rank][at[rank]];
    for (const auto& use : map_.uses(action)) {
      const auto c = static_cast<size_t>(use.channel);
      if (is_receive(action.kind()) && sent[c] == received[c])
        return false;
      if (is_send(action.kind()) && capacity_ >= 0 &&
          sent[c] - received[c] >= capacity_)
        return false;
    }
    return true;
  }

  void go(size_t rank) {
    const Action& action = program_.actions[rank][at[rank]++];
    for (const auto& use : map_.uses(action)) {
      const auto c = static_cast<size_t>(use.channel);
      ++(is_send(action.kind()) ? sent : received)[c];
    }
  }

  void note(std::vector<int64_t>& most) const {
    for (size_t c = 0; c < sent.size(); ++c)
      most[c] = std::max(most[c], sent[c] - received[c]);
  }

 private:
  const Schedule& program_;
  const ChannelMap map_;
  int capacity_;

 public:
  std::vector<size_t> at;
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
};

std::vector<int64_t> told(const Schedule& program, int capacity) {
  const Proof proof = prove(program, {.messages = capacity});
  EXPECT_TRUE(proof.holds) << proof.why;
  std::vector<int64_t> most;
  for (const ChannelUse& use : proof.channels)
    most.push_back(use.most_in_flight);
  return most;
}

TEST(Flight, NoRunHasMore) {
  std::mt19937 random(123);
  for (int round = 0; round < 150; ++round) {
    const NamedSize what = random_size(random, 5, 2);
    const Schedule program =
        lower(what.make(), {.sharding = false, .late_receives = round % 2 == 1});
    for (const int capacity : {-1, 2}) {
      if (!prove(program, {.messages = capacity}).holds)
        continue;
      const auto bound = told(program, capacity);
      std::vector<int64_t> most(bound.size());
      for (int run = 0; run < 12; ++run) {
        Steps steps(program, capacity);
        // Some runs favour one rank, so that others fall behind.
        const size_t favourite = static_cast<size_t>(run) % program.actions.size();
        for (;;) {
          std::vector<size_t> able;
          for (size_t rank = 0; rank < program.actions.size(); ++rank)
            if (steps.can_go(rank))
              able.push_back(rank);
          if (able.empty())
            break;
          const bool favoured = run % 2 == 0 && steps.can_go(favourite);
          steps.go(
              favoured ? favourite
                       : able[std::uniform_int_distribution<size_t>(
                             0, able.size() - 1)(random)]);
          steps.note(most);
        }
      }
      for (size_t c = 0; c < bound.size(); ++c)
        ASSERT_LE(most[c], bound[c]) << what.describe() << " channel " << c;
    }
  }
}

/// Over all runs, by visiting all states.
std::vector<int64_t> exact(const Schedule& program) {
  Steps start(program, -1);
  std::vector<int64_t> most(start.sent.size());
  std::set<std::vector<size_t>> seen{start.at};
  std::vector<Steps> open{start};
  while (!open.empty()) {
    const Steps now = open.back();
    open.pop_back();
    now.note(most);
    for (size_t rank = 0; rank < program.actions.size(); ++rank)
      if (now.can_go(rank)) {
        Steps next(now);
        next.go(rank);
        if (seen.insert(next.at).second)
          open.push_back(next);
      }
  }
  return most;
}

TEST(Flight, IsExactFor1F1B) {
  for (const int P : {2, 3})
    for (int M = P; M <= 5 - P / 3; ++M)
      for (const bool late : {false, true}) {
        const Schedule program = lower(
            generate("1F1B", {.ranks = P, .microbatches = M}),
            {.sharding = false, .late_receives = late});
        EXPECT_EQ(told(program, -1), exact(program)) << "P" << P << " M" << M;
      }
}

TEST(Flight, IsExactWhereMessagesGoRound) {
  const auto check = [](const char* name, const ScheduleSize& size) {
    const Schedule program = lower(generate(name, size), {.sharding = false});
    EXPECT_EQ(told(program, -1), exact(program)) << name << " P" << size.ranks;
  };
  check("Interleaved1F1B", {.ranks = 3, .microbatches = 3, .stages_per_rank = 2});
  check("ZBVZeroBubble", {.ranks = 2, .microbatches = 4});
  check("ZBVZeroBubble", {.ranks = 3, .microbatches = 2});
  check("LoopedBFS", {.ranks = 3, .microbatches = 2, .stages_per_rank = 2});
}

TEST(Flight, WarmUpsOf1F1BAreUnderWay) {
  // The first rank sends its P warm-ups before it hears anything.
  const Proof proof = prove(lower(generate("1F1B", {.ranks = 4, .microbatches = 12})));
  for (const ChannelUse& use : proof.channels) {
    if (use.channel.forward) {
      EXPECT_EQ(use.most_in_flight, 4 - use.channel.from);
    }
    EXPECT_EQ(use.messages, 12);
  }
}

TEST(Flight, ARendezvousHasOne) {
  const Schedule program =
      lower(generate("ZBVZeroBubble", {.ranks = 3, .microbatches = 6}));
  for (const int64_t most : told(program, 0))
    EXPECT_EQ(most, 1);
  for (const int64_t most : told(program, 2))
    EXPECT_LE(most, 2);
}

TEST(Flight, TellsTheOrderOfAChannel) {
  const Schedule program = from_rows({"0F0,0SEND_F0", "1RECV_F0,1F0"});
  const ChannelMap map(program);
  const Flights flights(program, map);
  EXPECT_EQ(flights.disorder(), "");
  EXPECT_EQ(flights.messages(0), 1);
}

}  // namespace
}  // namespace trireme::sched
