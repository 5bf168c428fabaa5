// The file side of a segment: opening with suspicion, judging whether its job is dead.
#pragma once
#include <cstdint>
#include <string>

#include "trireme/comm/shm/segment.h"

namespace trireme::comm {

/// The inode of this process's pid namespace: pids of another one say nothing here.
uint64_t own_pid_namespace();

/// A segment file that was found under a name.
struct FoundSegment {
  enum class State { Missing, Stale, Alive };
  State state = State::Missing;
  int fd = -1;  // the caller closes it; -1 when missing
  SegmentHeader header;
};

/// Opens the file without following links. InvalidArgument when it belongs to another
/// user, is open to others, or is not a segment of ours.
FoundSegment open_segment(const std::string& path);

/// A file descriptor that closes itself.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  int get() const { return fd_; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

}  // namespace trireme::comm
