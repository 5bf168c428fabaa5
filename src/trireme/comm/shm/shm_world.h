// Ranks as processes of one host: meeting in a segment.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "trireme/comm/backend.h"
#include "trireme/comm/shared/shared_engine.h"
#include "trireme/comm/shm/region_memory.h"
#include "trireme/comm/shm/segment.h"

namespace trireme::comm {

/// The backend "shm": rank 0 makes the segment, all take their places, then its name
/// goes.
std::shared_ptr<Engine> start_shm(const BackendContext& context);

/// How the ranks of a host hear of the larger world while they come together.
struct HostJoin {
  /// Called while they wait for the segment; may throw.
  std::function<void()> check;
  /// Called with their world before all have come.
  std::function<void(const std::shared_ptr<World>&)> made;
  /// Ranks of other hosts that share this machine.
  std::vector<RankCores> neighbours;
};

/// The ranks of this host, where they are a part of a larger world; `context.env` is
/// that world's. Their segment has a name of its own, also if another "host" of the
/// same job is on this machine.
std::shared_ptr<SharedEngine> start_shm_host(
    const BackendContext& context, HostJoin join = {});

/// The same engines for ranks that are threads of this process, which share one
/// mapping: lets ThreadSanitizer look at the code that runs between processes.
class ShmThreadWorld {
 public:
  explicit ShmThreadWorld(int size);
  std::shared_ptr<Engine> join(int rank, const Deadline& deadline) const;

 private:
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<RegionMemory> first_;
};

}  // namespace trireme::comm
