// How workers find each other: who there is, and where.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/net/address.h"
#include "trireme/net/store.h"
#include "trireme/rpc/process_place.h"
#include "trireme/rpc/worker.h"

namespace trireme::rpc {

/// One worker, with all that others need to reach it.
struct Member {
  WorkerInfo info;
  /// Where it listens, best first. A Unix socket leads there from its own host alone.
  std::vector<net::Address> addresses;
  ProcessPlace place;
  bool operator==(const Member&) const = default;
};

/// The most that a world may have.
inline constexpr int kMostWorkers = 1 << 16;

/// InvalidArgument unless it can be the name of a worker: 1 to 127 letters, digits,
/// '_',
/// ':' and '-'.
void check_worker_name(std::string_view name);

/// A member as bytes for the store, and back; nothing is trusted.
std::string encode_member(const Member& member);
Member decode_member(std::string_view bytes);

/// Puts this worker into the store, waits until all have come, and gives all of them in
/// the order of their numbers: the same to each. What an earlier start has left in the
/// store is not taken.
///
/// InvalidArgument where a name is taken twice, where workers expect worlds of
/// different sizes, and where two come as one; TimeoutError names those who do not
/// come. Let `store` be a PrefixStore of this world alone.
///
///     net::PrefixStore place("rpc/0/", store);
///     std::vector<Member> all = meet(place, me, world_size, deadline);
std::vector<Member> meet(
    net::Store& store, const Member& me, int world_size, Deadline deadline);

/// Names the meeting that this worker has just come from: the same for all who were
/// there, and no other meeting's.
std::string meeting_name(net::Store& store, WorkerId me);

/// Takes what meet() has put there for this worker out of the store again. Call it when
/// all have met: at the end.
void forget(net::Store& store, WorkerId me);

}  // namespace trireme::rpc
