// How long messages take between the hosts of a group.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/comm/rank_hosts.h"
#include "trireme/sched/costs.h"

namespace trireme::pipe {

/// Sends messages back and forth, small ones and some of `message_bytes`, between one
/// rank of each host and one of every other, and between two ranks of each host. Gives
/// all pairs of ranks, both ways, what their hosts have: seconds of latency and bytes a
/// second. Collective; the same on all ranks.
///
///     const auto hosts = comm::gather_hosts(group, comm::own_host());
///     costs.links = measure_links(group, hosts, 1 << 20);
std::vector<sched::Link> measure_links(
    const comm::Group& group,
    const std::vector<comm::RankHost>& hosts,
    int64_t message_bytes);

}  // namespace trireme::pipe
