// The first words of both sides: who they are, which session they mean, what they
// accept.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "trireme/net/message.h"

namespace trireme::net {

/// A number that nobody guesses.
using SessionId = std::array<std::uint64_t, 2>;
SessionId random_session_id();

/// What the dialer says first, and the acceptor answers in kind.
struct Hello {
  std::string job;
  std::uint64_t incarnation = 0;
  /// Who speaks, and whom it takes the other for.
  std::string from;
  std::string to;
  SessionId session = {};
  /// Whether the session exists already, and how far it has come.
  bool resumed = false;
  std::uint64_t received = 0;
  std::uint64_t released_small = 0;
  std::uint64_t released_large = 0;
  Limits limits;
};

std::string encode(const Hello& hello);
/// InvalidArgument for anything that encode() does not give, and for limits that make
/// no sense.
Hello decode_hello(const std::string& bytes);

}  // namespace trireme::net
