// One rank's side of a group: its communicator, how its calls begin, and the transfers
// that they are made of.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/collective.h"
#include "trireme/comm/mpi/mpi_api.h"
#include "trireme/comm/mpi/mpi_world.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// A group of ranks with a communicator of its own. Collectives use it from one thread
/// at a time; channels send on the same communicator, under other tags.
class MpiGroup {
 public:
  /// Takes the communicator over.
  MpiGroup(std::shared_ptr<MpiWorld> world, MPI_Comm comm);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  MpiWorld& world() const { return *world_; }
  const std::shared_ptr<MpiWorld>& world_pointer() const { return world_; }
  MPI_Comm comm() const { return comm_; }

  /// Keeps the communicator until MPI ends; see the destructor.
  void has_channels() { channels_.store(true, std::memory_order_relaxed); }

  /// Bytes that can ride with the first step of a call.
  static constexpr size_t kPayload = 56;
  /// Starts a call; the deadline holds for all of it, and must outlive it.
  void begin(const Collective& call, const Deadline& deadline);
  /// The first step of every call: meets everybody, and throws InvalidArgument on every
  /// rank unless all made the same call. The payload comes along if carries_payload().
  void enter(std::span<const std::byte> payload = {});
  bool carries_payload() const { return size() <= world_->tuning().direct_ranks; }
  /// What `peer` has sent along with enter().
  const std::byte* payload(int peer) const {
    return slots_[static_cast<size_t>(peer)].payload;
  }

  /// Transfers that run side by side until finish(). Those between two ranks arrive in
  /// the order in which they were started; nothing happens for zero bytes.
  void send(int peer, const std::byte* data, size_t bytes);
  void receive(int peer, std::byte* data, size_t bytes);
  /// A request for a non-blocking call of MPI's own, to be finished with the others.
  MPI_Request* request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  /// Waits for all of them. What has begun cannot be taken back, since MPI would still
  /// write to the caller's memory: if the deadline passes, the job ends.
  void finish();

 private:
  /// What the ranks tell one another at the start of a call: a cache line.
  struct alignas(64) Slot {
    uint64_t signature = 0;
    std::byte payload[kPayload];
  };
  void enter_directly();
  void enter_by_tree();
  bool done();
  [[noreturn]] void time_out();

  std::shared_ptr<MpiWorld> world_;
  MPI_Comm comm_;
  std::vector<int> members_;
  int rank_ = 0;
  std::atomic<bool> channels_{false};
  std::vector<Slot> slots_;
  std::vector<MPI_Request> requests_;
  bool entering_ = false;  // waiting for everybody to come, and knowing who has
  uint64_t signature_ = 0;
  const Deadline* deadline_ = nullptr;
};

}  // namespace trireme::comm
