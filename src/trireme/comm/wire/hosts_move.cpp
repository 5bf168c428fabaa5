#include <cstring>

#include "trireme/comm/wire/algorithms.h"
#include "trireme/comm/wire/hosts_call.h"

namespace trireme::comm {
namespace {

size_t longest_piece(const Collective& call) {
  return static_cast<size_t>(call.count) * c10::elementSize(call.dtype);
}

// To the leader of the root's host, to the other leaders, and to everybody.
void broadcast_over_hosts(HostsCall& c) {
  const int root = c.call().root;
  const Piece piece = c.group().rank() == root
                          ? c.call().give[0]
                          : c.call().take[static_cast<size_t>(root)];
  const int home = c.layout().host_of(root);
  if (home == c.layout().mine)
    c.hand_in(root, piece);
  if (c.leads())
    broadcast_piece(c.leaders(), piece, home);
  c.spread(piece);
}

/// A large all_gather: inside the hosts, then between their leaders, and piece by piece
/// to everybody as they come.
class GatherOverHosts {
 public:
  explicit GatherOverHosts(HostsCall& call) : c_(call), layout_(call.layout()) {}

  void run() {
    const int first = layout_.leader(layout_.mine);
    const int ranks = layout_.ranks_of(layout_.mine);
    const auto own =
        c_.call().take.subspan(static_cast<size_t>(first), static_cast<size_t>(ranks));
    std::vector<Wire::Transfer> coming(c_.call().take.size());
    if (c_.leads())
      start_receiving(coming);
    c_.inside(
        {.kind = CollectiveKind::AllGatherUneven,
         .count = static_cast<int64_t>(longest_piece(c_.call())),
         .give = c_.call().give,
         .take = own});
    if (c_.leads())
      start_sending(own);
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      if (layout_.host_of(rank) == layout_.mine)
        continue;
      if (c_.leads())
        c_.leaders().wait(coming[static_cast<size_t>(rank)]);
      c_.spread(c_.call().take[static_cast<size_t>(rank)]);
    }
    if (c_.leads())
      c_.leaders().finish();
  }

 private:
  void start_receiving(std::vector<Wire::Transfer>& coming) {
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      const int host = layout_.host_of(rank);
      const Piece& piece = c_.call().take[static_cast<size_t>(rank)];
      if (host != layout_.mine)
        coming[static_cast<size_t>(rank)] =
            c_.leaders().receive(host, piece.data, piece.bytes);
    }
  }
  void start_sending(std::span<const Piece> own) {
    for (int i = 1; i < layout_.hosts(); ++i)
      for (const Piece& piece : own)
        c_.leaders().send(c_.leaders().after(i), piece.data, piece.bytes);
  }

  HostsCall& c_;
  const HostLayout& layout_;
};

// Little from everybody comes to the leaders with the call, and from them with their
// word.
void gather_small(HostsCall& c, size_t bytes) {
  const auto ranks = static_cast<size_t>(c.group().size());
  c.enter({c.call().give[0].data, bytes});
  const Buffer all = c.take(bytes * ranks);
  for (size_t k = 0; c.leads() && c.agreed() && k < ranks; ++k)
    std::memcpy(all.data() + k * bytes, c.value(static_cast<int>(k)), bytes);
  c.announce(all.bytes());
  for (size_t k = 0; k < ranks; ++k)
    std::memcpy(c.call().take[k].data, all.data() + k * bytes, bytes);
}

// Every piece crosses once, whatever is done: from each to each between hosts, and
// through shared memory inside.
void swap_over_hosts(HostsCall& c) {
  const Collective& call = c.call();
  const HostLayout& layout = c.layout();
  WireSteps& all = c.group().all;
  for (int i = 1; i < all.size() && !call.take.empty(); ++i) {
    const int peer = all.before(i);
    const Piece& piece = call.take[static_cast<size_t>(peer)];
    if (layout.host_of(peer) != layout.mine)
      all.receive(peer, piece.data, piece.bytes);
  }
  for (int i = 1; i < all.size(); ++i) {
    const int peer = all.after(i);
    const Piece piece = given_to(call, peer);
    if (layout.host_of(peer) != layout.mine)
      all.send(peer, piece.data, piece.bytes);
  }
  const int first = layout.leader(layout.mine);
  const auto ranks = static_cast<size_t>(layout.ranks_of(layout.mine));
  PerRank<Piece> give(ranks), take(ranks);
  for (size_t k = 0; k < ranks; ++k) {
    give[k] = given_to(call, first + static_cast<int>(k));
    if (!call.take.empty())
      take[k] = call.take[static_cast<size_t>(first) + k];
  }
  c.inside(
      {.kind = CollectiveKind::AllToAllUneven,
       .count = static_cast<int64_t>(longest_piece(call)),
       .give = give,
       .take = take});
  all.finish();
}

}  // namespace

void move_over_hosts(HostsCall& c) {
  const Collective& call = c.call();
  const size_t bytes = longest_piece(call);
  const size_t all = bytes * static_cast<size_t>(c.group().size());
  const bool gathers =
      call.kind == CollectiveKind::AllGather || call.kind == CollectiveKind::Split;
  if (gathers && bytes > 0 && all <= c.tuning().small_bytes)
    return gather_small(c, bytes);
  c.enter();
  c.announce();
  if (call.kind == CollectiveKind::Barrier || bytes == 0)
    return;
  if (call.kind == CollectiveKind::Broadcast)
    return broadcast_over_hosts(c);
  if (gathers || call.kind == CollectiveKind::AllGatherUneven)
    return GatherOverHosts(c).run();
  swap_over_hosts(c);
}

}  // namespace trireme::comm
