#include "trireme/launch/console.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

// A pipe or a terminal, opened once more, has flags of its own. Without that a rank
// that fills the pipe just when we have found room in it would make us wait for the
// reader.
int open_again(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !(S_ISFIFO(status.st_mode) || ::isatty(fd) == 1))
    return -1;
  const std::string path = text("/proc/self/fd/", fd);
  return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

}  // namespace

Console::Console(int fd) : fd_(fd), own_(open_again(fd)) {}

Console::~Console() {
  close_in_child();
}

void Console::close_in_child() {
  if (own_ >= 0)
    ::close(own_);
  own_ = -1;
}

void Console::add(std::string_view bytes) {
  pending_.append(bytes);
  flush();
}

void Console::flush() {
  size_t done = 0;
  while (done < pending_.size() && !gone_) {
    pollfd wait{.fd = fd(), .events = POLLOUT, .revents = 0};
    if (::poll(&wait, 1, 0) != 1 || wait.revents == 0)
      break;
    // A pipe that poll() calls writable takes this much at once.
    const size_t piece = std::min<size_t>(pending_.size() - done, PIPE_BUF);
    const ssize_t written = ::write(fd(), pending_.data() + done, piece);
    if (written > 0)
      done += static_cast<size_t>(written);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR) {
      // A full disk loses what was printed, no more.
      gone_ = errno == EPIPE;
      done = pending_.size();
    }
  }
  if (gone_)
    pending_.clear();
  else
    pending_.erase(0, done);
}

}  // namespace trireme::launch
