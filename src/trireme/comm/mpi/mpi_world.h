// What the groups of one rank share: MPI, how it waits, and its flight record.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "trireme/comm/mpi/mpi_runtime.h"
#include "trireme/comm/mpi/mpi_wait.h"
#include "trireme/comm/wire/wire.h"

namespace trireme::comm {

/// What a world is made of.
struct MpiSetup {
  int local_ranks = 1;
  std::string flight_folder;
  WireTuning tuning;
  /// The most that one transfer moves: MPI counts bytes with an int.
  size_t transfer_bytes = size_t{1} << 30;
};

/// A rank's hold on its world. If it goes while an exception is on its way, the rank
/// has failed, and the job is stopped when it exits.
class MpiWorld : public WireWorld {
 public:
  MpiWorld(MpiRuntime& runtime, const MpiSetup& setup);
  ~MpiWorld() override;

  MpiRuntime& runtime() const { return runtime_; }
  const PollPolicy& policy() const { return policy_; }
  size_t transfer_bytes() const { return transfer_bytes_; }
  BufferPool& pool() override { return runtime_.pool(); }
  void set_spin(std::chrono::nanoseconds spin) override { policy_.spin = spin; }

  /// Writes the flight record, once, because a message did not come in time, and throws
  /// TimeoutError. The world goes on: channels are independent of one another.
  [[noreturn]] void time_out_channel(const std::string& what) const;

  /// Writes the flight record, prints "[comm] rank R of N stopped the world: WHY", and
  /// ends the job.
  [[noreturn]] void stop(const std::string& why) const noexcept;
  [[noreturn]] void stop(const Failure& failure) noexcept override {
    stop(failure.why);
  }
  /// There is nothing to find: the job ends with the first rank that fails.
  void check() const override {}

 private:
  MpiRuntime& runtime_;
  PollPolicy policy_;
  size_t transfer_bytes_;
  mutable std::atomic<bool> timeout_noted_{false};
  int exceptions_at_start_;
};

}  // namespace trireme::comm
