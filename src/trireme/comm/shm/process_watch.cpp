#include "trireme/comm/shm/process_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/core/machine.h"

namespace trireme::comm {

ProcessWatch::ProcessWatch(std::shared_ptr<Segment> segment, RankRoll roll)
    : segment_(std::move(segment)),
      roll_(std::move(roll)),
      own_namespace_(own_pid_namespace()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      sights_(static_cast<size_t>(segment_->header().stamp.size), Sight::Coming),
      fds_(sights_.size(), -1),
      coming_(sights_.size()) {
  std::iota(coming_.begin(), coming_.end(), 0);
}

ProcessWatch::~ProcessWatch() {
  for (const int fd : fds_)
    if (fd >= 0)
      ::close(fd);
}

std::vector<int> ProcessWatch::find_dead() {
  const std::lock_guard lock(mutex_);
  for (const int rank : coming_)
    meet(rank);
  std::erase_if(coming_, [this](int rank) {
    return sights_[static_cast<size_t>(rank)] != Sight::Coming;
  });
  look_at_watched();
  look_at_blind();
  return dead_;
}

// Looks whether the rank has come, and how it can be watched from then on.
void ProcessWatch::meet(int rank) {
  Sight& sight = sights_[static_cast<size_t>(rank)];
  // The roll is asked first: a rank may come, leave and end in between.
  const bool ended = roll_.has_ended(rank);
  const ProcessSlot& process = segment_->header().process(rank);
  if (process.state.load(std::memory_order_acquire) != ProcessSlot::Attached) {
    if (ended)
      set_dead(rank);
    return;
  }
  if (process.pid_namespace != own_namespace_) {
    sees_all_ = false;  // its pid says nothing here
    if (ended)
      set_dead(rank);
    return;
  }
  if (process.pid == getpid()) {
    sight = Sight::Self;
    return;
  }
  int& fd = fds_[static_cast<size_t>(rank)];
  fd = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  // Compared after opening: from here on the descriptor cannot mean another process.
  if (process_ended(process.pid, process.start_time)) {
    set_dead(rank);
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(rank);
  if (fd >= 0 && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    sight = Sight::Watched;
  } else {
    // Descriptors have run out, or the kernel has no pidfd.
    sees_all_ = false;
    sight = Sight::Blind;
    blind_.push_back(rank);
  }
}

void ProcessWatch::look_at_watched() {
  std::array<epoll_event, 64> events{};
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < count; ++i)
      set_dead(static_cast<int>(events[static_cast<size_t>(i)].data.u32));
  } while (count == static_cast<int>(events.size()));
}

// Each takes several system calls, so only a few at a time.
void ProcessWatch::look_at_blind() {
  constexpr size_t kAtOnce = 8;
  for (size_t i = std::min(kAtOnce, blind_.size()); i > 0 && !blind_.empty(); --i) {
    next_blind_ = (next_blind_ + 1) % blind_.size();
    const int rank = blind_[next_blind_];
    const ProcessSlot& process = segment_->header().process(rank);
    if (!process_ended(process.pid, process.start_time))
      continue;
    set_dead(rank);
    blind_.erase(blind_.begin() + static_cast<std::ptrdiff_t>(next_blind_));
  }
}

void ProcessWatch::set_dead(int rank) {
  Sight& sight = sights_[static_cast<size_t>(rank)];
  if (sight == Sight::Dead)
    return;
  sight = Sight::Dead;
  dead_.push_back(rank);
  int& fd = fds_[static_cast<size_t>(rank)];
  if (fd >= 0) {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    ::close(fd);
    fd = -1;
  }
}

}  // namespace trireme::comm
