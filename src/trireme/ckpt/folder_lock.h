// Tells a folder that is being written from one that a killed process has left.
#pragma once
#include <filesystem>

namespace trireme::ckpt {

/// The mark of a folder that is being used. It goes with the process, however that
/// ends. On filesystems without locks nobody can tell.
class FolderLock {
 public:
  enum class State { Held, Busy, Unknown };
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  State state() const { return state_; }

 private:
  int fd_ = -1;
  State state_ = State::Unknown;
};

}  // namespace trireme::ckpt
