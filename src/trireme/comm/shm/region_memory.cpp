#include "trireme/comm/shm/region_memory.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// Memory is committed in steps of this size: small enough for a container's /dev/shm.
constexpr uint64_t kCommitStep = uint64_t{64} << 10;

uint64_t region_begin(const Segment& segment, int rank) {
  const SegmentHeader& header = segment.header();
  return header.regions_begin + header.region_bytes * static_cast<uint64_t>(rank);
}

}  // namespace

RegionMemory::RegionMemory(std::shared_ptr<Segment> segment, int rank)
    : SharedMemory(segment->base()),
      segment_(std::move(segment)),
      blocks_(
          region_begin(*segment_, rank),
          region_begin(*segment_, rank) + segment_->header().region_bytes),
      committed_(blocks_.begin()) {}

bool RegionMemory::contains(const void* pointer, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(pointer);
  return begin >= segment_->base() && bytes <= segment_->bytes() &&
         begin <= segment_->base() + segment_->bytes() - bytes;
}

uint64_t RegionMemory::allocate(size_t bytes) {
  try {
    return try_allocate(bytes);
  } catch (const InvalidArgument&) {
    reclaim();  // what was retired may make room
    return try_allocate(bytes);
  }
}

uint64_t RegionMemory::try_allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t offset = blocks_.take(bytes);
  if (offset == blocks_.end())
    throw InvalidArgument(text(
        "[comm] expected a block of at most ",
        (blocks_.end() - blocks_.begin()) >> 20,
        " MiB in all, got a wish for ",
        bytes >> 20,
        " MiB more; free tensors of the group, or send less at once"));
  if (blocks_.high_water() > committed_) {
    const uint64_t need = blocks_.high_water() - committed_;
    const uint64_t step = std::min(
        (need + kCommitStep - 1) / kCommitStep * kCommitStep,
        blocks_.end() - committed_);
    try {
      segment_->commit(committed_, step);
    } catch (...) {
      blocks_.give_back(offset);
      throw;
    }
    committed_ += step;
  }
  return offset;
}

void RegionMemory::release(uint64_t offset) {
  std::lock_guard lock(mutex_);
  blocks_.give_back(offset);
}

}  // namespace trireme::comm
