#include "trireme/comm/wire/hosts.h"

#include <exception>

#include "trireme/comm/shm/shm_world.h"
#include "trireme/comm/wire/hosts_engine.h"
#include "trireme/comm/wire/rank_seats.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::comm {
namespace {

// While the ranks of a host come together, one of them may have heard that another host
// is in trouble, and will not come.
HostJoin hear_of_hosts(
    const std::shared_ptr<WireEngine>& flat, std::vector<RankCores> neighbours) {
  return {
      .check = [flat] { flat->check(); },
      .made =
          [flat](const std::shared_ptr<World>& inner) {
            stop_with(flat->wire().world(), inner);
          },
      .neighbours = std::move(neighbours)};
}

}  // namespace

std::shared_ptr<Engine> join_hosts(
    const BackendContext& context, std::shared_ptr<WireEngine> flat) {
  const LaunchEnv& env = context.env;
  const auto seats = share_seats(
      *flat,
      {.place = env.local_rank,
       .ranks = env.local_world_size,
       .kernel = kernel_number(),
       .cores = RankCores::of_this_thread()},
      context.deadline);
  std::vector<int> host_of;
  std::exception_ptr refused;
  try {
    host_of = find_hosts(seats);
  } catch (...) {
    refused = std::current_exception();
  }
  if (refused) {
    flat.reset();  // not while the exception passes: no rank has failed
    std::rethrow_exception(refused);
  }
  flat->wire().world().set_spin(wait_policy(company_of(seats, flat->rank())).spin);
  const auto layout = lay_out_hosts(host_of, flat->rank());
  if (layout && layout->most_ranks() == 1)
    return flat;
  std::shared_ptr<SharedEngine> inner;
  try {
    inner = start_shm_host(
        context, hear_of_hosts(flat, neighbours_of(seats, flat->rank())));
  } catch (const PeerError& error) {
    // The other hosts are told who it was, not that this rank leaves because of it.
    flat->stop({.origin = error.rank(), .why = error.what()});
    throw;
  }
  return HostsEngine::root(std::move(inner), std::move(flat), std::move(host_of));
}

}  // namespace trireme::comm
