#include "trireme/comm/wire/hosts_engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "trireme/comm/split_wish.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// The hosts of some ranks of the world.
std::vector<int> hosts_of(const std::vector<int>& hosts, std::span<const int> members) {
  std::vector<int> out;
  for (const int member : members)
    out.push_back(hosts[static_cast<size_t>(member)]);
  return out;
}

[[noreturn]] void refuse_mixed(const std::vector<int>& host_of) {
  size_t k = 1;
  while (lay_out_hosts(std::span(host_of).first(k + 1), 0))
    ++k;
  throw InvalidArgument(text(
      "[comm] expected the ranks of each host to follow one another, but rank ",
      k,
      " is on the same host as an earlier rank, with others in between; let the "
      "launcher fill one host after the other (mpirun --map-by slot, srun "
      "--distribution=block)"));
}

// Some ranks have stayed away, because their host could not make its part of a group.
[[noreturn]] void refuse_without(
    const std::vector<int>& wanted, const std::vector<int>& there) {
  std::vector<int> missing;
  for (const int member : wanted)
    if (std::find(there.begin(), there.end(), member) == there.end())
      missing.push_back(member);
  throw InvalidArgument(text(
      "[comm] expected shared memory on every host for the group that split() makes "
      "of ",
      rank_list(wanted),
      ", but there is none for ",
      rank_list(missing),
      "; see what they say of it"));
}

}  // namespace

void stop_with(WireWorld& wire, const std::weak_ptr<World>& inner) {
  wire.on_failure([inner](const Failure& failure) {
    if (const auto world = inner.lock())
      world->stop(failure);
  });
}

HostsEngine::HostsEngine(
    std::shared_ptr<SharedEngine> inner,
    std::shared_ptr<WireEngine> flat,
    HostLayout layout,
    Hosts hosts)
    : flat_(std::move(flat)),
      group_(std::move(inner), flat_->share_wire(), std::move(layout)),
      hosts_(std::move(hosts)) {}

std::shared_ptr<HostsEngine> HostsEngine::root(
    std::shared_ptr<SharedEngine> inner,
    std::shared_ptr<WireEngine> flat,
    std::vector<int> host_of) {
  auto layout = lay_out_hosts(host_of, flat->rank());
  if (!layout)
    refuse_mixed(host_of);
  TRIREME_ASSERT(inner->size() == layout->ranks_of(layout->mine));
  std::shared_ptr<HostsEngine> engine(new HostsEngine(
      std::move(inner),
      std::move(flat),
      std::move(*layout),
      std::make_shared<const std::vector<int>>(std::move(host_of))));
  engine->join_failures();
  engine->group_.all.world().share_bell(engine->group_.inner->share_world());
  return engine;
}

// Each of the two worlds passes its failures on to the other. Neither keeps the other
// alive: groups of both may outlive this engine.
void HostsEngine::join_failures() const {
  const std::weak_ptr<WireWorld> wire = flat_->wire().share_world();
  stop_with(group_.all.world(), group_.inner->share_world());
  group_.inner->world().on_stop([wire](const Failure& failure) {
    // A world that goes with an exception has its own way to say so.
    if (std::uncaught_exceptions() > 0)
      return;
    if (const auto world = wire.lock())
      world->stop(failure);
  });
}

void HostsEngine::run(const Collective& call, const Deadline& deadline) {
  auto record = group_.all.world().recorder().begin(
      {.what = signature(call), .group = flat_->wire().id(), .sequence = ++calls_});
  HostsCall hosts_call(group_, call, deadline);
  switch (call.kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce:
    case CollectiveKind::ReduceScatter:
      reduce_over_hosts(hosts_call);
      break;
    default:
      move_over_hosts(hosts_call);
  }
  record.done();
}

std::shared_ptr<Engine> HostsEngine::split(
    int color, int key, const Deadline& deadline) {
  const SplitWish wish = share_wishes(*this, color, key, deadline);
  std::shared_ptr<Engine> inner;
  std::exception_ptr no_memory;
  try {
    inner = group_.inner->split(color, key, deadline);
  } catch (const PeerError&) {
    throw;
  } catch (const TimeoutError&) {
    throw;
  } catch (...) {
    no_memory = std::current_exception();  // the other hosts are on their way
  }
  const auto layout = lay_out_hosts(hosts_of(*hosts_, wish.members), wish.rank);
  const bool one_host = layout && layout->hosts() <= 1;
  std::shared_ptr<WireEngine> flat =
      flat_->split_wire(one_host || no_memory ? -1 : color, key, deadline);
  if (no_memory)
    std::rethrow_exception(no_memory);
  if (color < 0)
    return nullptr;
  if (one_host)
    return inner;
  if (flat->members() != wish.members)
    refuse_without(wish.members, flat->members());
  // With one rank a host there is nothing to gain; in a mixed order, sums could not be
  // taken host by host.
  if (!layout || layout->most_ranks() == 1)
    return flat;
  return std::shared_ptr<HostsEngine>(new HostsEngine(
      std::static_pointer_cast<SharedEngine>(inner), flat, *layout, hosts_));
}

std::unique_ptr<SendPort> HostsEngine::open_send(
    int to, int tag, const ChannelOptions& options) {
  return is_here(to) ? group_.inner->open_send(inner_rank(to), tag, options)
                     : flat_->open_send(to, tag, options);
}

std::unique_ptr<ReceivePort> HostsEngine::open_receive(int from, int tag) {
  return is_here(from) ? group_.inner->open_receive(inner_rank(from), tag)
                       : flat_->open_receive(from, tag);
}

void HostsEngine::abort(const std::string& why) noexcept {
  stop({.origin = group_.all.world().rank(), .why = why});
}

void HostsEngine::stop(const Failure& failure) noexcept {
  group_.inner->stop(failure);
  flat_->stop(failure);
}

void HostsEngine::check() const {
  group_.inner->check();
  flat_->check();
}

std::shared_ptr<Engine> HostsEngine::renew(const Deadline& deadline) {
  // First inside: a rank that is gone keeps its own host from going on, and the store
  // tells the others, who wait for all of that host. All ranks of a host get through
  // each of the two, or none does, so they all try again from the same place.
  try {
    newest_inner_ =
        std::static_pointer_cast<SharedEngine>(newest_inner_->renew(deadline));
  } catch (const PeerError& error) {
    // This rank may host the store in which the others wait, and take it along.
    flat_->wire().world().stay_away({.origin = error.rank(), .why = error.what()});
    throw;
  }
  auto flat = std::static_pointer_cast<WireEngine>(flat_->renew(deadline));
  // From now on only what this gives can be renewed.
  auto inner = std::exchange(newest_inner_, group_.inner);
  return root(std::move(inner), std::move(flat), *hosts_);
}

}  // namespace trireme::comm
