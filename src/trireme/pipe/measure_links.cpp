#include "trireme/pipe/measure_links.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include <ATen/Functions.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/clock_offset.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/gather_rows.h"
#include "trireme/core/clock.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using sched::index;

// The fastest of them counts: what it takes when nothing else happens.
constexpr int kSmallTrips = 8;
constexpr int kLargeTrips = 4;

/// Two hosts by their numbers, or one twice, and the ranks that try the way.
struct Way {
  std::pair<size_t, size_t> hosts;
  int asks = 0;
  int answers = 0;
};

/// The ranks of each host, in the order in which hosts appear.
std::vector<std::vector<int>> ranks_of_hosts(const std::vector<comm::RankHost>& hosts) {
  std::map<std::pair<int64_t, int64_t>, size_t> numbers;
  std::vector<std::vector<int>> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::pair key{hosts[rank].kernel, hosts[rank].first_rank};
    const auto [found, fresh] = numbers.emplace(key, ranks.size());
    if (fresh)
      ranks.emplace_back();
    ranks[found->second].push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<Way> list_ways(const std::vector<std::vector<int>>& ranks) {
  std::vector<Way> ways;
  for (size_t a = 0; a < ranks.size(); ++a) {
    if (ranks[a].size() > 1)
      ways.push_back({{a, a}, ranks[a][0], ranks[a][1]});
    for (size_t b = a + 1; b < ranks.size(); ++b)
      ways.push_back({{a, b}, ranks[a][0], ranks[b][0]});
  }
  return ways;
}

/// Both ends of a way, on the tag of the clock's channels, which are closed by now.
struct Ends {
  Ends(const comm::Group& group, int other)
      : out(group, {.from = group.rank(), .to = other, .tag = comm::kClockTag}),
        in(group, {.from = other, .to = group.rank(), .tag = comm::kClockTag}) {}
  comm::Channel out;
  comm::Channel in;
};

/// The fastest trip there and back of a few, after one that warms up.
int64_t fastest_trip(const Ends& ends, const at::Tensor& load, int trips) {
  int64_t fastest = std::numeric_limits<int64_t>::max();
  for (int trip = 0; trip <= trips; ++trip) {
    const int64_t start = now_ns();
    ends.out.send({.tensors = {load}});
    ends.in.receive();
    if (trip > 0)
      fastest = std::min(fastest, now_ns() - start);
  }
  return fastest;
}

void send_back(const Ends& ends, const at::Tensor& load, int trips) {
  for (int trip = 0; trip <= trips; ++trip) {
    ends.in.receive();
    ends.out.send({.tensors = {load}});
  }
}

at::Tensor load_of(int64_t bytes) {
  return at::zeros({std::max<int64_t>(1, bytes)}, at::kByte);
}

/// Nanoseconds of a small message one way, and those that a large one takes more.
std::array<int64_t, 2> ask(const Ends& ends, int64_t message_bytes) {
  const int64_t small = fastest_trip(ends, load_of(1), kSmallTrips) / 2;
  const int64_t large = fastest_trip(ends, load_of(message_bytes), kLargeTrips) / 2;
  return {small, std::max<int64_t>(0, large - small)};
}

sched::Link link_of(const int64_t* measured, int64_t message_bytes) {
  sched::Link link{.latency = static_cast<double>(measured[0]) * 1e-9};
  if (measured[1] > 0)
    link.bandwidth =
        static_cast<double>(message_bytes) * 1e9 / static_cast<double>(measured[1]);
  return link;
}

}  // namespace

std::vector<sched::Link> measure_links(
    const comm::Group& group,
    const std::vector<comm::RankHost>& hosts,
    int64_t message_bytes) {
  const auto ranks = ranks_of_hosts(hosts);
  const std::vector<Way> ways = list_ways(ranks);
  // All ranks go through the ways in one order, so nobody waits in a circle.
  std::vector<int64_t> mine;
  for (const Way& way : ways) {
    if (way.asks == group.rank()) {
      const auto measured = ask(Ends(group, way.answers), message_bytes);
      mine.insert(mine.end(), measured.begin(), measured.end());
    } else if (way.answers == group.rank()) {
      const Ends ends(group, way.asks);
      send_back(ends, load_of(1), kSmallTrips);
      send_back(ends, load_of(message_bytes), kLargeTrips);
    }
  }
  const auto rows = comm::gather_rows(group, mine);
  std::vector<size_t> read(rows.size(), 0);
  std::vector<sched::Link> links;
  for (const Way& way : ways) {
    size_t& at = read[index(way.asks)];
    sched::Link link = link_of(rows[index(way.asks)].data() + at, message_bytes);
    at += 2;
    const auto& [a, b] = way.hosts;
    for (const int from : ranks[a])
      for (const int to : ranks[b]) {
        if (from == to)
          continue;
        link.from = from;
        link.to = to;
        links.push_back(link);
        if (a != b) {
          std::swap(link.from, link.to);
          links.push_back(link);
        }
      }
  }
  // The channels are closed on both ends before anybody opens them again.
  comm::barrier(group);
  return links;
}

}  // namespace trireme::pipe
