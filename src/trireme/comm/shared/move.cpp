#include <algorithm>
#include <cstring>

#include "trireme/comm/shared/algorithms.h"

namespace trireme::comm {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kChunk = size_t{1} << 20;

size_t round_up(size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

/// A move, and how its pieces are cut into windows that fit into the staging.
struct Move {
  GroupSteps& steps;
  const Collective& call;
  size_t longest;  // bytes of the longest piece of any rank
  bool apart;      // one piece a reader, rather than one for all

  int rank() const { return steps.rank(); }
  int size() const { return steps.size(); }
  size_t pieces() const { return apart ? static_cast<size_t>(size()) : 1; }
  /// Where the piece for us begins in a giver's pieces of `window` bytes each.
  size_t our_piece(size_t window) const {
    return apart ? static_cast<size_t>(rank()) * window : 0;
  }
};

void stage_window(const Move& m, size_t place, size_t at, size_t window) {
  std::byte* mine = m.steps.staging(m.rank(), place);
  for (size_t k = 0; k < m.call.give.size(); ++k) {
    const Piece& piece = m.call.give[k];
    if (at < piece.bytes && !(m.apart && static_cast<int>(k) == m.rank()))
      std::memcpy(
          mine + k * window, piece.data + at, std::min(window, piece.bytes - at));
  }
}

void take_window(const Move& m, size_t place, size_t at, size_t window) {
  if (m.call.take.empty())
    return;
  for (int i = 1; i < m.size(); ++i) {
    const int peer = (m.rank() + i) % m.size();  // not all at the same rank at once
    const Piece& piece = m.call.take[static_cast<size_t>(peer)];
    if (at < piece.bytes)
      std::memcpy(
          piece.data + at,
          m.steps.staging(peer, place) + m.our_piece(window),
          std::min(window, piece.bytes - at));
  }
}

// Must not throw: the peers wait until we are out of their memory.
void take_in_place(const Move& m, std::span<const Place> places) noexcept {
  if (m.call.take.empty())
    return;
  for (int i = 1; i < m.size(); ++i) {
    const auto peer = static_cast<size_t>((m.rank() + i) % m.size());
    const Piece& piece = m.call.take[peer];
    const size_t ours = static_cast<size_t>(m.rank()) * places[peer].stride;
    const std::byte* in = m.steps.memory().at(places[peer].input) + ours;
    if (piece.bytes > 0 && piece.data != in)
      std::memmove(piece.data, in, piece.bytes);
  }
}

}  // namespace

void run_move(GroupSteps& steps, const Collective& call) {
  const Move move{
      .steps = steps,
      .call = call,
      .longest = static_cast<size_t>(call.count) * c10::elementSize(call.dtype),
      .apart = gives_apart(call.kind)};
  const size_t whole = round_up(move.longest);
  if (whole * move.pieces() <= small_bytes(steps)) {
    const size_t place = steps.stage(whole * move.pieces());
    stage_window(move, place, 0, whole);
    steps.enter();
    take_own(call, steps.rank());
    return take_window(move, place, 0, whole);
  }
  PerRank<Place> places(steps.size());
  if (enter_with_place(steps, call, places)) {
    take_own(call, steps.rank());
    take_in_place(move, places);
    return steps.meet_to_part();
  }
  take_own(call, steps.rank());
  const size_t room = std::min(kChunk, steps.whole_half());
  const size_t window = std::max(kLine, room / move.pieces() / kLine * kLine);
  for (size_t at = 0; at < move.longest; at += window) {
    const size_t place = steps.stage(window * move.pieces());
    stage_window(move, place, at, window);
    steps.meet();
    take_window(move, place, at, window);
  }
}

}  // namespace trireme::comm
