// MPI as a wire: a group is a communicator, and a transfer is a request of MPI's.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/comm/backend.h"
#include "trireme/comm/mpi/mpi_api.h"
#include "trireme/comm/mpi/mpi_ports.h"
#include "trireme/comm/mpi/mpi_world.h"
#include "trireme/comm/wire/wire.h"

namespace trireme::comm {

/// A group of ranks with a communicator of its own. Channels send on the same one,
/// under other tags.
class MpiWire : public Wire, public std::enable_shared_from_this<MpiWire> {
 public:
  /// The wire of the whole world, on a communicator of its own; meets all ranks.
  static std::shared_ptr<MpiWire> root(
      std::shared_ptr<MpiWorld> world, const Deadline& deadline);
  /// Takes the communicator over.
  MpiWire(std::shared_ptr<MpiWorld> world, MPI_Comm comm, uint32_t id);
  ~MpiWire() override;

  const std::shared_ptr<WireWorld>& share_world() const override { return shared_; }
  MpiWorld& world() const { return *world_; }
  MPI_Comm comm() const { return comm_; }

  /// Keeps the communicator until MPI ends; see the destructor.
  void has_channels() { channels_.store(true, std::memory_order_relaxed); }

  Transfer send(int peer, const std::byte* data, size_t bytes) override;
  Transfer receive(int peer, std::byte* data, size_t bytes) override;
  /// What has begun cannot be taken back, since MPI would still write to the caller's
  /// memory: if the deadline passes, the job ends.
  void wait(const Transfer& transfer) override;
  void finish() override;
  void post(int peer, std::span<const std::byte> bytes) override;

  std::shared_ptr<Wire> split(const Part& part) override;
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override;
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override;
  std::shared_ptr<Wire> renew(const Deadline& deadline) override;

 private:
  template <class Start>
  Transfer start(int peer, size_t bytes, const Start& start_piece);
  void wait_for(size_t first, size_t count);
  [[noreturn]] void time_out();

  std::shared_ptr<MpiWorld> world_;
  std::shared_ptr<WireWorld> shared_ = world_;
  MPI_Comm comm_;
  std::atomic<bool> channels_{false};
  std::vector<MPI_Request> requests_;
  std::vector<int> senders_;  // of each request: from whom it receives, or -1
  MpiLanes lanes_;
};

/// start_mpi() with other limits than usual, for tests.
std::shared_ptr<Engine> start_mpi(const BackendContext& context, MpiSetup setup);

}  // namespace trireme::comm
