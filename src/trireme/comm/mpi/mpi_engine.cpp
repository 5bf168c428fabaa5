#include "trireme/comm/mpi/mpi_engine.h"

#include <ATen/Functions.h>

#include "trireme/comm/mpi/mpi_collectives.h"
#include "trireme/core/error.h"

namespace trireme::comm {

MpiEngine::MpiEngine(std::shared_ptr<MpiGroup> group, uint32_t id)
    : group_(std::move(group)), id_(id), lanes_(group_, id) {}

std::shared_ptr<MpiEngine> MpiEngine::root(
    std::shared_ptr<MpiWorld> world, const Deadline& deadline) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request), "MPI_Comm_idup");
  const auto done = [&request] {
    int flag = 0;
    check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return flag != 0;
  };
  if (!poll_until(done, world->policy(), deadline))
    world->stop(text(
        "expected ",
        world->size(),
        " ranks at the start within ",
        deadline.allowed().count(),
        " ms, but not all of them came; see that every rank calls init(), or allow "
        "more "
        "time (TRIREME_TIMEOUT)"));
  return std::shared_ptr<MpiEngine>(
      new MpiEngine(std::make_shared<MpiGroup>(std::move(world), comm), 0));
}

void MpiEngine::run(const Collective& call, const Deadline& deadline) {
  if (size() == 1)
    return take_own(call, 0);
  auto record = group_->world().recorder().begin(
      {.what = signature(call), .group = id_, .sequence = ++calls_});
  group_->begin(call, deadline);
  try {
    switch (call.kind) {
      case CollectiveKind::AllReduce:
      case CollectiveKind::Reduce:
      case CollectiveKind::ReduceScatter:
        run_mpi_reduction(*group_, call);
        break;
      default:
        run_mpi_move(*group_, call);
    }
  } catch (const InternalError& error) {
    // Transfers may be under way, into memory that the caller is about to free.
    group_->world().stop(error.what());
  }
  record.done();
}

std::shared_ptr<Engine> MpiEngine::split(int color, int key, const Deadline& deadline) {
  // The ranks agree that this is a split before they go into a call of MPI's that waits
  // without a deadline: then all of them are on their way there.
  if (size() > 1)
    run({.kind = CollectiveKind::Split, .dtype = c10::ScalarType::Long, .count = 1},
        deadline);
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split(group_->comm(), color < 0 ? MPI_UNDEFINED : color, key, &comm),
      "MPI_Comm_split");
  if (color < 0)
    return nullptr;
  auto group = std::make_shared<MpiGroup>(group_->world_pointer(), comm);
  uint32_t id = group->rank() == 0 ? group->world().group_ids().next() : 0;
  check_mpi(MPI_Bcast(&id, 1, MPI_UINT32_T, 0, comm), "MPI_Bcast");
  return std::shared_ptr<MpiEngine>(new MpiEngine(std::move(group), id));
}

std::unique_ptr<SendPort> MpiEngine::open_send(
    int to, int tag, const ChannelOptions& options) {
  return lanes_.open_send(to, tag, options);
}

std::unique_ptr<ReceivePort> MpiEngine::open_receive(int from, int tag) {
  return lanes_.open_receive(from, tag);
}

at::Tensor MpiEngine::allocate(
    at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty(sizes, options);
}

void MpiEngine::abort(const std::string& why) noexcept {
  group_->world().stop(why);
}

std::shared_ptr<Engine> MpiEngine::renew(const Deadline&) {
  throw NotSupported(
      "[comm] expected a backend whose world can outlive a failure, got \"mpi\"; MPI "
      "has "
      "no way back: start the job again from its last checkpoint");
}

}  // namespace trireme::comm
