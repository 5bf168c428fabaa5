// kill -9 at random moments: the survivors must always learn of it, soon, and by name.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <signal.h>
#include <stdlib.h>
#include <thread>
#include <time.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/core/rank_roll.h"
#include "trireme/core/segment_file.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

constexpr int kRanks = 3;
constexpr int kRounds = 100;
constexpr int kStartRounds = 30;
constexpr int kLeastInside = 6;  // of these, in what the test is about
constexpr int kWrongName = 3;

/// Waits until all ranks have begun to work.
void wait_for(const testing::SharedNumber& started) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (*started < kRanks && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Collectives of all sizes and messages, one after the other, until somebody dies.
int work_until_death(
    const Group& world, int victim, const testing::SharedNumber& started) {
  const int rank = world.rank();
  const Channel out(world, {rank, (rank + 1) % kRanks});
  const Channel in(world, {(rank + kRanks - 1) % kRanks, rank});
  std::vector<at::Tensor> tensors;
  for (const int64_t count : {1, 1000, 30000, 400000})
    tensors.push_back(at::zeros({count}));
  tensors.push_back(world.allocate({300000}, at::kFloat));
  at::Tensor gathered = at::zeros({kRanks * 1000});
  barrier(world);
  ++*started;
  try {
    for (;;) {
      for (const at::Tensor& tensor : tensors)
        all_reduce(world, tensor);
      all_gather(world, gathered, tensors[1]);
      out.send({.tensors = {tensors[1]}});
      in.receive();
    }
  } catch (const PeerError& error) {
    return error.rank() == victim ? testing::kNoticed : kWrongName;
  }
}

/// What a rank may be killed in.
enum class Phase : int64_t { Init = 1, Split, Renew, Other };

/// Where and when a rank dies: so long after it has come to a phase for the nth time.
struct Death {
  int victim = 0;
  Phase phase = Phase::Init;
  int entry = 0;
  std::chrono::microseconds delay{0};
};

/// The kernel does it: on a busy machine another process would come too late.
void kill_this_process_in(std::chrono::microseconds delay) {
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  const itimerspec when{.it_interval = {}, .it_value = {0, 1 + 1000 * delay.count()}};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      ::timer_settime(timer, 0, &when, nullptr) != 0)
    ADD_FAILURE() << "no timer";
}

/// One rank of a job that goes on until a rank dies.
struct Member {
  std::string job;
  int rank = 0;
  Death death;
  /// By the victim: where it is.
  const testing::SharedNumber& place;
  int entries = 0;

  template <class F>
  Group in(Phase phase, const F& make) {
    if (rank != death.victim)
      return make();
    *place = static_cast<int64_t>(phase);
    if (phase == death.phase && entries++ == death.entry)
      kill_this_process_in(death.delay);
    Group made = make();
    *place = static_cast<int64_t>(Phase::Other);
    return made;
  }
};

// Calls `step` until a rank dies, be it while the ranks come together.
int repeat_until_death(
    Member one, const std::function<void(Group&, Member&, int round)>& step) {
  const auto [rank, victim] = std::pair{one.rank, one.death.victim};
  try {
    Group world =
        one.in(Phase::Init, [&] { return testing::join_job(one.job, rank, kRanks); });
    for (int round = 0;; ++round)
      step(world, one, round);
  } catch (const PeerError& error) {
    if (error.rank() != victim)
      std::cerr << "rank " << rank << ": " << error.what() << std::endl;
    return error.rank() == victim ? testing::kNoticed : kWrongName;
  }
}

void split_and_meet(const Group& world, Member& one, int round) {
  const Group part = one.in(Phase::Split, [&] {
    return world.split((world.rank() + round) % 2, world.rank());
  });
  barrier(part);
}

// Somebody gives up, all renew, and begin anew. Never the victim, whose name would then
// say nothing.
void abort_and_renew(Group& world, Member& one, int round) {
  const int first = (one.death.victim + 1 + round % (kRanks - 1)) % kRanks;
  try {
    if (world.rank() == first)
      world.abort("on purpose");
    barrier(world);
  } catch (const PeerError& error) {
    if (error.rank() == one.death.victim)
      throw;
  }
  world = one.in(Phase::Renew, [&] { return world.renew(); });
  barrier(world);
}

/// When the process has ended.
std::chrono::steady_clock::time_point await_end(pid_t pid) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!process_ended(pid, 0) && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return std::chrono::steady_clock::now();
}

/// One rank of many jobs dies, each at another moment up to `longest` after it has come
/// to the phase, and enough of them in it; looks how the others end. Plays the
/// launcher, too: keeps the roll, and sweeps.
void die_in(
    Phase phase,
    const std::function<void(Group&, Member&, int round)>& step,
    std::chrono::microseconds longest) {
  int inside = 0;
  ::setenv("TRIREME_FLIGHT_DIR", "", 1);
  for (int round = 0; round < kStartRounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(2000 + round));
    const Death death{
        .victim = static_cast<int>(random() % kRanks),
        .phase = phase,
        .entry = phase == Phase::Init ? 0 : static_cast<int>(random() % 10),
        .delay = std::chrono::microseconds(
            random() % static_cast<unsigned>(longest.count()))};
    const std::string job = testing::fresh_job_name();
    const std::string name = segment_name({.master_port = 1, .run_id = job});
    RankRoll roll = RankRoll::create(name, kRanks);
    ::setenv(RankRoll::kVariable, roll.path().c_str(), 1);
    const testing::SharedNumber place;
    testing::Processes processes;
    for (int rank = 0; rank < kRanks; ++rank)
      processes.start([&, rank] {
        return repeat_until_death({job, rank, death, place}, step);
      });
    const auto died = await_end(processes.pid(static_cast<size_t>(death.victim)));
    inside += *place == static_cast<int64_t>(phase);
    roll.set_ended(death.victim);
    const auto endings = processes.wait(std::chrono::seconds(10));
    EXPECT_LT(std::chrono::steady_clock::now() - died, std::chrono::seconds(2));
    SCOPED_TRACE(text("round ", round));
    testing::expect_noticed(endings, death.victim);
    remove_stale_segments();
    EXPECT_FALSE(std::filesystem::exists(text(kSegmentFolder, "/", name)));
  }
  ::unsetenv(RankRoll::kVariable);
  ::unsetenv("TRIREME_FLIGHT_DIR");
  std::cout << inside << " of " << kStartRounds << " died inside\n";
  EXPECT_GE(inside, kLeastInside);
}

TEST(KillProcs, InsideInitIsNoticedByName) {
  die_in(
      Phase::Init,
      [](Group& world, Member&, int) { barrier(world); },
      std::chrono::microseconds(500));
}

TEST(KillProcs, InsideSplitIsNoticedByName) {
  die_in(Phase::Split, split_and_meet, std::chrono::microseconds(50));
}

TEST(KillProcs, InsideRenewIsNoticedByName) {
  die_in(Phase::Renew, abort_and_renew, std::chrono::microseconds(200));
}

// What the dead rank was in the middle of, as its ring in the segment told the
// survivors.
std::string in_flight(const std::filesystem::path& folder, int victim) {
  std::ifstream file(folder / text("rank_", victim, ".json"));
  if (!file)
    return "not started";
  const auto record = nlohmann::json::parse(file);
  if (record["calls"].empty() || record["calls"].back()["state"] != "started")
    return "between calls";
  const auto& last = record["calls"].back();
  return last.value("call", "a " + last["kind"].get<std::string>());
}

TEST(KillProcs, EveryKillIsNoticedByName) {
  const std::filesystem::path root =
      std::filesystem::path(::testing::TempDir()) / testing::fresh_job_name();
  int inside = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937 random(
        static_cast<unsigned>(1000 + round));  // the fixed list of seeds
    const int victim = static_cast<int>(random() % kRanks);
    const auto delay = std::chrono::microseconds(random() % 15000);
    const auto folder = root / std::to_string(round);
    ::setenv("TRIREME_FLIGHT_DIR", folder.c_str(), 1);
    const testing::SharedNumber started;
    testing::Processes processes;
    processes.start_ranks(testing::fresh_job_name(), kRanks, [&](const Group& world) {
      return work_until_death(world, victim, started);
    });
    wait_for(started);
    std::this_thread::sleep_for(delay);
    processes.kill(static_cast<size_t>(victim), SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    const auto endings = processes.wait(std::chrono::seconds(10));
    const auto took = std::chrono::steady_clock::now() - killed;
    const std::string what = in_flight(folder, victim);
    inside += what.starts_with("all_");  // a collective; messages are not counted
    std::cout << "round " << round << ": rank " << victim << " killed in " << what
              << ", noticed after "
              << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
              << " ms\n";
    EXPECT_LT(took, std::chrono::seconds(2));
    SCOPED_TRACE(text("round ", round));
    testing::expect_noticed(endings, victim);
  }
  ::unsetenv("TRIREME_FLIGHT_DIR");
  std::filesystem::remove_all(root);
  EXPECT_GT(inside, kRounds / 2) << "too few kills landed inside a collective";
}

}  // namespace
}  // namespace trireme::comm
