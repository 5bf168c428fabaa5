// Finding out that a whole world has nothing to do any more.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/net/store.h"

namespace trireme::rpc {

struct QuietOptions {
  net::Store& store;
  int rank = 0;
  int world_size = 1;
  /// What worker of a rank is called, in errors.
  std::function<std::string(int rank)> name;
  /// Whether this worker has nothing to do at this moment.
  std::function<bool()> idle;
  /// Counts all that it has ever begun.
  std::function<std::uint64_t()> activity;
  /// Called now and then while it waits; what it throws ends the wait for all, who get
  /// it as an Error.
  std::function<void()> check;
};

/// Waits until no worker has anything to do, and none can get anything to do. All call
/// it. In rounds: each worker waits until it is idle, and says how much it had begun so
/// far at that moment; when the sum is the same in two rounds nobody has begun anything
/// in between. TimeoutError names the other workers that are late; of its own the
/// caller knows. Its keys are under "quiet/"; a store serves it once.
void wait_until_quiet(const QuietOptions& options, const Deadline& deadline);

/// This worker will never be quiet together with the others: who waits for it gives up,
/// with that reason.
void give_up_quiet(net::Store& store, int rank, const std::string& why);

}  // namespace trireme::rpc
