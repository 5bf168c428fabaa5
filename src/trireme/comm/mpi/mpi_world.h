// What the groups of one rank share: MPI, how it waits, and its flight record.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/group_id.h"
#include "trireme/comm/mpi/mpi_runtime.h"
#include "trireme/comm/mpi/mpi_wait.h"

namespace trireme::comm {

/// Where one way of doing a collective gives way to another. The defaults are for
/// programs; tests set others to come to every branch with few ranks and bytes.
struct MpiTuning {
  /// Up to this many ranks tell one another of a call directly, so that those who did
  /// not come can be named; more agree by a tree.
  int direct_ranks = 16;
  /// Up to this many bytes of all ranks together everybody collects everything.
  size_t small_bytes = size_t{256} << 10;
  /// A large reduction is cut into pieces of this size.
  size_t chunk_bytes = size_t{8} << 20;
  /// The most that one transfer moves: MPI counts bytes with an int.
  size_t transfer_bytes = size_t{1} << 30;
};

/// What a world is made of.
struct MpiSetup {
  int local_ranks = 1;
  std::string flight_folder;
  MpiTuning tuning;
};

/// A rank's hold on its world. If it goes while an exception is on its way, the rank
/// has failed, and the job is stopped when it exits.
class MpiWorld {
 public:
  MpiWorld(MpiRuntime& runtime, const MpiSetup& setup);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const { return runtime_.rank(); }
  int size() const { return runtime_.size(); }
  MpiRuntime& runtime() const { return runtime_; }
  const PollPolicy& policy() const { return policy_; }
  const MpiTuning& tuning() const { return tuning_; }
  FlightRecorder& recorder() const { return *recorder_; }
  /// Numbers for the groups that this rank leads.
  GroupIds& group_ids() { return group_ids_; }

  /// Writes the flight record, once, because a message did not come in time, and throws
  /// TimeoutError. The world goes on: channels are independent of one another.
  [[noreturn]] void time_out_channel(const std::string& what) const;

  /// Writes the flight record, prints "[comm] rank R of N stopped the world: WHY", and
  /// ends the job.
  [[noreturn]] void stop(const std::string& why) const noexcept;

 private:
  MpiRuntime& runtime_;
  PollPolicy policy_;
  MpiTuning tuning_;
  std::unique_ptr<FlightRecorder> recorder_;
  mutable std::atomic<bool> timeout_noted_{false};
  int exceptions_at_start_;
  GroupIds group_ids_{rank(), size()};
};

}  // namespace trireme::comm
