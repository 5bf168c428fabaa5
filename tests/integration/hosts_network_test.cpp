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

constexpr int kRounds = 2;
// Silence is noticed sooner than by default, so that tests take less.
constexpr const char* kHeartbeat = "1";

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

  /// Two hosts at work until `trouble` comes; gives how their ranks end, which must be
  /// soon.
  template <class Trouble>
  static std::vector<testing::Ending> endings_after(
      const Hosts& hosts, const Trouble& trouble) {
    const HostJob job(
        hosts, {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", kHeartbeat}}});
    const SharedNumber rounds;
    Processes processes;
    job.start(processes, [&](int rank) {
      const int host = job.host_of(rank);
      const auto elsewhere = [&](int lost) { return job.host_of(lost) != host; };
      return heard_in(rank, elsewhere, "", [&] {
        const Group world = init();
        for (int64_t round = 0;; ++round, ++*rounds)
          mixed_work(world, round);
      });
    });
    await_number(rounds, 8);
    trouble(processes);
    const auto start = Clock::now();
    auto endings = processes.wait(20s);
    EXPECT_LT(Clock::now() - start, 5s);
    return endings;
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
  hosts.relay().set_delay(2ms);  // what is lost is sent again after a few of these
  hosts.relay().set_loss(100);   // 1 %
  expect_right(HostJob(hosts, {2, 2}));
  EXPECT_GT(hosts.relay().lost(), 10);
}

// A short cut is mended by the kernel, a longer one by a new connection that goes on
// with the session.
TEST_F(HostsNetworkProcs, ACutThatHealsInTimeChangesNoBit) {
  constexpr int kMany = 16;
  Hosts hosts({.hosts = 2, .relayed = true});
  hosts.relay().set_delay(5ms);
  const HostJob job(hosts, {2, 2}, {.variables = {{"TRIREME_HEARTBEAT", "3"}}});
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
  for (const auto cut : {200ms, 1800ms}) {
    await_number(rounds, *rounds + 8);  // of four ranks
    hosts.set_connected(1, false);
    std::this_thread::sleep_for(cut);
    EXPECT_LT(*rounds, 4 * kMany) << "nobody was there to see it";
    hosts.set_connected(1, true);
  }
  testing::expect_good_ends(processes.wait(60s));
}

TEST_F(HostsNetworkProcs, ACutThatStaysIsToldOnBothSides) {
  for (const bool whole_device : {false, true}) {
    Hosts hosts;
    expect_heard(endings_after(hosts, [&](Processes&) {
      whole_device ? hosts.set_device(1, false) : hosts.set_connected(1, false);
    }));
  }
}

TEST_F(HostsNetworkProcs, AHostThatVanishesIsNamed) {
  for (const int vanishing : {1, 0}) {
    SCOPED_TRACE(text("host ", vanishing, " gone"));
    Hosts hosts;
    const size_t first = vanishing == 0 ? 0 : 2;
    const auto endings = endings_after(hosts, [&](Processes& processes) {
      // The power fails: no goodbye comes through.
      hosts.set_connected(vanishing, false);
      processes.kill(first, SIGKILL);
      processes.kill(first + 1, SIGKILL);
    });
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(
          endings[rank].exit_code, rank == first || rank == first + 1 ? -1 : kNamed)
          << "rank " << rank;
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
  const HostJob job(hosts, {2, 2}, {.timeout = 3s});
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
      EXPECT_LT(Clock::now() - start, 2s) << "it is told at once";
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
