// Notices ranks whose process has ended, through pidfds.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "trireme/comm/shared/world.h"
#include "trireme/comm/shm/segment.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/core/rank_roll.h"

namespace trireme::comm {

/// Opens a pidfd a peer when it is first asked, and looks at all of them with one
/// system call; sees a killed process at once, also before its parent has reaped it. Of
/// ranks that have not come yet it knows what the launcher's roll says. Thread-safe.
class ProcessWatch : public PeerWatch {
 public:
  explicit ProcessWatch(std::shared_ptr<Segment> segment, RankRoll roll = {});
  ~ProcessWatch() override;
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  /// Without those that live where we cannot see, and those of whom it cannot be known.
  std::vector<int> find_dead() override;
  bool sees_all() override { return sees_all_.load(std::memory_order_relaxed); }

 private:
  enum class Sight { Coming, Watched, Blind, Self, Dead };
  void meet(int rank);
  void look_at_watched();
  void look_at_blind();
  void set_dead(int rank);

  std::shared_ptr<Segment> segment_;
  RankRoll roll_;
  const uint64_t own_namespace_;
  std::mutex mutex_;
  FileDescriptor epoll_;
  std::vector<Sight> sights_;
  std::vector<int> fds_;  // -1: none
  std::vector<int> coming_;
  /// Ranks without a descriptor; looked at in turn.
  std::vector<int> blind_;
  size_t next_blind_ = 0;
  std::vector<int> dead_;
  std::atomic<bool> sees_all_{true};
};

}  // namespace trireme::comm
