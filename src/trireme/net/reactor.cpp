#include "trireme/net/reactor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/eventfd.h>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::net {
namespace {

constexpr std::size_t kScratchBytes = std::size_t{128} << 10;
// A wait that was shorter than this is followed by one that looks for so long.
constexpr auto kLively = std::chrono::microseconds(500);
constexpr auto kLook = std::chrono::microseconds(100);

int checked_fd(int fd, const char* call) {
  if (fd < 0)
    throw InvalidArgument(text(
        "[net] expected ",
        call,
        " to give a file descriptor, got ",
        errno_text(errno),
        "; raise the limit of open files (ulimit -n)"));
  return fd;
}

}  // namespace

Reactor::Reactor()
    : epoll_(checked_fd(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      bell_(checked_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      scratch_(kScratchBytes) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = bell_.get()}};
  TRIREME_ASSERT(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &event) == 0);
  thread_ = std::thread([this] { loop(); });
}

Reactor::~Reactor() {
  stop();
}

void Reactor::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_)
      return;
    posted_.push_back(std::move(task));
    if (posted_.size() > 1)
      return;  // the bell has rung
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof(one));
}

void Reactor::stop() {
  TRIREME_ASSERT(!in_thread());
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof(one));
  if (thread_.joinable())
    thread_.join();
}

void Reactor::watch(int fd, std::shared_ptr<Handler> handler) {
  epoll_event event{
      .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.fd = fd}};
  TRIREME_ASSERT(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  handlers_[fd] = std::move(handler);
}

void Reactor::forget(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

void Reactor::again(int fd) {
  again_.push_back(fd);
}

void Reactor::at(Clock::time_point time, std::function<void()> task) {
  timers_.emplace(time, std::move(task));
}

int Reactor::wait_time() const {
  if (!again_.empty())
    return 0;
  if (timers_.empty())
    return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      timers_.begin()->first - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

void Reactor::run_posted() {
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto bytes = ::read(bell_.get(), &rings, sizeof(rings));
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks)
    task();
}

void Reactor::run_due() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

int Reactor::await(std::span<epoll_event> events) {
  const auto look = [&](int limit) {
    return ::epoll_wait(
        epoll_.get(), events.data(), static_cast<int>(events.size()), limit);
  };
  const int limit = wait_time();
  if (limit == 0)
    return look(0);
  const auto start = Clock::now();
  int count = 0;
  while (lively_ && count == 0 && Clock::now() - start < kLook) {
    count = look(0);
    if (count == 0)
      std::this_thread::yield();
  }
  if (count == 0)
    count = look(limit);
  lively_ = looks_.load(std::memory_order_relaxed) && Clock::now() - start < kLively;
  return count;
}

void Reactor::loop() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = await(events);
    const std::vector<int> turns = std::exchange(again_, {});
    bool rung = false;
    const auto turn = [this](int fd) {
      const auto found = handlers_.find(fd);
      // A number that was closed and given to another socket in this round does no
      // harm: that one finds nothing to do.
      if (found != handlers_.end())
        std::shared_ptr<Handler>(found->second)->ready();
    };
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      fd == bell_.get() ? void(rung = true) : turn(fd);
    }
    for (const int fd : turns)
      turn(fd);
    run_due();
    if (!rung)
      continue;
    run_posted();
    const std::lock_guard lock(mutex_);
    ended_ = stopping_ && posted_.empty();
    if (ended_)
      break;
  }
  // What is left may own what owns this.
  handlers_.clear();
  timers_.clear();
}

}  // namespace trireme::net
