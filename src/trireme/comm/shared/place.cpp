#include <algorithm>
#include <cstring>

#include "trireme/comm/shared/algorithms.h"

namespace trireme::comm {

static_assert(sizeof(Place) <= CallSlot::kPayload);

size_t small_bytes(const GroupSteps& steps) {
  constexpr size_t kMost = size_t{64} << 10;
  return std::min(kMost, steps.half_bytes() / 2);
}

Place place_of(const GroupSteps& steps, const Collective& call) {
  const SharedMemory& memory = steps.memory();
  Place place{.reachable = 1};
  for (const Piece& piece : call.give)
    if (piece.bytes > 0 && !memory.contains(piece.data, piece.bytes))
      return {};
  for (const Piece& piece : call.take)
    if (piece.bytes > 0 && !memory.contains(piece.data, piece.bytes))
      return {};
  if (!call.give.empty())
    place.input = memory.offset_of(call.give[0].data);
  if (!call.take.empty())
    place.output = memory.offset_of(call.take[0].data);
  // Pieces that are not evenly spaced cannot be told in one line.
  if (call.give.size() > 1) {
    place.stride = memory.offset_of(call.give[1].data) - place.input;
    for (size_t k = 0; k < call.give.size(); ++k)
      if (memory.offset_of(call.give[k].data) != place.input + k * place.stride)
        return {};
  }
  return place;
}

bool enter_with_place(
    GroupSteps& steps, const Collective& call, std::span<Place> places) {
  const Place mine = place_of(steps, call);
  steps.enter(std::as_bytes(std::span(&mine, 1)));
  bool all = true;
  for (int peer = 0; peer < steps.size(); ++peer) {
    Place& place = places[static_cast<size_t>(peer)];
    std::memcpy(&place, steps.payload(peer), sizeof place);
    all = all && place.reachable != 0;
  }
  return all;
}

}  // namespace trireme::comm
