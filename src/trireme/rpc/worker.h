// Who takes part in remote calls.
#pragma once
#include <cstdint>
#include <string>

namespace trireme::rpc {

/// A worker's place among all of a world, from 0.
using WorkerId = std::int32_t;

/// One that takes part, as all others know it.
struct WorkerInfo {
  WorkerId id = 0;
  /// Its own among all: letters, digits, '_', ':' and '-', at most 127.
  std::string name;
  /// What it is for, which access lists go by: "trainer", "server".
  std::string role = "default";
  /// How large a call of it, or a result for it, may be.
  std::uint64_t message_bytes = std::uint64_t{15} << 30;
  bool operator==(const WorkerInfo&) const = default;
};

}  // namespace trireme::rpc
