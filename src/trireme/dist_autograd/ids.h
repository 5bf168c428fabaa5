// The names of contexts, of what crosses from worker to worker in them, and of passes.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "trireme/rpc/wire_type.h"
#include "trireme/rpc/worker.h"

namespace trireme::dist_autograd {

/// A context among all workers. It may travel in calls.
struct ContextId {
  rpc::WorkerId creator = -1;
  /// Grows with each context of its creator.
  std::uint64_t number = 0;
  auto operator<=>(const ContextId&) const = default;
};

/// A call inside a context: both sides name it alike.
struct CallId {
  rpc::WorkerId caller = -1;
  rpc::WorkerId callee = -1;
  /// Counts the caller's calls of that callee, inside the context.
  std::uint64_t ordinal = 0;
  auto operator<=>(const CallId&) const = default;
};

/// The tensors of a call, or of its answer: whoever has sent them waits for their
/// gradients.
struct SendId {
  CallId call;
  bool answer = false;
  rpc::WorkerId sender() const { return answer ? call.callee : call.caller; }
  auto operator<=>(const SendId&) const = default;
};

/// One backward.
struct PassId {
  /// The worker that has begun it.
  rpc::WorkerId root = -1;
  /// Grows with each of its passes.
  std::uint64_t number = 0;
  auto operator<=>(const PassId&) const = default;
};

/// As "3.17": the seventeenth of worker 3.
std::string to_string(const ContextId& id);

/// For tables.
struct SendHash {
  std::size_t operator()(const SendId& id) const {
    const auto call = static_cast<std::uint64_t>(id.call.caller) << 40 ^
                      static_cast<std::uint64_t>(id.call.callee) << 20 ^
                      id.call.ordinal << 1;
    return std::hash<std::uint64_t>()(call + (id.answer ? 1 : 0));
  }
};

/// Workers as they stand in bytes, which nobody trusts: none is negative.
void write_worker(rpc::ValueWriter& writer, rpc::WorkerId worker);
rpc::WorkerId read_worker(rpc::ValueReader& reader);

}  // namespace trireme::dist_autograd

namespace trireme::rpc {

template <>
struct WireType<dist_autograd::ContextId> {
  static void write(ValueWriter& writer, const dist_autograd::ContextId& id);
  static dist_autograd::ContextId read(ValueReader& reader);
  static std::string name() { return "context"; }
};
template <>
struct WireType<dist_autograd::SendId> {
  static void write(ValueWriter& writer, const dist_autograd::SendId& id);
  static dist_autograd::SendId read(ValueReader& reader);
  static std::string name() { return "send"; }
};
template <>
struct WireType<dist_autograd::PassId> {
  static void write(ValueWriter& writer, const dist_autograd::PassId& id);
  static dist_autograd::PassId read(ValueReader& reader);
  static std::string name() { return "pass"; }
};

}  // namespace trireme::rpc
