#include "trireme/comm/shm/segment_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::comm {
namespace {

[[noreturn]] void refuse(
    const std::string& path, const std::string& wanted, const std::string& got) {
  throw InvalidArgument(text(
      "[comm] expected ",
      path,
      " to ",
      wanted,
      ", got ",
      got,
      "; start the job with another MASTER_PORT, or have the file removed"));
}

bool creator_is_dead(const SegmentHeader& header) {
  if (header.creator_pid_namespace != own_pid_namespace())
    return false;  // cannot be known from here
  return process_start_time(header.creator_pid) != header.creator_start_time;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0)
    ::close(fd_);
}

uint64_t own_pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

FoundSegment open_segment(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == ENOENT)
      return {};
    refuse(path, "be this user's segment", errno_text(errno));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse(path, "be a segment", "something that is not a file");
  if (status.st_uid != geteuid())
    refuse(
        path, text("belong to user ", geteuid()), text("user ", status.st_uid, "'s"));
  if ((status.st_mode & 077) != 0)
    refuse(path, "have mode 0600", "one that others may open");
  FoundSegment found;
  const ssize_t got = ::pread(fd.get(), &found.header, sizeof found.header, 0);
  if (got != static_cast<ssize_t>(sizeof found.header) ||
      found.header.magic != SegmentHeader::kMagic)
    refuse(path, "be a segment of this version", "another file");
  found.state = creator_is_dead(found.header) ? FoundSegment::State::Stale
                                              : FoundSegment::State::Alive;
  found.fd = fd.release();
  return found;
}

}  // namespace trireme::comm
