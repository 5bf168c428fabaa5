// Ranks on two hosts that are killed or stopped: the others on every host learn of it,
// soon, and by name.
#include <random>
#include <signal.h>

#include "hosts_case.h"

namespace trireme::comm {
namespace {

using testing::Processes;
using testing::SharedNumber;

constexpr int kRanks = 4;  // 0 and 2 lead their hosts; 0 hosts the store

class HostsKillProcs : public HostsCase {
 protected:
  using Step = std::function<void(Group& world, int round)>;

  /// Kills `victim` while all repeat `step`, and looks what the others hear.
  void kill_in(const std::string& what, int victim, const Step& step) {
    SCOPED_TRACE(text(what, ", rank ", victim, " killed"));
    const HostJob job(two_hosts(), {2, 2});
    const SharedNumber rounds;
    const LastHeard heard;
    Processes processes;
    job.start(processes, [&](int rank) {
      return heard_in(rank, exactly(victim), "", [&] {
        Group world = init();
        heard.in([&] {
          for (int round = 0;; ++round, ++*rounds)
            step(world, round);
        });
      });
    });
    await_number(rounds, kRanks * 3);
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
    processes.kill(static_cast<size_t>(victim), SIGKILL);
    const auto start = Clock::now();
    testing::expect_noticed(processes.wait(15s), victim);
    EXPECT_LT(heard.since(start), 2s);
  }

  std::mt19937 random_{7};
};

TEST_F(HostsKillProcs, InsideCollectivesAndMessages) {
  for (int victim = 0; victim < kRanks; ++victim) {
    kill_in("small all_reduce", victim, [](Group& world, int) {
      at::Tensor value = at::ones({10});
      all_reduce(world, value);
    });
    kill_in("large all_reduce", victim, [](Group& world, int) {
      at::Tensor value = at::ones({3'000'000});
      all_reduce(world, value);
    });
    kill_in("broadcast", victim, [](Group& world, int round) {
      at::Tensor value = at::ones({1'000'000});
      broadcast(world, value, round % kRanks);
    });
    kill_in("messages", victim, [](Group& world, int round) {
      const int rank = world.rank();
      const Channel out(world, {rank, (rank + 1) % kRanks, round});
      const Channel in(world, {(rank + kRanks - 1) % kRanks, rank, round});
      out.send({.tensors = {at::ones({300'000})}});
      in.receive();
    });
  }
}

TEST_F(HostsKillProcs, InsideSplit) {
  for (int victim = 0; victim < kRanks; ++victim)
    kill_in("split", victim, [](Group& world, int round) {
      const Group part = world.split((world.rank() + round) % 2, world.rank());
      barrier(part);
    });
}

TEST_F(HostsKillProcs, InsideRenew) {
  // Rank 0 may be the first to hear, and leave with the store in which the others meet.
  for (int run = 0; run < 8; ++run) {
    const int victim = run % kRanks;
    kill_in("renew", victim, [victim](Group& world, int round) {
      // Never the victim, whose name would then say nothing.
      const int first = (victim + 1 + round % (kRanks - 1)) % kRanks;
      try {
        if (world.rank() == first) {
          // Word of a failure may overtake what others still wait for.
          std::this_thread::sleep_for(20ms);
          world.abort("on purpose");
        }
        barrier(world);
      } catch (const PeerError& error) {
        if (error.rank() == victim)
          throw;
      }
      world = world.renew();
      barrier(world);
    });
  }
}

// Who dies before it has found the store leaves no trace at all: the others say at
// their deadline who did not come.
TEST_F(HostsKillProcs, InsideInit) {
  int named = 0;
  for (int round = 0; round < 12; ++round) {
    const int victim = round % kRanks;
    SCOPED_TRACE(text("round ", round, ", rank ", victim, " killed"));
    const HostJob job(two_hosts(), {2, 2}, {.timeout = 4s});
    const std::string late = victim == 0 ? "rank-0" : text("without rank ", victim);
    const SharedNumber started;
    const LastHeard heard;
    Processes processes;
    job.start(processes, [&](int rank) {
      ++*started;
      return heard_in(rank, exactly(victim), late, [&] {
        heard.in([] {
          const Group world = init();
          for (;;)
            barrier(world);
        });
      });
    });
    await_number(started, kRanks);
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60'000));
    processes.kill(static_cast<size_t>(victim), SIGKILL);
    const auto start = Clock::now();
    const auto endings = processes.wait(15s);
    int late_ranks = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim)
        continue;
      const int code = endings[static_cast<size_t>(rank)].exit_code;
      EXPECT_TRUE(code == kNamed || code == kLateNamed)
          << "rank " << rank << ": " << code;
      late_ranks += code == kLateNamed;
    }
    EXPECT_LT(heard.since(start), late_ranks == 0 ? 2s : 7s);
    named += late_ranks == 0;
  }
  EXPECT_GE(named, 4) << "too few kills came after the rank had found the store";
}

TEST_F(HostsKillProcs, AStoppedRankIsNamed) {
  for (const int victim : {0, 1, 3}) {
    SCOPED_TRACE(text("rank ", victim, " stopped"));
    const HostJob job(two_hosts(), {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", "1"}}});
    const SharedNumber rounds, over;
    const LastHeard heard;
    Processes processes;
    job.start(processes, [&](int rank) {
      const int code = heard_in(rank, exactly(victim), "", [&] {
        const Group world = init();
        heard.in([&] {
          for (;; ++*rounds) {
            at::Tensor value = at::ones({10});
            all_reduce(world, value);
          }
        });
      });
      ++*over;
      return code;
    });
    await_number(rounds, kRanks * 3);
    processes.kill(static_cast<size_t>(victim), SIGSTOP);
    const auto start = Clock::now();
    await_number(over, kRanks - 1);
    EXPECT_LT(heard.since(start), 2s) << "the heartbeat time and a second";
    processes.kill(static_cast<size_t>(victim), SIGKILL);
    testing::expect_noticed(processes.wait(15s), victim);
  }
}

// Ctrl-Z on the whole job, for longer than anybody may be silent.
TEST_F(HostsKillProcs, AJobThatWasStoppedGoesOn) {
  const HostJob job(two_hosts(), {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", "1"}}});
  const SharedNumber rounds, enough;
  Processes processes;
  job.start(processes, [&](int) {
    const Group world = init();
    at::Tensor go = at::zeros({1});
    while (go.item<float>() == 0) {
      go.fill_(world.rank() == 0 ? static_cast<float>(*enough) : 0);
      all_reduce(world, go);
      ++*rounds;
    }
    return 0;
  });
  await_number(rounds, kRanks * 3);
  for (int rank = 0; rank < kRanks; ++rank)
    processes.kill(static_cast<size_t>(rank), SIGSTOP);
  std::this_thread::sleep_for(2s);
  for (int rank = 0; rank < kRanks; ++rank)
    processes.kill(static_cast<size_t>(rank), SIGCONT);
  const int64_t before = *rounds;
  await_number(rounds, before + kRanks * 10);
  ++*enough;
  testing::expect_good_ends(processes.wait(20s));
}

}  // namespace
}  // namespace trireme::comm
