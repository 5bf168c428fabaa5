#include "trireme/comm/mpi/mpi_group.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

std::vector<int> members_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
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
  return world;
}

}  // namespace

MpiGroup::MpiGroup(std::shared_ptr<MpiWorld> world, MPI_Comm comm)
    : world_(std::move(world)), comm_(comm) {
  check_mpi(
      MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  members_ = members_of(comm_);
  slots_.resize(members_.size());
}

MpiGroup::~MpiGroup() {
  // By the letter of the standard all members free a communicator together; Open MPI
  // and MPICH do it here and now, without the others. Its number is then used again, so
  // it must be sure that nothing for it is still on the way. Collectives leave nothing
  // behind, but channels may: credit that came too late, or messages that nobody
  // wanted.
  if (!channels_.load(std::memory_order_relaxed) && !world_->runtime().ended())
    MPI_Comm_free(&comm_);
}

void MpiGroup::begin(const Collective& call, const Deadline& deadline) {
  signature_ = signature(call);
  deadline_ = &deadline;
}

void MpiGroup::enter(std::span<const std::byte> payload) {
  Slot& mine = slots_[static_cast<size_t>(rank_)];
  mine.signature = signature_;
  if (!payload.empty())
    std::memcpy(mine.payload, payload.data(), payload.size());
  carries_payload() ? enter_directly() : enter_by_tree();
  const auto differs = [this](const Slot& slot) {
    return slot.signature != signature_;
  };
  if (std::none_of(slots_.begin(), slots_.end(), differs)) [[likely]]
    return;
  std::vector<uint64_t> signatures;
  for (const Slot& slot : slots_)
    signatures.push_back(slot.signature);
  throw InvalidArgument(describe_mismatch(signatures, members_));
}

void MpiGroup::enter_directly() {
  const auto* mine =
      reinterpret_cast<const std::byte*>(&slots_[static_cast<size_t>(rank_)]);
  for (int i = 1; i < size(); ++i) {
    const int peer = (rank_ + size() - i) % size();
    receive(
        peer,
        reinterpret_cast<std::byte*>(&slots_[static_cast<size_t>(peer)]),
        sizeof(Slot));
  }
  for (int i = 1; i < size(); ++i)
    send((rank_ + i) % size(), mine, sizeof(Slot));
  entering_ = true;
  finish();
  entering_ = false;
}

// The highest of all signatures and of all their complements tell everybody the same:
// whether there is more than one. Only then all of them are collected.
void MpiGroup::enter_by_tree() {
  const uint64_t mine[2] = {signature_, ~signature_};
  uint64_t highest[2] = {0, 0};
  check_mpi(
      MPI_Iallreduce(mine, highest, 2, MPI_UINT64_T, MPI_MAX, comm_, request()),
      "MPI_Iallreduce");
  finish();
  for (Slot& slot : slots_)
    slot.signature = signature_;
  if (highest[0] == ~highest[1])
    return;
  std::vector<uint64_t> all(slots_.size());
  check_mpi(
      MPI_Iallgather(
          mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, comm_, request()),
      "MPI_Iallgather");
  finish();
  for (size_t i = 0; i < all.size(); ++i)
    slots_[i].signature = all[i];
}

void MpiGroup::send(int peer, const std::byte* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += world_->tuning().transfer_bytes)
    check_mpi(
        MPI_Isend(
            data + at,
            static_cast<int>(std::min(world_->tuning().transfer_bytes, bytes - at)),
            MPI_BYTE,
            peer,
            kCollectiveTag,
            comm_,
            request()),
        "MPI_Isend");
}

void MpiGroup::receive(int peer, std::byte* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += world_->tuning().transfer_bytes)
    check_mpi(
        MPI_Irecv(
            data + at,
            static_cast<int>(std::min(world_->tuning().transfer_bytes, bytes - at)),
            MPI_BYTE,
            peer,
            kCollectiveTag,
            comm_,
            request()),
        "MPI_Irecv");
}

bool MpiGroup::done() {
  int all = 0;
  check_mpi(
      MPI_Testall(
          static_cast<int>(requests_.size()),
          requests_.data(),
          &all,
          MPI_STATUSES_IGNORE),
      "MPI_Testall");
  return all != 0;
}

void MpiGroup::finish() {
  if (!poll_until([this] { return done(); }, world_->policy(), *deadline_))
    time_out();
  requests_.clear();
}

// The first requests of enter_directly() are what the peers send when they come.
void MpiGroup::time_out() {
  std::vector<int> missing;
  for (int i = 1; entering_ && i < size(); ++i) {
    int came = 1;
    MPI_Request_get_status(
        requests_[static_cast<size_t>(i - 1)], &came, MPI_STATUS_IGNORE);
    if (came == 0)
      missing.push_back(members_[static_cast<size_t>((rank_ + size() - i) % size())]);
  }
  std::sort(missing.begin(), missing.end());
  world_->stop(text(
      "expected ",
      size(),
      " ranks at ",
      describe(signature_),
      " of ",
      group_text(members_, world_->size()),
      " within ",
      deadline_->allowed().count(),
      " ms, but ",
      missing.empty() ? "it did not end" : rank_list(missing),
      missing.empty() ? "" : " did not come",
      "; look at the other ranks, or allow more time (TRIREME_TIMEOUT). MPI cannot "
      "take "
      "a call back, so the job ends here"));
}

}  // namespace trireme::comm
