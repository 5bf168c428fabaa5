// Ranks as threads of one process, which reach all of one another's memory.
#pragma once
#include <memory>
#include <string>

#include "trireme/comm/engine.h"
#include "trireme/comm/shared/memory.h"
#include "trireme/comm/shared/world.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// A world of `size` ranks in this process. Every rank joins from its own thread.
class LocalWorld {
 public:
  explicit LocalWorld(int size, const HostPlace& place = {});
  /// This rank's engine; meets the other ranks.
  std::shared_ptr<Engine> join(int rank, const Deadline& deadline) const;

 private:
  int size_;
  HostPlace place_;
  std::shared_ptr<HeapMemory> memory_;
  uint64_t control_;
  uint64_t flight_;
};

}  // namespace trireme::comm
