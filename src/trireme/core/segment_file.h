// The files behind shared memory segments: their names, who made them, and what to do
// with those that dead jobs have left. In core, because the launcher sweeps them too.
#pragma once
#include <cstdint>
#include <string>

#include "trireme/core/launch_env.h"

namespace trireme {

/// Where segments have their names.
inline constexpr const char* kSegmentFolder = "/dev/shm";

/// The name of a job's segment: the same on all its ranks, different for other users,
/// jobs and restarts.
std::string segment_name(const LaunchEnv& env);

/// Stands at the start of every segment, in every layout: what it is, and who made it.
struct SegmentStamp {
  static constexpr uint64_t kMagic = 0x31454d4552495254;  // "TRIREME1"
  uint64_t magic = kMagic;
  /// Of what follows: the segments of another build have another number.
  uint32_t layout = 0;
  /// Ranks of its world.
  int32_t size = 0;
  int32_t creator_pid = 0;
  uint64_t creator_start_time = 0;
  uint64_t creator_pid_namespace = 0;

  /// With this process as the creator.
  static SegmentStamp of_this_process();
};

/// The inode of this process's pid namespace: pids of another one say nothing here.
uint64_t own_pid_namespace();

/// A segment file that was found under a name.
struct FoundSegment {
  enum class State { Missing, Stale, Alive };
  State state = State::Missing;
  int fd = -1;  // the caller closes it; -1 when missing
  SegmentStamp stamp;
};

/// Opens the file without following links. InvalidArgument when it belongs to another
/// user, is open to others, or is not a segment of ours.
FoundSegment open_segment(const std::string& path);

/// Takes the name away if it still means `found`, which was judged stale; another job
/// may have taken the name since.
void remove_segment(const std::string& path, const FoundSegment& found) noexcept;

/// Removes the names of all segments that this user's dead jobs have left between
/// publishing and attaching; how many.
int remove_stale_segments(const std::string& folder = kSegmentFolder) noexcept;

}  // namespace trireme
