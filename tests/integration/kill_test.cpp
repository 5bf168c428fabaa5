// kill -9 at random moments: the survivors must always learn of it, soon, and by name.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <signal.h>
#include <stdlib.h>
#include <thread>
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

// Calls `step` until a rank dies, be it while the ranks come together.
int repeat_until_death(
    const std::string& job,
    int rank,
    int victim,
    const testing::SharedNumber& started,
    const std::function<void(Group&, int round)>& step) {
  try {
    ++*started;
    Group world = testing::join_job(job, rank, kRanks);
    for (int round = 0;; ++round)
      step(world, round);
  } catch (const PeerError& error) {
    if (error.rank() != victim)
      std::cerr << "rank " << rank << ": " << error.what() << std::endl;
    return error.rank() == victim ? testing::kNoticed : kWrongName;
  }
}

void split_and_meet(const Group& world, int round) {
  const Group part = world.split((world.rank() + round) % 2, world.rank());
  barrier(part);
}

// Somebody gives up, all renew, and begin anew. Never the victim, whose name would then
// say nothing.
void abort_and_renew(Group& world, int victim, int round) {
  const int first = (victim + 1 + round % (kRanks - 1)) % kRanks;
  try {
    if (world.rank() == first)
      world.abort("on purpose");
    barrier(world);
  } catch (const PeerError& error) {
    if (error.rank() == victim)
      throw;
  }
  world = world.renew();
  barrier(world);
}

/// Kills one rank of many jobs, each at another moment, and looks how the others end.
/// Plays the launcher, too: keeps the roll, and sweeps.
void kill_in(
    const std::function<void(Group&, int victim, int round)>& step,
    std::chrono::microseconds longest) {
  ::setenv("TRIREME_FLIGHT_DIR", "", 1);
  for (int round = 0; round < kStartRounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(2000 + round));
    const int victim = static_cast<int>(random() % kRanks);
    const auto delay =
        std::chrono::microseconds(random() % static_cast<unsigned>(longest.count()));
    const std::string job = testing::fresh_job_name();
    const std::string name = segment_name({.master_port = 1, .run_id = job});
    RankRoll roll = RankRoll::create(name, kRanks);
    ::setenv(RankRoll::kVariable, roll.path().c_str(), 1);
    const testing::SharedNumber started;
    testing::Processes processes;
    for (int rank = 0; rank < kRanks; ++rank)
      processes.start([&, rank] {
        return repeat_until_death(
            job, rank, victim, started, [&](Group& world, int count) {
              step(world, victim, count);
            });
      });
    wait_for(started);
    std::this_thread::sleep_for(delay);
    processes.kill(static_cast<size_t>(victim), SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    while (!process_ended(processes.pid(static_cast<size_t>(victim)), 0))
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    roll.set_ended(victim);
    const auto endings = processes.wait(std::chrono::seconds(10));
    EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(2));
    SCOPED_TRACE(text("round ", round));
    testing::expect_noticed(endings, victim);
    remove_stale_segments();
    EXPECT_FALSE(std::filesystem::exists(text(kSegmentFolder, "/", name)));
  }
  ::unsetenv(RankRoll::kVariable);
  ::unsetenv("TRIREME_FLIGHT_DIR");
}

TEST(KillProcs, InsideInitIsNoticedByName) {
  kill_in([](Group& world, int, int) { barrier(world); }, std::chrono::milliseconds(2));
}

TEST(KillProcs, InsideSplitIsNoticedByName) {
  kill_in(
      [](Group& world, int, int round) { split_and_meet(world, round); },
      std::chrono::milliseconds(10));
}

TEST(KillProcs, InsideRenewIsNoticedByName) {
  kill_in(abort_and_renew, std::chrono::milliseconds(10));
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
