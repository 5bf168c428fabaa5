#include "trireme/net/file_lock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <thread>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::net {
namespace {

// F_OFD_SETLK is Linux's lock of an open file (3.15); NFS carries it as a byte range
// lock.
bool change_lock(int fd, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  int result = 0;
  do {
    result = ::fcntl(fd, F_OFD_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

FileLock::FileLock(int fd, Deadline deadline, const std::string& path) : fd_(fd) {
  // The kernel's own waiting knows no deadline. A holder is done within microseconds on
  // a local disk, and within milliseconds on a remote one.
  auto pause = std::chrono::microseconds(20);
  while (!change_lock(fd, F_WRLCK)) {
    if (errno != EAGAIN && errno != EACCES)
      throw Error(text(
          "[net] expected to lock ",
          in_quotes(path),
          ", got ",
          errno_text(errno),
          "; choose a folder on a file system with locks"));
    if (deadline.expired())
      throw TimeoutError(text(
          "[net] expected the lock of ",
          in_quotes(path),
          " within ",
          deadline.allowed().count(),
          " ms, got none: another process holds it; see whether one that uses the "
          "store was stopped"));
    std::this_thread::sleep_for(
        std::min<Deadline::Clock::duration>(pause, deadline.remaining()));
    pause = std::min(pause * 3 / 2, std::chrono::microseconds(5000));
  }
}

FileLock::~FileLock() {
  change_lock(fd_, F_UNLCK);
}

}  // namespace trireme::net
