// How much memory a file in memory has.
#pragma once
#include <cstdint>
#include <sys/stat.h>

namespace trireme::rpc {

inline std::int64_t memory_of(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  return status.st_blocks * 512;
}

}  // namespace trireme::rpc
