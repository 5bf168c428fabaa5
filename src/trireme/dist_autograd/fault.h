// What has gone wrong in a backward, as it travels back to the worker that began it.
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "trireme/rpc/wire_containers.h"
#include "trireme/rpc/wire_struct.h"
#include "trireme/rpc/worker.h"

namespace trireme::dist_autograd {

/// The first error of a pass, wherever it was.
struct PassFault {
  /// The worker where it was noticed, by name.
  std::string worker;
  /// The type of the exception there.
  std::string type;
  std::string text;
  /// The worker that is gone, if that is why; else -1.
  std::int64_t gone = -1;
  /// The deadline has passed.
  bool late = false;
};

/// What a worker says when its part is over: nothing if all went well.
using Answer = std::optional<PassFault>;

/// What an exception says; `worker` has noticed it.
PassFault fault_of(const std::string& worker, const std::exception_ptr& error);

/// Throws it: PeerError for a worker that is gone, TimeoutError for one that was late,
/// rpc::RemoteError for all else that another worker has thrown.
[[noreturn]] void throw_fault(const PassFault& fault);

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::Fields<trireme::dist_autograd::PassFault> {
  using PassFault = dist_autograd::PassFault;
  static constexpr auto name = "trireme.PassFault";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &PassFault::worker,
      &PassFault::type,
      &PassFault::text,
      &PassFault::gone,
      &PassFault::late);
};
