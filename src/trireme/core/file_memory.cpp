#include "trireme/core/file_memory.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/falloc.h>

namespace trireme {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;
constexpr std::uint64_t kLeastPiece = std::uint64_t{64} << 10;
constexpr int kMostInterruptions = 10000;

}  // namespace

std::uint64_t take_file_memory(int fd, std::uint64_t begin, std::uint64_t bytes) {
  std::uint64_t done = 0;
  std::uint64_t piece = kPiece;
  int interrupted = 0;
  while (done < bytes) {
    const std::uint64_t now = std::min(piece, bytes - done);
    const auto at = static_cast<off_t>(begin + done);
    if (::fallocate(fd, 0, at, static_cast<off_t>(now)) == 0) {
      done += now;
      interrupted = 0;
    } else if (errno == EINTR && ++interrupted < kMostInterruptions) {
      piece = std::max(piece / 2, kLeastPiece);  // signals come faster than this
    } else {
      break;
    }
  }
  return done;
}

void release_file_memory(int fd, std::uint64_t begin, std::uint64_t bytes) {
  // It fails for files alone that have no holes, and those have no memory either.
  if (bytes > 0)
    (void)::fallocate(
        fd,
        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
        static_cast<off_t>(begin),
        static_cast<off_t>(bytes));
}

}  // namespace trireme
