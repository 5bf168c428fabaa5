// The memory segment of a world of processes: how it is made, found, checked and
// removed.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include "trireme/core/deadline.h"
#include "trireme/core/rank_roll.h"
#include "trireme/core/segment_file.h"

namespace trireme::comm {

/// The process behind a rank.
struct ProcessSlot {
  enum State : uint32_t { Empty, Claimed, Attached };
  std::atomic<uint32_t> state{Empty};
  int32_t pid = 0;
  uint64_t start_time = 0;
  uint64_t pid_namespace = 0;
};

/// Stands at the start of the segment; a ProcessSlot a rank follows, then the ranks'
/// regions.
struct SegmentHeader {
  /// Grows with every change of what the segment holds.
  static constexpr uint32_t kLayout = 4;
  SegmentStamp stamp;
  uint64_t regions_begin = 0;
  uint64_t region_bytes = 0;
  uint64_t staging_bytes = 0;
  /// Offsets of the world's control block and of the flight recorder's rings.
  uint64_t control = 0;
  uint64_t flight = 0;

  ProcessSlot& process(int rank) {
    return reinterpret_cast<ProcessSlot*>(this + 1)[rank];
  }
};

/// A mapped segment. The file behind it is sparse: memory is taken as ranks commit it.
class Segment {
 public:
  /// A new segment for `size` ranks, with no name yet: if this process dies, it is
  /// gone.
  static std::shared_ptr<Segment> create(int size);

  /// Finds the segment that rank 0 published, and takes `rank`'s place in it. Passes
  /// over the remains of dead jobs. `check` is called while it waits, and may throw.
  static std::shared_ptr<Segment> attach(
      const std::string& name,
      int rank,
      int size,
      const Deadline& deadline,
      const std::function<void()>& check = nullptr);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Gives the segment its name, so that the other ranks find it. Replaces one whose
  /// creator is dead; InvalidArgument if a living job or another user holds the name.
  void publish(const std::string& name);
  /// Takes the name away again; the memory lives on as long as somebody maps it.
  void unlink() noexcept;
  /// Enters this process as `rank`; InvalidArgument if another is there.
  void claim(int rank);

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  /// Takes memory for a range; InvalidArgument says how much was free if there is not
  /// enough. Without it a write would end the process.
  void commit(uint64_t begin, uint64_t bytes);

 private:
  Segment(int fd, size_t bytes);

  int fd_;
  size_t bytes_;
  std::byte* base_;
  std::string name_;
};

/// PeerError if there will be no segment, because rank 0 has ended, as `roll` may know:
/// it names the rank that ended first. `first_rank` is rank 0's name, where the ranks
/// are a part of a larger world.
void check_start(const RankRoll& roll, int first_rank = 0);

}  // namespace trireme::comm
