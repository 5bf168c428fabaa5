// One job at a time in a run's folder.
#pragma once
#include <filesystem>
#include <memory>

#include "trireme/ckpt/folder_lock.h"
#include "trireme/comm/group.h"

namespace trireme::train {

/// The mark of a job that trains in a folder. It goes with the process, however that
/// ends; RUN/job.pid says whose it is. Reading there, as sampling does, needs none. On
/// filesystems without locks everybody gets one.
class RunLock {
 public:
  /// InvalidArgument names the process that has it, and what to do.
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path owner_;
  ckpt::FolderLock lock_;
};

/// Rank 0 takes the lock, and keeps it for all; the others get null. Collective over
/// the world: the same InvalidArgument on all ranks if another job has it.
std::unique_ptr<RunLock> lock_run(
    const comm::Group& world, const std::filesystem::path& run);

/// InvalidArgument if a job trains in that folder now; fine if there is no such folder.
void check_unlocked(const std::filesystem::path& run);

}  // namespace trireme::train
