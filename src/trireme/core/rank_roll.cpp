#include "trireme/core/rank_roll.h"

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/file_descriptor.h"

namespace trireme {

// One byte a rank follows.
struct RankRoll::Page {
  static constexpr uint64_t kMagic = 0x4c4c4f5249525432;  // "2TRIROLL"
  uint64_t magic = kMagic;
  char job[40] = {};
  int32_t ranks = 0;
  std::atomic<int32_t> first_ended{kNobody};

  std::atomic<uint8_t>& ended(int rank) {
    return reinterpret_cast<std::atomic<uint8_t>*>(this + 1)[rank];
  }
  static size_t bytes(int ranks) {
    return sizeof(Page) + static_cast<size_t>(ranks) * sizeof(std::atomic<uint8_t>);
  }
  // Maps the file; null if that cannot be done.
  static std::shared_ptr<Page> map(int fd, size_t bytes, int protection) {
    void* place = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (place == MAP_FAILED)
      return nullptr;
    return {static_cast<Page*>(place), [bytes](Page* page) { ::munmap(page, bytes); }};
  }
};

RankRoll RankRoll::create(const std::string& job, int ranks) {
  RankRoll roll;
  const size_t bytes = Page::bytes(ranks);
  FileDescriptor fd(::memfd_create("trireme-rank-roll", MFD_CLOEXEC));
  if (fd.get() < 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      job.size() >= sizeof Page::job)
    return roll;
  roll.page_ = Page::map(fd.get(), bytes, PROT_READ | PROT_WRITE);
  if (!roll.page_)
    return roll;
  new (roll.page_.get()) Page;  // the bytes after it are zero: nobody has ended
  std::memcpy(roll.page_->job, job.c_str(), job.size());
  roll.page_->ranks = ranks;
  roll.fd_ = std::shared_ptr<int>(new int(fd.release()), [](int* owned) {
    ::close(*owned);
    delete owned;
  });
  return roll;
}

RankRoll RankRoll::find(const Environment& env, const std::string& job) {
  RankRoll roll;
  const std::string path(env.find(kVariable).value_or(""));
  if (path.empty())
    return roll;
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid() || status.st_size < static_cast<off_t>(Page::bytes(1)))
    return roll;
  const auto bytes = static_cast<size_t>(status.st_size);
  auto page = Page::map(fd.get(), bytes, PROT_READ);
  // A launcher inside a launcher's job may have passed on what is not its own.
  if (page && page->magic == Page::kMagic && page->ranks > 0 &&
      bytes == Page::bytes(page->ranks) &&
      job == std::string(page->job, ::strnlen(page->job, sizeof page->job)))
    roll.page_ = std::move(page);
  return roll;
}

std::string RankRoll::path() const {
  return fd_ ? text("/proc/", getpid(), "/fd/", *fd_) : "";
}

void RankRoll::set_ended(int rank) {
  if (!fd_ || rank < 0 || rank >= page_->ranks)
    return;
  // First: who sees that a rank has ended sees also whether it was the first.
  int32_t nobody = kNobody;
  page_->first_ended.compare_exchange_strong(nobody, rank, std::memory_order_release);
  page_->ended(rank).store(1, std::memory_order_release);
}

bool RankRoll::has_ended(int rank) const {
  return page_ && rank >= 0 && rank < page_->ranks &&
         page_->ended(rank).load(std::memory_order_acquire) != 0;
}

int RankRoll::first_ended() const {
  return page_ ? page_->first_ended.load(std::memory_order_acquire) : kNobody;
}

}  // namespace trireme
