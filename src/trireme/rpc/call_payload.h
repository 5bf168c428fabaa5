// What a call and its end say, inside the payload that the protocol carries.
#pragma once
#include <cstdint>
#include <string>

#include "trireme/rpc/protocol.h"
#include "trireme/rpc/values.h"

namespace trireme::rpc {

/// Which function is called, and how the caller sees it.
struct CallHead {
  std::string function;
  /// The hash of the caller's signature.
  std::uint64_t signature = 0;
  /// One number for all that one call of a user leads to, over all workers.
  std::uint64_t trace = 0;
  /// In how many other calls it was made.
  std::uint8_t depth = 0;
  /// Counts the calls of the caller.
  std::uint64_t span = 0;
  /// What the caller's Escort says to the callee's; empty without one.
  std::string note{};
};

/// What a function has thrown.
struct Fault {
  /// Of the exception, as its program names it.
  std::string type;
  std::string text;
};

/// InvalidArgument for more than `most` in all, or more than a message has room for
/// beside its tensors. `what` it is, for the error: "a call of add".
void expect_fits(const Payload& payload, std::uint64_t most, const std::string& what);

/// A call as a payload. The tensors are not copied.
Payload pack_call(const CallHead& head, Values arguments);
/// What a function has returned.
Payload pack_values(Values values);
/// What it has thrown, or why it was refused.
Payload pack_fault(const Fault& fault);

/// Reads a payload, in the order in which it was written. The references and tensors go
/// into the values; InvalidArgument for bytes that no worker would write.
CallHead unpack_call_head(const Payload& payload);
Values unpack_arguments(Payload payload, const ValueLimits& limits);
Values unpack_values(Payload payload, const ValueLimits& limits);
Fault unpack_fault(const Payload& payload);

}  // namespace trireme::rpc
