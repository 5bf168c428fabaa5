#include "trireme/comm/mpi/mpi_wire.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

WireSeat seat_of(MPI_Comm comm, uint32_t id) {
  int size = 0, rank = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  std::vector<int> here(static_cast<size_t>(size)), world(here.size());
  std::iota(here.begin(), here.end(), 0);
  MPI_Group group = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  check_mpi(
      MPI_Group_translate_ranks(group, size, here.data(), all, world.data()),
      "MPI_Group_translate_ranks");
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  return {.members = std::move(world), .rank = rank, .id = id};
}

// Transfers may be under way, into memory that the caller is about to free: an error
// of MPI's cannot be passed on.
void check_transfer(const MpiWorld& world, int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  try {
    check_mpi(code, call);
  } catch (const InternalError& error) {
    world.stop(error.what());
  }
}

}  // namespace

std::shared_ptr<MpiWire> MpiWire::root(
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
  return std::make_shared<MpiWire>(std::move(world), comm, 0);
}

MpiWire::MpiWire(std::shared_ptr<MpiWorld> world, MPI_Comm comm, uint32_t id)
    : Wire(seat_of(comm, id)), world_(std::move(world)), comm_(comm) {
  check_mpi(
      MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiWire::~MpiWire() {
  // By the letter of the standard all members free a communicator together; Open MPI
  // and MPICH do it here and now, without the others. Its number is then used again, so
  // it must be sure that nothing for it is still on the way. Collectives leave nothing
  // behind, but channels may: credit that came too late, or messages that nobody
  // wanted.
  if (!channels_.load(std::memory_order_relaxed) && !world_->runtime().ended())
    MPI_Comm_free(&comm_);
}

template <class Start>
Wire::Transfer MpiWire::start(int sender, size_t bytes, const Start& start_piece) {
  const size_t most = world_->transfer_bytes();
  const size_t first = requests_.size();
  for (size_t at = 0; at < bytes; at += most) {
    senders_.push_back(sender);
    start_piece(
        at,
        static_cast<int>(std::min(most, bytes - at)),
        &requests_.emplace_back(MPI_REQUEST_NULL));
  }
  return {.first = first, .count = requests_.size() - first};
}

Wire::Transfer MpiWire::send(int peer, const std::byte* data, size_t bytes) {
  return start(-1, bytes, [&](size_t at, int count, MPI_Request* request) {
    check_transfer(
        *world_,
        MPI_Isend(data + at, count, MPI_BYTE, peer, kCollectiveTag, comm_, request),
        "MPI_Isend");
  });
}

Wire::Transfer MpiWire::receive(int peer, std::byte* data, size_t bytes) {
  return start(peer, bytes, [&](size_t at, int count, MPI_Request* request) {
    check_transfer(
        *world_,
        MPI_Irecv(data + at, count, MPI_BYTE, peer, kCollectiveTag, comm_, request),
        "MPI_Irecv");
  });
}

void MpiWire::wait_for(size_t first, size_t count) {
  const auto done = [&] {
    int all = 0;
    check_transfer(
        *world_,
        MPI_Testall(
            static_cast<int>(count),
            requests_.data() + first,
            &all,
            MPI_STATUSES_IGNORE),
        "MPI_Testall");
    return all != 0;
  };
  if (count > 0 && !poll_until(done, world_->policy(), deadline()))
    time_out();
}

void MpiWire::wait(const Transfer& transfer) {
  wait_for(transfer.first, transfer.count);
}

void MpiWire::finish() {
  wait_for(0, requests_.size());
  requests_.clear();
  senders_.clear();
}

void MpiWire::post(int peer, std::span<const std::byte> bytes) {
  has_channels();  // nobody may ever receive it
  Buffer copy = world_->pool().take(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  world_->runtime().progress().send(
      {.to = peer, .tag = kCollectiveTag, .comm = comm_},
      std::move(copy),
      static_cast<int>(bytes.size()),
      MPI_BYTE);
}

void MpiWire::time_out() {
  std::vector<int> waited_for;
  for (size_t i = 0; i < requests_.size(); ++i) {
    int came = 1;
    if (senders_[i] >= 0 && requests_[i] != MPI_REQUEST_NULL)
      MPI_Request_get_status(requests_[i], &came, MPI_STATUS_IGNORE);
    if (came == 0)
      waited_for.push_back(senders_[i]);
  }
  world_->stop(
      late_text(waited_for) + ". MPI cannot take a call back, so the job ends here");
}

// The ranks have agreed that this is a split, so all of them are on their way into this
// call of MPI's, which waits without a deadline.
std::shared_ptr<Wire> MpiWire::split(const Part& part) {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split(
          comm_, part.color < 0 ? MPI_UNDEFINED : part.color, part.key, &comm),
      "MPI_Comm_split");
  if (part.color < 0)
    return nullptr;
  return std::make_shared<MpiWire>(world_, comm, part.seat.id);
}

std::unique_ptr<SendPort> MpiWire::open_send(
    int to, int tag, const ChannelOptions& options) {
  return lanes_.open_send(shared_from_this(), to, tag, options);
}

std::unique_ptr<ReceivePort> MpiWire::open_receive(int from, int tag) {
  return lanes_.open_receive(shared_from_this(), from, tag);
}

std::shared_ptr<Wire> MpiWire::renew(const Deadline&) {
  throw NotSupported(
      "[comm] expected a backend whose world can outlive a failure, got \"mpi\"; MPI "
      "has "
      "no way back: start the job again from its last checkpoint");
}

}  // namespace trireme::comm
