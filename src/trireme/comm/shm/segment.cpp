#include "trireme/comm/shm/segment.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/file_memory.h"
#include "trireme/core/log.h"
#include "trireme/core/machine.h"

namespace trireme::comm {
namespace {

constexpr uint64_t kPage = 4096;
// All regions together: far below what an address space holds, also with sanitizers.
constexpr uint64_t kMostBytes = uint64_t{1} << 40;

std::string path_of(const std::string& name) {
  return text(kSegmentFolder, "/", name);
}

// As much address space for each rank as the machine has memory: only what is used
// counts.
uint64_t region_size(int size) {
  const uint64_t memory =
      std::bit_ceil(std::max<uint64_t>(available_memory_bytes(), uint64_t{1} << 30));
  const uint64_t share = std::bit_floor(kMostBytes / static_cast<uint64_t>(size));
  return std::min(memory, share);
}

// Staging is generous where /dev/shm is, and modest where a container has 64 MiB of it.
uint64_t staging_size(int size) {
  const uint64_t free = shared_memory_limits(kSegmentFolder).free_bytes;
  const uint64_t share = free / (8 * static_cast<uint64_t>(size));
  // A half holds a line for every rank, at least.
  const uint64_t least =
      std::bit_ceil(std::max(uint64_t{64} << 10, static_cast<uint64_t>(size) * 256));
  return std::clamp(
      std::bit_floor(std::max<uint64_t>(share, 1)),
      least,
      std::max(least, uint64_t{4} << 20));
}

uint64_t header_size(int size) {
  const uint64_t bytes =
      sizeof(SegmentHeader) + sizeof(ProcessSlot) * static_cast<uint64_t>(size);
  return (bytes + kPage - 1) / kPage * kPage;
}

void check_fits(
    const SegmentHeader& header, const std::string& path, int fd, int size) {
  if (header.stamp.layout != SegmentHeader::kLayout)
    throw InvalidArgument(text(
        "[comm] expected rank 0 to have made ",
        path,
        " with layout ",
        SegmentHeader::kLayout,
        ", got ",
        header.stamp.layout,
        "; start all ranks from the same build"));
  const int32_t ranks = header.stamp.size;
  struct stat status {};
  const bool sane =
      ::fstat(fd, &status) == 0 && ranks > 0 && header.region_bytes <= kMostBytes &&
      header.regions_begin == header_size(ranks) &&
      static_cast<uint64_t>(status.st_size) ==
          header.regions_begin + header.region_bytes * static_cast<uint64_t>(ranks);
  if (!sane)
    throw InvalidArgument(text(
        "[comm] expected ",
        path,
        " to be whole, got a damaged one; remove it and start again"));
  if (ranks != size)
    throw InvalidArgument(text(
        "[comm] expected a world of ",
        ranks,
        " ranks, as rank 0 started it, got WORLD_SIZE=",
        size,
        " here; start all ranks with the same WORLD_SIZE"));
}

// The whole header of a segment whose stamp was read; checked by check_fits().
SegmentHeader read_header(const FoundSegment& found) {
  SegmentHeader header;
  if (::pread(found.fd, &header, sizeof header, 0) !=
      static_cast<ssize_t>(sizeof header))
    header.stamp = found.stamp;  // of another layout, and shorter
  return header;
}

}  // namespace

// Where rank 0 has started the world, it has given up because of a rank that ended
// before.
void check_start(const RankRoll& roll, int first_rank) {
  if (!roll.has_ended(0))
    return;
  const int ended = roll.first_ended();
  throw PeerError(
      first_rank + ended,
      text(
          "[comm] expected rank ",
          first_rank + ended,
          ended == 0 ? " to start" : " to join",
          " the world, but its process has ended; see its own output"));
}

Segment::Segment(int fd, size_t bytes) : fd_(fd), bytes_(bytes) {
  void* mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    throw InvalidArgument(text(
        "[comm] expected to map ",
        bytes >> 30,
        " GiB of address space, got: ",
        errno_text(error),
        "; raise the limit on virtual memory (ulimit -v unlimited)"));
  }
  base_ = static_cast<std::byte*>(mapped);
  // A core dump would hold it all, page by page: it could fill the disk, or /dev/shm.
  (void)::madvise(mapped, bytes, MADV_DONTDUMP);
}

Segment::~Segment() {
  unlink();
  ::munmap(base_, bytes_);
  ::close(fd_);
}

std::shared_ptr<Segment> Segment::create(int size) {
  // Without a name until it is ready: a job that dies here leaves nothing behind.
  FileDescriptor fd(::open(kSegmentFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.get() < 0)
    throw InvalidArgument(text(
        "[comm] expected to make a segment in ",
        kSegmentFolder,
        ", got: ",
        errno_text(errno),
        "; mount a tmpfs there"));
  const uint64_t region = region_size(size);
  const uint64_t bytes = header_size(size) + region * static_cast<uint64_t>(size);
  // Beyond the limit ftruncate() would end the process with a signal.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    throw InvalidArgument(text(
        "[comm] expected to make a sparse file of ",
        bytes >> 30,
        " GiB, but files may have ",
        limit.rlim_cur >> 10,
        " KiB; raise the limit on file size (ulimit -f unlimited)"));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw InvalidArgument(text(
        "[comm] expected a sparse file of ",
        bytes >> 30,
        " GiB, got: ",
        errno_text(errno),
        "; raise the limit on file size (ulimit -f unlimited)"));
  std::shared_ptr<Segment> segment(new Segment(fd.release(), bytes));
  segment->commit(0, header_size(size));
  auto* header = new (segment->base_) SegmentHeader;
  header->stamp = SegmentStamp::of_this_process();
  header->stamp.layout = SegmentHeader::kLayout;
  header->stamp.size = size;
  header->regions_begin = header_size(size);
  header->region_bytes = region;
  header->staging_bytes = staging_size(size);
  for (int rank = 0; rank < size; ++rank)
    new (&header->process(rank)) ProcessSlot;
  return segment;
}

void Segment::publish(const std::string& name) {
  const std::string path = path_of(name);
  const std::string self = text("/proc/self/fd/", fd_);
  for (int attempt = 0; attempt < 16; ++attempt) {
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) ==
        0) {
      name_ = name;
      return;
    }
    if (errno != EEXIST)
      throw InvalidArgument(text(
          "[comm] expected to make ",
          path,
          ", got: ",
          errno_text(errno),
          "; free room in /dev/shm, or make it writable"));
    const FoundSegment found = open_segment(path);
    FileDescriptor close_it(found.fd);
    if (found.state == FoundSegment::State::Alive)
      throw InvalidArgument(text(
          "[comm] expected ",
          path,
          " to be free, but process ",
          found.stamp.creator_pid,
          " uses it; give this job another MASTER_PORT or run id"));
    if (found.state == FoundSegment::State::Stale) {
      TRIREME_LOG(info, "comm") << "replacing " << path << " of a job that died";
      remove_segment(path, found);
    }
  }
  throw InvalidArgument(text(
      "[comm] expected to make ",
      path,
      ", but others keep making it; give this job another MASTER_PORT or run id"));
}

void Segment::unlink() noexcept {
  if (name_.empty())
    return;
  // Another job that tidies up may have put it aside for a moment (remove_segment()).
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (::unlink(path_of(name_).c_str()) == 0 || errno != ENOENT)
      break;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  name_.clear();
}

std::shared_ptr<Segment> Segment::attach(
    const std::string& name,
    int rank,
    int size,
    const Deadline& deadline,
    const std::function<void()>& check) {
  const std::string path = path_of(name);
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    FoundSegment found = open_segment(path);
    FileDescriptor fd(found.fd);
    if (found.state == FoundSegment::State::Alive) {
      const SegmentHeader header = read_header(found);
      check_fits(header, path, fd.get(), size);
      const size_t bytes =
          header.regions_begin + header.region_bytes * static_cast<uint64_t>(size);
      std::shared_ptr<Segment> segment(new Segment(fd.release(), bytes));
      segment->claim(rank);
      return segment;
    }
    if (check)
      check();
    if (deadline.expired())
      throw TimeoutError(text(
          "[comm] expected rank 0 to start the world within ",
          deadline.allowed().count(),
          " ms, but it did not come (no ",
          path,
          "); see whether rank 0 runs, on this host, with the same MASTER_ADDR and "
          "MASTER_PORT"));
    std::this_thread::sleep_for(pause);
    pause =
        std::min<std::chrono::microseconds>(pause * 2, std::chrono::milliseconds(5));
  }
}

void Segment::claim(int rank) {
  ProcessSlot& slot = header().process(rank);
  uint32_t empty = ProcessSlot::Empty;
  if (!slot.state.compare_exchange_strong(empty, ProcessSlot::Claimed))
    throw InvalidArgument(text(
        "[comm] expected one process to be rank ",
        rank,
        ", got a second (the first has pid ",
        slot.pid,
        "); give every process its own RANK"));
  slot.pid = getpid();
  slot.start_time = process_start_time(getpid());
  slot.pid_namespace = own_pid_namespace();
  slot.state.store(ProcessSlot::Attached, std::memory_order_release);
}

void Segment::commit(uint64_t begin, uint64_t bytes) {
  const uint64_t done = take_file_memory(fd_, begin, bytes);
  if (done == bytes)
    return;
  const int error = errno;
  release_file_memory(fd_, begin, done);  // nobody uses what was taken so far
  const SharedMemoryLimits limits = shared_memory_limits(kSegmentFolder);
  throw InvalidArgument(text(
      "[comm] expected ",
      bytes >> 10,
      " KiB more of shared memory, but ",
      kSegmentFolder,
      " has ",
      limits.free_bytes >> 10,
      " of ",
      limits.total_bytes >> 10,
      " KiB free (",
      errno_text(error),
      "); enlarge it: mount -o remount,size=… ",
      kSegmentFolder,
      ", or --shm-size for a container"));
}

}  // namespace trireme::comm
