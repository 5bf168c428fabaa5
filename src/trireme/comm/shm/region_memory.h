// One rank's part of a segment, as SharedMemory.
#pragma once
#include <memory>
#include <mutex>

#include "trireme/comm/shared/memory.h"
#include "trireme/comm/shm/segment.h"

namespace trireme::comm {

/// Allocates in the region of one rank and reads everywhere in the segment.
class RegionMemory : public SharedMemory {
 public:
  RegionMemory(std::shared_ptr<Segment> segment, int rank);
  bool contains(const void* pointer, size_t bytes) const override;
  uint64_t allocate(size_t bytes) override;
  void release(uint64_t offset) override;

 private:
  uint64_t try_allocate(size_t bytes);

  std::shared_ptr<Segment> segment_;
  std::mutex mutex_;
  BlockMap blocks_;
  uint64_t committed_;
};

}  // namespace trireme::comm
