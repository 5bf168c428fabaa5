// Where the launcher's own output goes: stdout and stderr, which may be slow or gone.
#pragma once
#include <string>
#include <string_view>

namespace trireme::launch {

/// Writes to a file descriptor that belongs to others too, so that it cannot be made
/// non-blocking itself: what does not fit now waits here.
class Console {
 public:
  /// Beyond this the ranks' output is left in their pipes, which slows them down.
  static constexpr size_t kFull = size_t{1} << 20;

  explicit Console(int fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// To wait at, for room.
  int fd() const { return own_ >= 0 ? own_ : fd_; }
  void add(std::string_view bytes);
  /// The text to which may be appended; call flush() afterwards.
  std::string& pending() { return pending_; }
  /// Writes what can be written without waiting.
  void flush();
  bool empty() const { return pending_.empty(); }
  bool full() const { return pending_.size() > kFull; }
  /// Nobody reads any more; what comes is dropped.
  bool gone() const { return gone_; }
  /// Closes what is this process's own after a fork, and leaves the parent's alone.
  void close_in_child();

 private:
  int fd_;
  int own_ = -1;
  bool gone_ = false;
  std::string pending_;
};

}  // namespace trireme::launch
