// What has to happen before a thread waits.
#pragma once
#include <memory>
#include <vector>

namespace trireme::rpc {

/// Is told when a thread waits: an agent sends what it has kept back to send it
/// together, a pool lets another thread work meanwhile.
class BlockingHook {
 public:
  virtual ~BlockingHook() = default;
  /// This thread is about to wait. What this throws, the one who would wait gets.
  virtual void block() = 0;
  /// It has waited.
  virtual void unblock() noexcept {}
};

/// Has the hook called when this thread waits, until the hook is gone. Cheap for one
/// that this thread has already.
void add_blocking_hook(const std::shared_ptr<BlockingHook>& hook);

/// While one lives, its thread must not wait, since what it would wait for is its own
/// to do: Blocking throws Error.
class MustNotWait {
 public:
  MustNotWait();
  ~MustNotWait();
  MustNotWait(const MustNotWait&) = delete;
  MustNotWait& operator=(const MustNotWait&) = delete;

 private:
  bool former_;
};

/// Stands wherever a thread may wait for what another does. Futures do it themselves;
/// functions that wait for anything else, and run in a pool, do it too:
///
///     Blocking blocking;
///     condition.wait(lock, ready);
class Blocking {
 public:
  Blocking();
  ~Blocking();
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

 private:
  void unblock() noexcept;
  std::vector<std::shared_ptr<BlockingHook>> blocked_;
};

}  // namespace trireme::rpc
