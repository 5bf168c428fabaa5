#include "trireme/comm/mpi/mpi_progress.h"

#include <chrono>
#include <exception>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// Rather often than seldom: while a message is on its way somebody waits for it.
constexpr std::chrono::microseconds kPause{20};

}  // namespace

void MpiProgress::send(
    const Envelope& envelope, Buffer buffer, int count, MPI_Datatype type) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Isend(
          buffer.data(),
          count,
          type,
          envelope.to,
          envelope.tag,
          envelope.comm,
          &request),
      "MPI_Isend");
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done == 0)
    adopt(request, std::move(buffer));
}

void MpiProgress::adopt(MPI_Request request, Buffer buffer) {
  {
    std::lock_guard lock(mutex_);
    fresh_.requests.push_back(request);
    fresh_.buffers.push_back(std::move(buffer));
    ++pending_;
    if (!thread_.joinable() && !stopping_)
      thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
}

size_t MpiProgress::pending() const {
  std::lock_guard lock(mutex_);
  return pending_;
}

size_t MpiProgress::drain(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (pending_ > 0 && !deadline.expired())
    changed_.wait_for(lock, std::chrono::milliseconds(10));
  return pending_;
}

void MpiProgress::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

// Asks about all of them, and lets go of those that are sent.
void MpiProgress::test(Transfers& active) {
  const auto count = static_cast<int>(active.requests.size());
  std::vector<int> indices(active.requests.size());
  int done = 0;
  check_mpi(
      MPI_Testsome(
          count, active.requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE),
      "MPI_Testsome");
  if (done == 0)
    return;
  size_t kept = 0;
  for (size_t i = 0; i < active.requests.size(); ++i)
    if (active.requests[i] != MPI_REQUEST_NULL) {
      active.requests[kept] = active.requests[i];
      active.buffers[kept++] = std::move(active.buffers[i]);
    }
  active.requests.resize(kept);
  active.buffers.resize(kept);
}

void MpiProgress::loop() {
  Transfers& active = active_;  // a member, since MPI may read it until it is finalized
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (active.requests.empty() && fresh_.requests.empty()) {
      changed_.wait(lock);
      continue;
    }
    for (size_t i = 0; i < fresh_.requests.size(); ++i) {
      active.requests.push_back(fresh_.requests[i]);
      active.buffers.push_back(std::move(fresh_.buffers[i]));
    }
    fresh_ = {};
    lock.unlock();
    try {
      test(active);
    } catch (const std::exception& error) {
      on_error_(error.what());
      std::terminate();
    }
    if (!active.requests.empty())
      std::this_thread::sleep_for(kPause);
    lock.lock();
    pending_ = active.requests.size() + fresh_.requests.size();
    if (pending_ == 0)
      changed_.notify_all();
  }
}

}  // namespace trireme::comm
