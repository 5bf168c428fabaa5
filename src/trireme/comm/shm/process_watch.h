// Notices ranks whose process has ended, through pidfds.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "trireme/comm/shared/world.h"
#include "trireme/comm/shm/segment.h"

namespace trireme::comm {

/// Opens a pidfd a peer at the first question about it; sees a killed process at once,
/// also before its parent has reaped it. Thread-safe.
class ProcessWatch : public PeerWatch {
 public:
  explicit ProcessWatch(std::shared_ptr<Segment> segment);
  ~ProcessWatch() override;
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  /// False also for a rank that has not come yet, or that lives where we cannot see.
  bool is_dead(int rank) override;

 private:
  std::shared_ptr<Segment> segment_;
  std::mutex mutex_;
  std::vector<int> fds_;  // -1: not opened yet
  std::vector<bool> dead_;
};

}  // namespace trireme::comm
