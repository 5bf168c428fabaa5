#include <algorithm>
#include <cstring>

#include "trireme/comm/mpi/mpi_collectives.h"

namespace trireme::comm {
namespace {

// MPI sends along a tree.
void broadcast(MpiGroup& group, const Collective& call) {
  const Piece piece = group.rank() == call.root
                          ? call.give[0]
                          : call.take[static_cast<size_t>(call.root)];
  const size_t most = group.world().tuning().transfer_bytes;
  for (size_t at = 0; at < piece.bytes; at += most)
    check_mpi(
        MPI_Ibcast(
            piece.data + at,
            static_cast<int>(std::min(most, piece.bytes - at)),
            MPI_BYTE,
            call.root,
            group.comm(),
            group.request()),
        "MPI_Ibcast");
  group.finish();
}

// Little from everybody to everybody: MPI may know a shorter way than from each to
// each.
void gather_small(MpiGroup& group, const Collective& call, size_t bytes) {
  const Buffer all =
      group.world().runtime().pool().take(bytes * static_cast<size_t>(group.size()));
  check_mpi(
      MPI_Iallgather(
          call.give[0].data,
          static_cast<int>(bytes),
          MPI_BYTE,
          all.data(),
          static_cast<int>(bytes),
          MPI_BYTE,
          group.comm(),
          group.request()),
      "MPI_Iallgather");
  group.finish();
  for (size_t k = 0; k < call.take.size(); ++k)
    std::memcpy(call.take[k].data, all.data() + k * bytes, bytes);
}

// Each to each, not all to the same rank at once.
void swap_pieces(MpiGroup& group, const Collective& call) {
  const int size = group.size();
  for (int i = 1; i < size && !call.take.empty(); ++i) {
    const int peer = (group.rank() + size - i) % size;
    const Piece& piece = call.take[static_cast<size_t>(peer)];
    group.receive(peer, piece.data, piece.bytes);
  }
  for (int i = 1; i < size; ++i) {
    const int peer = (group.rank() + i) % size;
    const Piece piece = given_to(call, peer);
    group.send(peer, piece.data, piece.bytes);
  }
  take_own(call, group.rank());
  group.finish();
}

}  // namespace

void run_mpi_move(MpiGroup& group, const Collective& call) {
  group.enter();
  if (call.kind == CollectiveKind::Barrier)
    return;  // nobody is through before all have come
  if (call.kind == CollectiveKind::Broadcast)
    return broadcast(group, call);
  const size_t bytes = static_cast<size_t>(call.count) * c10::elementSize(call.dtype);
  const size_t all = bytes * static_cast<size_t>(group.size());
  if (call.kind == CollectiveKind::AllGather && bytes > 0 &&
      all <= group.world().tuning().small_bytes)
    return gather_small(group, call, bytes);
  swap_pieces(group, call);
}

}  // namespace trireme::comm
