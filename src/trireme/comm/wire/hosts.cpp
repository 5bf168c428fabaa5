#include "trireme/comm/wire/hosts.h"

#include <exception>

#include "trireme/comm/share_rows.h"
#include "trireme/comm/shm/shm_world.h"
#include "trireme/comm/wire/hosts_engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// Everybody's place on its host, and how many are there: (0, 2), (1, 2), (0, 2), (1, 2)
// are two hosts. Gives the first rank of each rank's host.
std::vector<int> find_hosts(const std::vector<int64_t>& rows, int ranks) {
  std::vector<int> host_of;
  int first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t* row = rows.data() + 2 * static_cast<size_t>(rank);
    const int64_t here = rows[2 * static_cast<size_t>(first) + 1];
    if (rank - first >= here)
      first = rank;
    const int64_t expected = rows[2 * static_cast<size_t>(first) + 1];
    if (row[0] != rank - first || row[1] != expected || first + expected > ranks)
      throw InvalidArgument(text(
          "[comm] expected the ranks of each host to follow one another, so rank ",
          rank,
          " as number ",
          rank - first,
          " of ",
          expected,
          " on its host, got number ",
          row[0],
          " of ",
          row[1],
          "; let the launcher fill one host after the other (mpirun --map-by slot, "
          "srun "
          "--distribution=block)"));
    host_of.push_back(first);
  }
  return host_of;
}

// While the ranks of a host come together, one of them may have heard that another host
// is in trouble, and will not come.
HostJoin hear_of_hosts(const std::shared_ptr<WireEngine>& flat) {
  return {
      .check = [flat] { flat->check(); },
      .made =
          [flat](const std::shared_ptr<World>& inner) {
            stop_with(flat->wire().world(), inner);
          }};
}

}  // namespace

std::shared_ptr<Engine> join_hosts(
    const BackendContext& context, std::shared_ptr<WireEngine> flat) {
  const LaunchEnv& env = context.env;
  const auto rows = share_rows(
      *flat,
      CollectiveKind::AllGather,
      {env.local_rank, env.local_world_size},
      context.deadline);
  std::vector<int> host_of;
  std::exception_ptr refused;
  try {
    host_of = find_hosts(rows, flat->size());
  } catch (...) {
    refused = std::current_exception();
  }
  if (refused) {
    flat.reset();  // not while the exception passes: no rank has failed
    std::rethrow_exception(refused);
  }
  const auto layout = lay_out_hosts(host_of, flat->rank());
  if (layout && layout->most_ranks() == 1)
    return flat;
  std::shared_ptr<SharedEngine> inner;
  try {
    inner = start_shm_host(context, hear_of_hosts(flat));
  } catch (const PeerError& error) {
    // The other hosts are told who it was, not that this rank leaves because of it.
    flat->stop({.origin = error.rank(), .why = error.what()});
    throw;
  }
  return HostsEngine::root(std::move(inner), std::move(flat), std::move(host_of));
}

}  // namespace trireme::comm
