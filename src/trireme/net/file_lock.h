// A lock on a file that all processes of all hosts respect, with a deadline.
#pragma once
#include <string>

#include "trireme/core/deadline.h"

namespace trireme::net {

/// Holds the only lock on an open file, until it is destroyed or the process ends in
/// whatever way. It belongs to the open file and not to the process, so that two stores
/// of one process exclude each other too. The descriptor must be open for writing and
/// stay open.
///
///     const FileLock lock(fd, deadline, path);
class FileLock {
 public:
  /// Waits; tries at least once. TimeoutError if another process does not let go, Error
  /// if the file system knows no locks.
  FileLock(int fd, Deadline deadline, const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

}  // namespace trireme::net
