// The thread on which a store calls its watchers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "trireme/net/store.h"

namespace trireme::net {

/// Keeps changes in order, by watch, until the watch's callback has taken them. Where a
/// callback is so slow that its changes come to more than `most_bytes`, they are
/// dropped and one Lost stands for them. The thread starts with the first watch. Any
/// thread may call; callbacks may too.
class WatchThread {
 public:
  explicit WatchThread(std::size_t most_bytes = std::size_t{8} << 20);
  ~WatchThread() { stop(); }
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

  /// Ends all watches. No callback runs after it, unless it is a callback that calls
  /// it.
  void stop();
  /// Takes changes for a watch from now on. Ids come from the store and are never used
  /// again.
  void add(std::uint64_t id, Store::Callback callback);
  /// The watch that add() began, as what ends it: `stop` is called first, to tell the
  /// store, which may be gone by then, so it must not hold on to it.
  StoreWatch handle(std::uint64_t id, std::function<void()> stop);
  /// A change for a watch; ignored if the watch has ended.
  void push(std::uint64_t id, std::shared_ptr<const StoreChange> change);
  /// Ends a watch; waits for its callback if it runs on another thread.
  void remove(std::uint64_t id);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::net
