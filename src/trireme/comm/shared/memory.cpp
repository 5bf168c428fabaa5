#include "trireme/comm/shared/memory.h"

#include <iterator>
#include <new>

#include "trireme/core/error.h"

namespace trireme::comm {

namespace {
constexpr auto kAlign = std::align_val_t(SharedMemory::kBlockAlignment);
}

void SharedMemory::retire(std::function<bool()> try_free) {
  if (try_free())
    return;
  std::lock_guard lock(retired_mutex_);
  retired_.push_back(std::move(try_free));
}

void SharedMemory::reclaim() {
  std::vector<std::function<bool()>> kept, done;  // destroyed after the lock is gone
  std::lock_guard lock(retired_mutex_);
  for (std::function<bool()>& try_free : retired_)
    (try_free() ? done : kept).push_back(std::move(try_free));
  retired_.swap(kept);
}

void SharedMemory::forget_retired() {
  std::vector<std::function<bool()>> dropped;  // destroyed after the lock is gone
  std::lock_guard lock(retired_mutex_);
  dropped.swap(retired_);
}

HeapMemory::~HeapMemory() {
  for (const uint64_t offset : blocks_)
    ::operator delete(at(offset), kAlign);
}

uint64_t HeapMemory::allocate(size_t bytes) {
  void* block = ::operator new(bytes, kAlign, std::nothrow);
  if (block == nullptr)
    throw InvalidArgument(text(
        "[comm] expected ",
        bytes,
        " bytes of memory, but there are not so many; free some, or send less at "
        "once"));
  const uint64_t offset = offset_of(block);
  std::lock_guard lock(mutex_);
  blocks_.insert(offset);
  return offset;
}

void HeapMemory::release(uint64_t offset) {
  {
    std::lock_guard lock(mutex_);
    TRIREME_ASSERT(blocks_.erase(offset) == 1);
  }
  ::operator delete(at(offset), kAlign);
}

uint64_t BlockMap::take(size_t bytes) {
  constexpr uint64_t step = SharedMemory::kBlockAlignment;
  if (bytes > end_ - begin_)
    return end_;
  const uint64_t need = std::max<uint64_t>(1, (bytes + step - 1) / step) * step;
  uint64_t offset = next_;
  if (const auto fit = free_by_size_.lower_bound({need, 0});
      fit != free_by_size_.end()) {
    const uint64_t have = fit->first;
    offset = fit->second;
    remove_free(offset, have);
    if (have > need)
      add_free(offset + need, have - need);
  } else if (need <= end_ - next_) {
    next_ += need;
  } else {
    return end_;
  }
  taken_.emplace(offset, need);
  used_ += need;
  return offset;
}

void BlockMap::give_back(uint64_t offset) {
  const auto block = taken_.find(offset);
  TRIREME_ASSERT(block != taken_.end());
  uint64_t bytes = block->second;
  used_ -= bytes;
  taken_.erase(block);
  if (const auto after = free_.find(offset + bytes); after != free_.end()) {
    const uint64_t extra = after->second;
    remove_free(offset + bytes, extra);
    bytes += extra;
  }
  if (const auto after = free_.lower_bound(offset); after != free_.begin()) {
    const auto [start, length] = *std::prev(after);
    if (start + length == offset) {
      remove_free(start, length);
      offset = start;
      bytes += length;
    }
  }
  if (offset + bytes == next_)
    next_ = offset;  // never leave a hole at the end: it may not be committed
  else
    add_free(offset, bytes);
}

void BlockMap::add_free(uint64_t offset, uint64_t bytes) {
  free_.emplace(offset, bytes);
  free_by_size_.emplace(bytes, offset);
}

void BlockMap::remove_free(uint64_t offset, uint64_t bytes) {
  free_.erase(offset);
  free_by_size_.erase({bytes, offset});
}

}  // namespace trireme::comm
