// Jobs on several hosts whose network is slow, loses packets, is cut, or is set up
// wrong.
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include "hosts_case.h"
#include "trireme/net/job_key.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::Processes;
using testing::SharedNumber;

constexpr int kRounds = 3;
// Silence is noticed sooner than by default, so that tests take less.
constexpr const char* kHeartbeat = "2";

class HostsNetworkProcs : public HostsCase {
 protected:
  /// Every rank of the job gets what threads of one process get, bit for bit.
  static void expect_right(const HostJob& job) {
    const auto answers = right_answers(job.ranks(), kRounds);
    job.run([&](const Group& world) {
      EXPECT_EQ(world.backend(), "tcp");
      for (int round = 0; round < kRounds; ++round)
        EXPECT_EQ(
            mixed_work(world, round),
            answers[static_cast<size_t>(world.rank())][static_cast<size_t>(round)])
            << "round " << round << " of rank " << world.rank();
    });
  }

  /// Works until it hears of a failure; `rounds` counts what all ranks have done.
  static int work_until_trouble(
      const HostJob& job, int rank, const SharedNumber& rounds) {
    const int host = job.host_of(rank);
    return heard_in(
        rank,
        [&](int lost) { return job.host_of(lost) != host; },
        "",
        [&] {
          const Group world = init();
          for (int64_t round = 0;; ++round) {
            mixed_work(world, round);
            ++*rounds;
          }
        });
  }

  static void expect_heard(const std::vector<testing::Ending>& endings) {
    for (size_t rank = 0; rank < endings.size(); ++rank)
      EXPECT_EQ(endings[rank].exit_code, kNamed) << "rank " << rank;
  }
};

TEST_F(HostsNetworkProcs, TwoAndFourHostsHaveTheBitsOfOneProcess) {
  const Hosts hosts({.hosts = 4});
  expect_right(HostJob(hosts, {1, 1}));
  expect_right(HostJob(hosts, {2, 2}));
  expect_right(HostJob(hosts, {1, 1, 1, 1}));
  expect_right(HostJob(hosts, {2, 1, 1, 2}));
}

TEST_F(HostsNetworkProcs, LatencyAndLossChangeNoBit) {
  Hosts hosts({.hosts = 2, .relayed = true});
  hosts.relay().set_delay(10ms);
  expect_right(HostJob(hosts, {2, 2}));
  EXPECT_EQ(hosts.relay().lost(), 0);
  hosts.relay().set_loss(100);  // 1 %
  expect_right(HostJob(hosts, {2, 2}));
  EXPECT_GT(hosts.relay().lost(), 10);
}

// A short cut is mended by the kernel, a longer one by a new connection that goes on
// with the session.
TEST_F(HostsNetworkProcs, ACutThatHealsInTimeChangesNoBit) {
  constexpr int kMany = 60;
  Hosts hosts({.hosts = 2, .relayed = true});
  hosts.relay().set_delay(5ms);
  const HostJob job(hosts, {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", "8"}}});
  const auto answers = right_answers(4, kMany);
  const SharedNumber rounds;
  Processes processes;
  job.start(processes, [&](int rank) {
    const Group world = init();
    for (int round = 0; round < kMany; ++round, ++*rounds)
      EXPECT_EQ(
          mixed_work(world, round),
          answers[static_cast<size_t>(rank)][static_cast<size_t>(round)])
          << "round " << round << " of rank " << rank;
    return 0;
  });
  for (const auto cut : {500ms, 4500ms}) {
    await_number(rounds, *rounds + 8);
    hosts.set_connected(1, false);
    std::this_thread::sleep_for(cut);
    EXPECT_LT(*rounds, 4 * kMany) << "nobody was there to see it";
    hosts.set_connected(1, true);
  }
  testing::expect_good_ends(processes.wait(60s));
}

TEST_F(HostsNetworkProcs, ACutThatStaysIsToldOnBothSides) {
  const std::vector<std::function<void(Hosts&)>> cuts = {
      [](Hosts& hosts) { hosts.set_connected(1, false); },
      [](Hosts& hosts) { hosts.set_device(1, false); }};
  for (const auto& cut : cuts) {
    Hosts hosts;
    const HostJob job(
        hosts, {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", kHeartbeat}}});
    const SharedNumber rounds;
    Processes processes;
    job.start(
        processes, [&](int rank) { return work_until_trouble(job, rank, rounds); });
    await_number(rounds, 8);
    cut(hosts);
    const auto start = Clock::now();
    expect_heard(processes.wait(20s));
    EXPECT_LT(Clock::now() - start, 6s);
  }
}

TEST_F(HostsNetworkProcs, AHostThatVanishesIsNamed) {
  for (const int vanishing : {1, 0}) {
    Hosts hosts;
    const HostJob job(
        hosts, {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", kHeartbeat}}});
    const SharedNumber rounds;
    Processes processes;
    job.start(
        processes, [&](int rank) { return work_until_trouble(job, rank, rounds); });
    await_number(rounds, 8);
    hosts.set_connected(vanishing, false);  // the power fails: no goodbye comes through
    for (int rank = 0; rank < 4; ++rank)
      if (job.host_of(rank) == vanishing)
        processes.kill(static_cast<size_t>(rank), SIGKILL);
    const auto start = Clock::now();
    const auto endings = processes.wait(20s);
    EXPECT_LT(Clock::now() - start, 6s);
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(
          endings[static_cast<size_t>(rank)].exit_code,
          job.host_of(rank) == vanishing ? -1 : kNamed)
          << "rank " << rank << ", host " << vanishing << " gone";
  }
}

TEST_F(HostsNetworkProcs, HostsMayTakePacketsOfDifferentLengths) {
  for (const int other : {1500, 1280}) {
    const Hosts hosts({.hosts = 2, .mtu = {9000, other}});
    expect_right(HostJob(hosts, {2, 2}));
  }
}

// Greetings are short and pass, what is long never does: no connection stays silent for
// ever, and the error says what to look at.
TEST_F(HostsNetworkProcs, ANetworkThatSwallowsLongPacketsIsAClearError) {
  Hosts hosts({.hosts = 2, .relayed = true});
  hosts.relay().set_longest(1280);
  const HostJob job(hosts, {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", kHeartbeat}}});
  Processes processes;
  const SharedNumber told;
  job.start(processes, [&](int rank) {
    return heard_in(
        rank,
        [](int) { return true; },
        "",
        [&] {
          const Group world = init();
          at::Tensor large = at::ones({1'000'000});
          try {
            all_reduce(world, large);
          } catch (const PeerError& error) {
            if (std::string(error.what()).find("(MTU)") != std::string::npos)
              ++*told;
            throw;
          }
        });
  });
  const auto start = Clock::now();
  expect_heard(processes.wait(40s));
  EXPECT_LT(Clock::now() - start, 20s);
  EXPECT_GE(*told, 1) << "the side that hears nothing knows why";
}

TEST_F(HostsNetworkProcs, AWrongKeyOnOneHostIsRefused) {
  const Hosts hosts;
  const HostJob job(hosts, {2, 2}, {.timeout = 4s});
  std::filesystem::remove(job.key_file(1));
  net::JobKey::random().write(job.key_file(1));
  Processes processes;
  job.start(processes, [&](int rank) {
    const auto start = Clock::now();
    try {
      init();
    } catch (const TimeoutError& error) {
      return testing::contains(error.what(), "without ranks 2, 3") && rank < 2 ? 0 : 1;
    } catch (const Error& error) {
      EXPECT_LT(Clock::now() - start, 3s) << "it is told at once";
      EXPECT_TRUE(testing::contains(error.what(), "key")) << error.what();
      return rank < 2 ? 1 : 0;
    }
    return 1;
  });
  testing::expect_good_ends(processes.wait(20s));
}

// As /etc/hosts of Debian and others has it: a host's name is 127.0.1.1 there, and its
// real address everywhere else.
TEST_F(HostsNetworkProcs, TheFirstHostMayKnowItselfByALoopbackAddress) {
  const Hosts hosts;
  const HostJob job(hosts, {2, 2}, {.variables = {{"MASTER_ADDR", "ship-one"}}});
  const testing::ScratchFolder folder;
  folder.write("hosts0", "127.0.0.1 localhost\n127.0.1.1 ship-one\n");
  folder.write("hosts1", "127.0.0.1 localhost\n" + Hosts::address(0) + " ship-one\n");
  Processes processes;
  job.start(processes, [&](int rank) {
    const std::string names =
        (folder.path() / text("hosts", job.host_of(rank))).string();
    TRIREME_ASSERT(::unshare(CLONE_NEWNS) == 0);
    TRIREME_ASSERT(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    TRIREME_ASSERT(
        ::mount(names.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0);
    const Group world = init();
    mixed_work(world, 1);
    return 0;
  });
  testing::expect_good_ends(processes.wait(20s));
}

}  // namespace
}  // namespace trireme::comm
