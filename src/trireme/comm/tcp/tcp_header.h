// The small header of every message between ranks.
#pragma once
#include <cstdint>
#include <string>

namespace trireme::comm {

/// What a message between ranks is; the type of its envelope.
enum class TcpKind : uint16_t {
  Transfer = 1,  ///< bytes of a collective
  Ready,         ///< the receiver of a large transfer has a place for it
  Message,       ///< of a channel
  Credit,        ///< what a channel's receiver has taken
  Closed,        ///< a channel's sender has closed its end
  Left,          ///< its sender has left a group
  Stop,          ///< the world is stopped
  Away,          ///< why its sender does not come to the renewal
};

/// All fields; each kind uses some of them.
struct TcpHeader {
  uint32_t group = 0;
  /// The transfer; or the messages of a credit, or of a channel that was closed.
  uint64_t number = 0;
  int32_t tag = 0;
  /// Of a credit.
  uint64_t bytes = 0;
  /// Of a stop, and of who stays away.
  int32_t origin = 0;
  bool timed_out = false;
  std::string why;
};

std::string encode(const TcpHeader& header);
/// InvalidArgument for anything that encode() does not give.
TcpHeader decode_tcp_header(const std::string& bytes);

}  // namespace trireme::comm
