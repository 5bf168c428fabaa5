// Jobs at work on hosts whose network gets into trouble.
#pragma once
#include <map>
#include <numeric>
#include <signal.h>

#include "hosts_case.h"
#include "trireme/core/log.h"

namespace trireme::comm {

using testing::Processes;
using testing::SharedNumber;

class HostsNetworkCase : public HostsCase {
 protected:
  // Silence is noticed sooner than by default, so that tests take less.
  static constexpr std::chrono::seconds kHeartbeat{1};
  using Variables = std::map<std::string, std::string>;
  static Variables heartbeat(std::chrono::seconds time = kHeartbeat) {
    return {{"TRIREME_HEARTBEAT", std::to_string(time.count())}};
  }

  /// Every rank of the job gets what threads of one process get, bit for bit.
  static void expect_right(const HostJob& job) {
    constexpr int kRounds = 2;
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

  /// Hosts at work until `trouble` takes one of them from the others; gives how their
  /// ranks end, which must be soon. Its own ranks lose the others, and the others lose
  /// it.
  template <class Trouble>
  static std::vector<testing::Ending> endings_after(
      const Hosts& hosts,
      const std::vector<int>& ranks,
      int lost_host,
      const Trouble& trouble) {
    const HostJob job(hosts, ranks, {.variables = heartbeat()});
    const SharedNumber rounds;
    const LastHeard heard;
    Processes processes;
    job.start(processes, [&](int rank) {
      const bool is_lost = job.host_of(rank) == lost_host;
      const auto expected = [&](const PeerError& error) {
        return (job.host_of(error.rank()) == lost_host) != is_lost;
      };
      return heard_in(rank, expected, "", [&] {
        const Group world = init();
        heard.in([&] {
          for (int64_t round = 0;; ++round, ++*rounds)
            mixed_work(world, round);
        });
      });
    });
    await_number(rounds, 2 * job.ranks());
    const auto start = Clock::now();
    trouble(processes);
    auto endings = processes.wait(20s);
    EXPECT_LT(heard.since(start), kHeartbeat + 1s);
    return endings;
  }
  static void expect_heard(const std::vector<testing::Ending>& endings) {
    for (size_t rank = 0; rank < endings.size(); ++rank)
      EXPECT_EQ(endings[rank].exit_code, kNamed) << "rank " << rank;
  }

  /// The power of a host fails, so no goodbye comes through: the others name it.
  static void expect_vanished(Hosts& hosts, const std::vector<int>& ranks, int host) {
    const auto first =
        static_cast<size_t>(std::accumulate(ranks.begin(), ranks.begin() + host, 0));
    const size_t end = first + static_cast<size_t>(ranks[static_cast<size_t>(host)]);
    const auto endings = endings_after(hosts, ranks, host, [&](Processes& processes) {
      hosts.set_connected(host, false);
      for (size_t rank = first; rank < end; ++rank)
        processes.kill(rank, SIGKILL);
    });
    for (size_t rank = 0; rank < endings.size(); ++rank)
      EXPECT_EQ(endings[rank].exit_code, rank >= first && rank < end ? -1 : kNamed)
          << "rank " << rank;
  }

  /// A host is cut off twice while all work, and nobody gets a wrong bit. The kernel
  /// mends the short cut. The second lasts until connections are given up as silent, so
  /// that their sessions go on over new ones.
  static void expect_healed(Hosts& hosts, const std::vector<int>& ranks, int host) {
    constexpr int kMany = 10;
    // Half of it is silence, noticed a quarter later at most; what is left must do for
    // the new connections.
    constexpr auto kLong = 6s;
    hosts.relay().set_delay(2ms);
    const HostJob job(hosts, ranks, {.variables = heartbeat(kLong)});
    const auto answers = right_answers(job.ranks(), kMany);
    const SharedNumber rounds, silences;
    Processes processes;
    job.start(processes, [&](int rank) {
      set_log_levels({.general = LogLevel::Info});
      const LogSinkScope sink = set_log_sink([&](std::string_view line) {
        *silences += line.find("nothing was heard of rank-") != line.npos;
      });
      const Group world = init();
      for (int round = 0; round < kMany; ++round, ++*rounds)
        EXPECT_EQ(
            mixed_work(world, round),
            answers[static_cast<size_t>(rank)][static_cast<size_t>(round)])
            << "round " << round << " of rank " << rank;
      return 0;
    });
    const auto cut = [&](const auto& pass_time) {
      await_number(rounds, *rounds + 2 * job.ranks());
      EXPECT_EQ(*silences, 0);
      hosts.set_connected(host, false);
      pass_time();
      EXPECT_LT(*rounds, kMany * job.ranks()) << "nobody was there to see it";
      hosts.set_connected(host, true);
    };
    cut([] { std::this_thread::sleep_for(200ms); });
    cut([&] { await_number(silences, 2); });  // both ends
    testing::expect_good_ends(processes.wait(60s));
  }
};

}  // namespace trireme::comm
