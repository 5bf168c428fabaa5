// Collectives over a wire. Results are bit for bit those of the other backends: the
// ranks' values are brought together and summed by our kernels, in rank order.
#pragma once
#include <cstddef>
#include <span>

#include "trireme/comm/collective.h"
#include "trireme/comm/wire/wire_steps.h"

namespace trireme::comm {

/// all_reduce, reduce and reduce_scatter. The caller has called steps.begin().
void run_wire_reduction(WireSteps& steps, const Collective& call);

/// A large all_reduce, reduce or reduce_scatter that all have entered.
void reduce_in_chunks(WireSteps& steps, const Collective& call);

/// Everything that only moves bytes.
void run_wire_move(WireSteps& steps, const Collective& call);

/// Either of the two.
void run_wire_collective(WireSteps& steps, const Collective& call);

/// Collects the same number of bytes from everybody into `all`, in rank order: from
/// each to each among few ranks, else in a logarithm of rounds.
void gather_all(WireSteps& steps, std::span<const std::byte> mine, std::byte* all);

/// Brings `piece` of `root` to everybody: down a tree, or, if it is long, from rank to
/// rank in pieces.
void broadcast_piece(WireSteps& steps, const Piece& piece, int root);

/// Everybody's pieces from each to each, without the word that begins a call.
void swap_pieces(WireSteps& steps, const Collective& call);

}  // namespace trireme::comm
