// What is on the wire: a fixed header of 64 bytes, then a small typed header, then a
// part of a body. docs/architecture.md has the layout byte by byte.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trireme/net/message.h"

namespace trireme::net {

inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHead = 64;
/// The most of a body in one frame; small messages go between two of them.
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

enum class FrameKind : std::uint8_t {
  Hello = 1,    ///< the dialer's first word
  Welcome = 2,  ///< the acceptor's answer
  Refuse = 3,   ///< or this, with the reason; then it closes
  Message = 4,  ///< the beginning of a message, or all of it
  Chunk = 5,    ///< more of the large message that has begun
  Ack = 6,      ///< what has arrived, and what was let go of
  Ping = 7,     ///< nothing to say
  Leave = 8,    ///< the session ends here
};

/// The fixed header as values.
struct Frame {
  FrameKind kind = FrameKind::Ping;
  /// Whether the checks are those of the bytes behind the head. TLS has its own.
  bool checked = false;
  std::uint16_t type = 0;
  /// Counts the frames Message and Chunk of a session from 1; 0 for all others.
  std::uint64_t sequence = 0;
  /// The last sequence that the sender of this frame has received.
  std::uint64_t ack = 0;
  /// Message: the user's request. Chunk: the sequence of the message's first frame.
  /// Ack: bytes let go of in the small lane.
  std::uint64_t id = 0;
  /// Message: all bytes of the body. Chunk: where in the body this part begins. Ack:
  /// bytes let go of in the large lane.
  std::uint64_t body = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t timeout_ms = 0;
  /// The header's own, since it is acted upon before the payload has come.
  std::uint32_t header_check = 0;
  std::uint32_t payload_check = 0;

  bool is_data() const {
    return kind == FrameKind::Message || kind == FrameKind::Chunk;
  }
  bool operator==(const Frame&) const = default;
};

using FrameHead = std::array<std::byte, kFrameHead>;

FrameHead encode(const Frame& frame);

/// What every head begins with.
inline constexpr std::size_t kMagicBytes = 2;
/// Throws InvalidArgument for any other beginning: who speaks TLS may send less than a
/// head before it gives up.
void check_magic(std::span<const std::byte, kMagicBytes> first);

/// Throws InvalidArgument for anything that no peer of this version sends, and for
/// lengths above the limits: before a byte is allocated for them.
Frame decode(std::span<const std::byte, kFrameHead> head, const Limits& limits);

/// What a message counts for in its lane's window: what it is, and what keeping track
/// of it takes.
constexpr std::uint64_t message_cost(std::uint64_t header, std::uint64_t body) {
  return header + body + 256;
}
/// Whether it goes in the small lane.
constexpr bool is_small(
    std::uint64_t header, std::uint64_t body, const Limits& limits) {
  return header + body <= limits.small_bytes;
}

}  // namespace trireme::net
