// Packets as messages between nodes: nothing is copied on the way out, and what comes
// in is a view of the one buffer in which it arrived.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "trireme/net/message.h"
#include "trireme/rpc/packet.h"

namespace trireme::rpc {

/// What a message between the nodes of workers is; the type of its envelope.
enum class WireKind : std::uint16_t {
  Packet = 1,  ///< a packet
  Offer,       ///< of an arena, for parts that need not go through the socket
  Answer,      ///< whether an offer was taken
  Return,      ///< of parts in an arena that nobody uses any more
};

/// Parts begin at multiples of this in the message's body, which begins at one.
inline constexpr std::size_t kPartAlignment = 64;

/// What a part takes at most beside itself: its entry, and what aligns it.
inline constexpr std::size_t kPartCost = 2 * kPartAlignment;

/// Puts a part elsewhere and says where, if it can; else the part goes in the message.
using PlacePart = std::function<std::optional<std::uint64_t>(const Part& part)>;
/// Gives the part that lies there; InvalidArgument where none can be.
using FindPart = std::function<Part(std::uint64_t offset, std::uint64_t bytes)>;

/// The message of a packet. It holds the parts until it has arrived, but for those that
/// `place` has put elsewhere.
///
///     peer.send(to_message(std::move(packet)));
net::OutMessage to_message(Packet packet, const PlacePart& place = nullptr);

/// The packet of a message. Its parts hold the message's buffer, but for small ones of
/// large messages, which are copied; and not its allowance: who keeps a tensor for long
/// must not hold up what comes behind it. InvalidArgument for
/// anything that to_message() does not give; parts that lie elsewhere are refused
/// without `find`.
Packet to_packet(net::InMessage message, const FindPart& find = nullptr);

}  // namespace trireme::rpc
