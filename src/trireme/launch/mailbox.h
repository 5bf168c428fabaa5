// Brings what happens on other threads to the thread that waits in poll().
#pragma once
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"

namespace trireme::launch {

/// Any thread puts in, one takes out when fd() becomes readable.
///
///     mailbox.put(event);                        // on an I/O thread
///     for (Event& event : mailbox.take()) …      // when poll() has named fd()
template <class Event>
class Mailbox {
 public:
  Mailbox() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (bell_.get() < 0)
      throw Error(text(
          "[launch] expected an eventfd, got ",
          errno_text(errno),
          "; raise ulimit -n"));
  }

  int fd() const { return bell_.get(); }

  void put(Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    const std::uint64_t one = 1;
    (void)!::write(bell_.get(), &one, sizeof one);
  }

  std::vector<Event> take() {
    std::uint64_t count = 0;
    (void)!::read(bell_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  FileDescriptor bell_;
  std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace trireme::launch
