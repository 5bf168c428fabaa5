#include "trireme/core/segment_file.h"

#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/log.h"
#include "trireme/core/machine.h"

namespace trireme {
namespace {

constexpr const char* kPrefix = "trireme-";

[[noreturn]] void refuse(
    const std::string& path, const std::string& expected, const std::string& got) {
  throw InvalidArgument(text(
      "[comm] expected ",
      path,
      " to ",
      expected,
      ", got ",
      got,
      "; start the job with another MASTER_PORT, or have the file removed"));
}

bool creator_is_dead(const SegmentStamp& stamp) {
  return stamp.creator_pid_namespace == own_pid_namespace() &&  // else it is unknown
         process_ended(stamp.creator_pid, stamp.creator_start_time);
}

bool same_file(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Removes one file of the folder if it is a stale segment of this user's.
bool remove_if_stale(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid != geteuid())
    return false;
  try {
    const FoundSegment found = open_segment(path);
    const FileDescriptor close_it(found.fd);
    if (found.state != FoundSegment::State::Stale)
      return false;
    remove_segment(path, found);
    return true;
  } catch (const Error& error) {
    TRIREME_LOG(debug, "comm") << "left alone: " << error.what();
    return false;
  }
}

}  // namespace

std::string segment_name(const LaunchEnv& env) {
  const std::string key = text(
      geteuid(),
      '\n',
      env.master_addr,
      '\n',
      env.master_port,
      '\n',
      env.run_id,
      '\n',
      env.restart_count);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: a name, not a secret
  for (const char c : key)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016lx", hash);
  return text(kPrefix, digits);
}

SegmentStamp SegmentStamp::of_this_process() {
  SegmentStamp stamp;
  stamp.creator_pid = getpid();
  stamp.creator_start_time = process_start_time(getpid());
  stamp.creator_pid_namespace = own_pid_namespace();
  return stamp;
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
  const ssize_t got = ::pread(fd.get(), &found.stamp, sizeof found.stamp, 0);
  if (got != static_cast<ssize_t>(sizeof found.stamp) ||
      found.stamp.magic != SegmentStamp::kMagic)
    refuse(path, "be a segment of this version", "another file");
  found.state = creator_is_dead(found.stamp) ? FoundSegment::State::Stale
                                             : FoundSegment::State::Alive;
  found.fd = fd.release();
  return found;
}

void remove_segment(const std::string& path, const FoundSegment& found) noexcept try {
  // There is no "unlink if it is still this file": so it is put aside under a name that
  // nobody else uses, looked at there, and put back if it is another's.
  const std::string aside = text(path, ".", getpid());
  if (!same_file(found.fd, path) || ::rename(path.c_str(), aside.c_str()) != 0)
    return;
  if (!same_file(found.fd, aside))
    (void)::link(aside.c_str(), path.c_str());
  ::unlink(aside.c_str());
} catch (...) {
  // Tidying must never stop a job.
}

int remove_stale_segments(const std::string& folder) noexcept try {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      ::opendir(folder.c_str()), ::closedir);
  int removed = 0;
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name.starts_with(kPrefix) && remove_if_stale(text(folder, "/", name)))
      ++removed;
  }
  return removed;
} catch (...) {
  return 0;  // tidying must never stop a job
}

}  // namespace trireme
