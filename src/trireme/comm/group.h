// Group: a set of ranks that talk to one another. The front door of comm.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/engine.h"
#include "trireme/comm/work.h"

namespace trireme::comm {

/// What a group is made with.
struct GroupOptions {
  /// How long a call on this group may take; TRIREME_TIMEOUT when it comes from init().
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Any gives up the promise that sums have the same bits on every number of hosts:
  /// then a host sums its own ranks first, which takes fewer steps on many hosts.
  SumOrder order = SumOrder::Ranks;
};

/// A set of ranks, seen from one of them. A cheap handle: copies are the same group. It
/// may be used from several threads, but all ranks must make the same collective calls
/// in the same order.
///
///     comm::Group world = comm::init();
///     comm::all_reduce(world, gradients, {.op = comm::ReduceOp::Mean});
///     comm::Group row = world.split(world.rank() / 2);
///
/// When a rank fails, every call on every group of its world throws PeerError that
/// names it, until all ranks have called renew().
class Group {
 public:
  /// No group; what split() gives to ranks without a colour.
  Group() = default;
  /// Wraps an engine: for backends and tests. Programs call init() or run_local().
  explicit Group(std::shared_ptr<Engine> engine, const GroupOptions& options = {});

  explicit operator bool() const { return impl_ != nullptr; }
  int rank() const;
  int size() const;
  /// "none", "local", "shm", "mpi", or what register_backend() was given.
  std::string backend() const;
  /// The members' ranks in the world.
  const std::vector<int>& members() const;
  const GroupOptions& options() const;

  /// The group of all ranks that give the same `color`, ordered by `key` and then by
  /// rank. All ranks of this group must call it; a negative colour takes no part in any
  /// group.
  Group split(int color, int key = 0) const;

  /// Waits for what is queued and leaves. Later calls are InvalidArgument; the other
  /// ranks get PeerError if they still wait for this one. The last handle does it too.
  void close();

  /// After a failure: a new generation of the same ranks. All of them must call it,
  /// within the timeout. PeerError names a rank that is gone for good. Only for a
  /// world's own group: split it again afterwards, and open the channels again.
  Group renew() const;

  /// Tells the world that this rank cannot go on; the others throw PeerError with this
  /// text.
  void abort(const std::string& why) const;

  /// Leaves a note of what this rank is at: when others give up waiting for it in a
  /// collective, their TimeoutError shows it (on local and shm). An empty one takes it
  /// back. One a rank and world; of a long one the first 319 bytes.
  void set_note(const std::string& note) const;

  /// A tensor in memory that the peers can read in place, which saves large collectives
  /// a copy. Its content is undefined.
  at::Tensor allocate(
      at::IntArrayRef sizes, const at::TensorOptions& options = {}) const;

  /// The engine for calls that take no turn: it stays, even if another thread closes
  /// the group meanwhile.
  std::shared_ptr<Engine> share_engine() const;
  /// The engine for tensors of a device; NotSupported where this build has none. Valid
  /// until the group is closed, so for what runs in_order().
  Engine& engine(c10::DeviceType device = c10::DeviceType::CPU) const;

  /// Runs `body` in the order of this group's calls: now and here, or on the group's
  /// thread. A zero timeout means the group's. For those who add collectives.
  struct CallOrder {
    bool async = false;
    std::chrono::milliseconds timeout{0};
  };
  template <class Body>
  Work in_order(const CallOrder& order, Body&& body) const {
    if (order.async)
      return enqueue(order, std::forward<Body>(body));
    const auto lock = begin_call();
    body(deadline(order));
    return {};
  }

 private:
  struct Impl;
  std::unique_lock<std::mutex> begin_call() const;
  Work enqueue(const CallOrder& order, std::function<void(const Deadline&)> body) const;
  Deadline deadline(const CallOrder& order) const;
  Impl& impl() const;

  std::shared_ptr<Impl> impl_;
};

}  // namespace trireme::comm
