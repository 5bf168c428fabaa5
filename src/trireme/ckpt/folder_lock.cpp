#include "trireme/ckpt/folder_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trireme::ckpt {

FolderLock::FolderLock(const std::filesystem::path& folder) {
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd_ < 0)
    return;
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    state_ = errno == EWOULDBLOCK ? State::Busy : State::Unknown;
    return;
  }
  // Whoever had the lock before may have removed the folder.
  struct stat here {};
  struct stat there {};
  const bool same = ::fstat(fd_, &here) == 0 && ::lstat(folder.c_str(), &there) == 0 &&
                    here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  state_ = same ? State::Held : State::Busy;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0)
    ::close(fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), state_(other.state_) {}

}  // namespace trireme::ckpt
