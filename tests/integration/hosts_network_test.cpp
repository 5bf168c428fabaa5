// Jobs on several hosts whose network is slow, loses packets, is cut, or is set up
// wrong.
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/mount.h>

#include "hosts_network_case.h"
#include "trireme/net/job_key.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using HostsNetworkProcs = HostsNetworkCase;

TEST_F(HostsNetworkProcs, TwoHostsHaveTheBitsOfOneProcess) {
  const Hosts hosts;
  expect_right(HostJob(hosts, {1, 1}));
  expect_right(HostJob(hosts, {2, 2}));
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

TEST_F(HostsNetworkProcs, ACutThatHealsInTimeChangesNoBit) {
  Hosts hosts({.hosts = 2, .relayed = true});
  expect_healed(hosts, {2, 2}, 1);
}

TEST_F(HostsNetworkProcs, ACutThatStaysIsToldOnBothSides) {
  for (const bool whole_device : {false, true}) {
    Hosts hosts;
    expect_heard(endings_after(hosts, {2, 2}, 1, [&](Processes&) {
      whole_device ? hosts.set_device(1, false) : hosts.set_connected(1, false);
    }));
  }
}

TEST_F(HostsNetworkProcs, AHostThatVanishesIsNamed) {
  for (const int vanishing : {1, 0}) {
    SCOPED_TRACE(text("host ", vanishing, " gone"));
    Hosts hosts;
    expect_vanished(hosts, {2, 2}, vanishing);
  }
}

TEST_F(HostsNetworkProcs, HostsMayTakePacketsOfDifferentLengths) {
  for (const int other : {1500, 1280}) {
    const Hosts hosts({.hosts = 2, .mtu = {9000, other}});
    expect_right(HostJob(hosts, {2, 2}));
  }
}

// Of four ranks one a host talks to the other: the tensor crosses once each way, where
// a ring of all of them brings half as much again.
TEST_F(HostsNetworkProcs, ALimitedLinkIsCrossedOnce) {
  constexpr int kMegabits = 100;
  const Hosts hosts({.hosts = 2, .megabits = kMegabits});
  const HostJob job(hosts, {2, 2});
  expect_right(job);
  constexpr int64_t kNumbers = 1'000'000;
  const std::chrono::duration<double> once(32.0 * kNumbers / (1e6 * kMegabits));
  HostJob(hosts, {2, 2}).run([&](const Group& world) {
    std::chrono::duration<double> best = 1h;
    for (int i = 0; i < 4; ++i) {
      at::Tensor tensor = at::ones({kNumbers});
      barrier(world);
      const auto start = Clock::now();
      all_reduce(world, tensor);
      best = std::min<std::chrono::duration<double>>(best, Clock::now() - start);
    }
    EXPECT_GT(best, 0.9 * once) << "the link was not limited";
    EXPECT_LT(best, 1.4 * once);
  });
}

// Greetings are short and pass, what is long never does: no connection stays silent for
// ever, and the error says what to look at.
TEST_F(HostsNetworkProcs, ANetworkThatSwallowsLongPacketsIsAClearError) {
  Hosts hosts({.hosts = 2, .relayed = true});
  hosts.relay().set_longest(1280);
  const HostJob job(hosts, {2, 2}, {.variables = heartbeat()});
  Processes processes;
  const SharedNumber told;
  const LastHeard heard;
  const auto start = Clock::now();
  job.start(processes, [&](int rank) {
    return heard_in(
        rank,
        [](const PeerError&) { return true; },
        "",
        [&] {
          const Group world = init();
          at::Tensor large = at::ones({1'000'000});
          try {
            heard.in([&] { all_reduce(world, large); });
          } catch (const PeerError& error) {
            if (std::string(error.what()).find("(MTU)") != std::string::npos)
              ++*told;
            throw;
          }
        });
  });
  expect_heard(processes.wait(40s));
  EXPECT_LT(heard.since(start), 2 * kHeartbeat + 2s) << "from the start of the job";
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
