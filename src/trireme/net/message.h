// What travels between nodes: a typed small header, and raw bytes that are never copied
// on the way out.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trireme/core/buffer_pool.h"

namespace trireme::net {

/// What a message is, known before its body arrives.
struct Envelope {
  /// The user's own number for the kind of message.
  std::uint16_t type = 0;
  /// The user's own number for the call that it belongs to.
  std::uint64_t request = 0;
  /// How long the sender will care, from when it sent; zero for no limit.
  std::chrono::milliseconds timeout{0};
  /// A few bytes in the user's own format (see bytes.h), at most Limits::header_bytes.
  std::string header;
};

/// A message on its way out. The parts of the body are sent one after the other; their
/// memory must not change until `done` is called, and `keep` holds it that long.
///
///     peer.send({.envelope = {.type = 7, .header = "weights"},
///                .body = {std::as_bytes(std::span(values))}, .keep = values_owner});
struct OutMessage {
  Envelope envelope;
  std::vector<std::span<const std::byte>> body;
  std::shared_ptr<const void> keep;
  /// Called once, when the other side has all of it or never will, with true or false:
  /// on an I/O thread, or inside send() or close(). It must not block. It may be empty.
  std::function<void(bool arrived)> done;

  std::size_t body_bytes() const {
    std::size_t bytes = 0;
    for (const auto& part : body)
      bytes += part.size();
    return bytes;
  }
};

/// What remains of the sender's allowance until it is destroyed: the bytes of a
/// received message count against it as long as somebody holds them.
using Allowance = std::shared_ptr<const void>;

/// A message that has arrived whole. Where Receiver::place gave memory for the body it
/// lies there; else in `buffer`, a block of the node's pool.
struct InMessage {
  Envelope envelope;
  std::span<std::byte> body;
  Buffer buffer;
  /// Keep it as long as the body is in use, so that a fast sender cannot fill the
  /// memory.
  Allowance allowance;
};

/// What a node accepts from a peer before it closes the connection.
struct Limits {
  std::size_t header_bytes = std::size_t{64} << 10;
  std::size_t body_bytes = std::size_t{16} << 30;
  /// Bodies up to this size go in the fast lane, ahead of larger ones.
  std::size_t small_bytes = std::size_t{64} << 10;
  /// How many bytes a peer may have sent that nobody has let go of yet, by lane. A body
  /// above the window travels alone.
  std::size_t small_window = std::size_t{4} << 20;
  std::size_t large_window = std::size_t{64} << 20;
};

}  // namespace trireme::net
