#include "trireme/comm/shm/process_watch.h"

#include <cerrno>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/comm/shm/segment_file.h"
#include "trireme/core/machine.h"

namespace trireme::comm {

ProcessWatch::ProcessWatch(std::shared_ptr<Segment> segment)
    : segment_(std::move(segment)),
      fds_(static_cast<size_t>(segment_->header().size), -1),
      dead_(fds_.size(), false) {}

ProcessWatch::~ProcessWatch() {
  for (const int fd : fds_)
    if (fd >= 0)
      ::close(fd);
}

bool ProcessWatch::is_dead(int rank) {
  std::lock_guard lock(mutex_);
  const auto index = static_cast<size_t>(rank);
  if (dead_[index])
    return true;
  const ProcessSlot& process = segment_->header().process(rank);
  if (process.state.load(std::memory_order_acquire) != ProcessSlot::Attached ||
      process.pid_namespace != own_pid_namespace())
    return false;
  if (fds_[index] < 0) {
    fds_[index] = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
    // Compared after opening: from here on the descriptor cannot mean another process.
    // This also serves where descriptors have run out or the kernel has no pidfd.
    if (process_start_time(process.pid) != process.start_time)
      return dead_[index] = true;
    if (fds_[index] < 0)
      return false;
  }
  pollfd poll_for{fds_[index], POLLIN, 0};
  dead_[index] = ::poll(&poll_for, 1, 0) == 1;
  return dead_[index];
}

}  // namespace trireme::comm
