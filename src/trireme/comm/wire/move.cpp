#include <algorithm>
#include <cstring>

#include "trireme/comm/wire/algorithms.h"
#include "trireme/comm/wire/broadcast_tree.h"

namespace trireme::comm {
namespace {

// In a logarithm of rounds: what a rank has grows as it hears from the one that is 1,
// 2, 4… further, who has as much of its own. It lies in the order of distances, and is
// put right at the end.
void gather_by_rounds(
    WireSteps& steps, std::span<const std::byte> mine, std::byte* all) {
  const size_t bytes = mine.size();
  const Buffer found = steps.take(bytes * static_cast<size_t>(steps.size()));
  std::memcpy(found.data(), mine.data(), bytes);
  for (int have = 1; have < steps.size(); have *= 2) {
    const auto more = static_cast<size_t>(std::min(have, steps.size() - have)) * bytes;
    const size_t end = static_cast<size_t>(have) * bytes;
    steps.receive(steps.after(have), found.data() + end, more);
    steps.send(steps.before(have), found.data(), more);
    steps.finish();
  }
  for (int i = 0; i < steps.size(); ++i)
    std::memcpy(
        all + static_cast<size_t>(steps.after(i)) * bytes,
        found.data() + static_cast<size_t>(i) * bytes,
        bytes);
}

void gather_directly(
    WireSteps& steps, std::span<const std::byte> mine, std::byte* all) {
  const size_t bytes = mine.size();
  for (int i = 1; i < steps.size(); ++i)
    steps.receive(
        steps.before(i), all + static_cast<size_t>(steps.before(i)) * bytes, bytes);
  for (int i = 1; i < steps.size(); ++i)
    steps.send(steps.after(i), mine.data(), bytes);
  std::memmove(all + static_cast<size_t>(steps.rank()) * bytes, mine.data(), bytes);
  steps.finish();
}

// Little from everybody to everybody.
void gather_small(WireSteps& steps, const Collective& call, size_t bytes) {
  const std::span<const std::byte> mine(call.give[0].data, bytes);
  const bool rides = steps.carries(bytes);
  Buffer all;
  steps.enter(rides ? mine : std::span<const std::byte>());
  if (!rides) {
    all = steps.take(bytes * static_cast<size_t>(steps.size()));
    gather_all(steps, mine, all.data());
  }
  for (int k = 0; k < steps.size(); ++k)
    std::memmove(
        call.take[static_cast<size_t>(k)].data,
        rides ? steps.payload(k) : all.data() + static_cast<size_t>(k) * bytes,
        bytes);
}

// A small broadcast needs no round of its own.
void broadcast_inline(WireSteps& steps, const Collective& call, size_t bytes) {
  const bool mine = steps.rank() == call.root;
  steps.enter(
      mine ? std::span<const std::byte>(call.give[0].data, bytes)
           : std::span<const std::byte>());
  if (!mine)
    std::memcpy(
        call.take[static_cast<size_t>(call.root)].data,
        steps.payload(call.root),
        bytes);
}

}  // namespace

void gather_all(WireSteps& steps, std::span<const std::byte> mine, std::byte* all) {
  if (steps.size() <= steps.tuning().direct_ranks)
    gather_directly(steps, mine, all);
  else
    gather_by_rounds(steps, mine, all);
}

void broadcast_piece(WireSteps& steps, const Piece& piece, int root) {
  const size_t most = steps.tuning().broadcast_bytes;
  const bool in_pieces = piece.bytes > most;
  const int place = (steps.rank() + steps.size() - root) % steps.size();
  const BroadcastTree tree =
      in_pieces ? chain_tree(place, steps.size()) : binomial_tree(place, steps.size());
  const auto real = [&](int rank) { return (rank + root) % steps.size(); };
  const size_t step = in_pieces ? most : piece.bytes;
  std::vector<Wire::Transfer> coming;
  for (size_t at = 0; at < piece.bytes && tree.parent >= 0; at += step)
    coming.push_back(steps.receive(
        real(tree.parent), piece.data + at, std::min(step, piece.bytes - at)));
  size_t next = 0;
  for (size_t at = 0; at < piece.bytes; at += step) {
    if (tree.parent >= 0)
      steps.wait(coming[next++]);
    for (const int child : tree.children)
      steps.send(real(child), piece.data + at, std::min(step, piece.bytes - at));
  }
  steps.finish();
}

// Each to each, not all to the same rank at once.
void swap_pieces(WireSteps& steps, const Collective& call) {
  for (int i = 1; i < steps.size() && !call.take.empty(); ++i) {
    const int peer = steps.before(i);
    const Piece& piece = call.take[static_cast<size_t>(peer)];
    steps.receive(peer, piece.data, piece.bytes);
  }
  for (int i = 1; i < steps.size(); ++i) {
    const Piece piece = given_to(call, steps.after(i));
    steps.send(steps.after(i), piece.data, piece.bytes);
  }
  take_own(call, steps.rank());
  steps.finish();
}

void run_wire_move(WireSteps& steps, const Collective& call) {
  const size_t bytes = static_cast<size_t>(call.count) * c10::elementSize(call.dtype);
  const size_t all = bytes * static_cast<size_t>(steps.size());
  const bool gathers =
      call.kind == CollectiveKind::AllGather || call.kind == CollectiveKind::Split;
  if (gathers && bytes > 0 && all <= steps.tuning().small_bytes)
    return gather_small(steps, call, bytes);
  const bool broadcasts = call.kind == CollectiveKind::Broadcast;
  if (broadcasts && bytes > 0 && steps.carries(bytes))
    return broadcast_inline(steps, call, bytes);
  steps.enter();
  if (call.kind == CollectiveKind::Barrier)
    return;  // nobody is through before all have come
  if (!broadcasts)
    return swap_pieces(steps, call);
  const bool mine = steps.rank() == call.root;
  broadcast_piece(
      steps,
      mine ? call.give[0] : call.take[static_cast<size_t>(call.root)],
      call.root);
}

void run_wire_collective(WireSteps& steps, const Collective& call) {
  switch (call.kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce:
    case CollectiveKind::ReduceScatter:
      return run_wire_reduction(steps, call);
    default:
      return run_wire_move(steps, call);
  }
}

}  // namespace trireme::comm
