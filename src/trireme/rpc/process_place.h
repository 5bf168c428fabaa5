// Where a process runs, as far as that says how others may reach it.
#pragma once
#include <cstdint>

#include "trireme/net/bytes.h"

namespace trireme::rpc {

/// A process, and what its kernel shows it. Numbers of namespaces mean something under
/// one kernel alone; 0 stands for unknown, which is like nothing else.
struct ProcessPlace {
  /// The same for all under one kernel, until it is booted again.
  std::int64_t kernel = 0;
  /// Which names of Unix sockets it sees.
  std::uint64_t network = 0;
  /// Which process numbers it sees.
  std::uint64_t processes = 0;
  std::uint32_t user = 0;
  std::int32_t pid = 0;
  /// A number is used again, but not with the same start.
  std::uint64_t start_time = 0;

  static ProcessPlace of_this_process();
  bool operator==(const ProcessPlace&) const = default;
};

/// Whether a Unix socket leads from one to the other, and both are of one user.
bool share_sockets(const ProcessPlace& one, const ProcessPlace& other);
/// Whether one may open what the other has open, and can tell whether it still runs.
bool share_processes(const ProcessPlace& one, const ProcessPlace& other);
/// Whether the process is known to have ended; `here` is the one who asks.
bool has_ended(const ProcessPlace& process, const ProcessPlace& here);

void write_place(net::ByteWriter& out, const ProcessPlace& place);
ProcessPlace read_place(net::ByteReader& in);

}  // namespace trireme::rpc
