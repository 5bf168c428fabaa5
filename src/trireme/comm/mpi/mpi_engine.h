// The engine of ranks that talk through MPI.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/backend.h"
#include "trireme/comm/engine.h"
#include "trireme/comm/mpi/mpi_group.h"
#include "trireme/comm/mpi/mpi_ports.h"

namespace trireme::comm {

/// One rank's engine of one group. Groups of a world share its MpiWorld.
class MpiEngine : public Engine {
 public:
  /// The engine of the whole world, on a communicator of its own; meets all ranks.
  static std::shared_ptr<MpiEngine> root(
      std::shared_ptr<MpiWorld> world, const Deadline& deadline);

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::string backend() const override { return "mpi"; }
  const std::vector<int>& members() const override { return group_->members(); }
  void run(const Collective& call, const Deadline& deadline) override;
  std::shared_ptr<Engine> split(int color, int key, const Deadline& deadline) override;
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override;
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override;
  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) override;
  /// Ends the job, and does not come back.
  void abort(const std::string& why) noexcept override;
  /// There is nothing to find: the job ends with the first rank that fails.
  void check() const override {}
  std::shared_ptr<Engine> renew(const Deadline& deadline) override;

 private:
  MpiEngine(std::shared_ptr<MpiGroup> group, uint32_t id);

  std::shared_ptr<MpiGroup> group_;
  uint32_t id_;
  MpiLanes lanes_;
  uint32_t calls_ = 0;
};

/// start_mpi() with other limits than usual, for tests.
std::shared_ptr<Engine> start_mpi(
    const BackendContext& context, const MpiTuning& tuning);

}  // namespace trireme::comm
