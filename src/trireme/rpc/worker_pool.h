// The threads that run functions which were called from elsewhere.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trireme/core/deadline.h"
#include "trireme/rpc/executor.h"

namespace trireme::rpc {

struct WorkerPoolOptions {
  /// For errors, and as far as it fits the names of the threads.
  std::string name = "pool";
  /// How many threads work at once; 0: twice the cores, at least 4. They are started
  /// when there is something to do. Those that have waited and go on come on top.
  int threads = 0;
  /// How many there are at most with those that wait (see Blocking). One of them never
  /// may, so that there is always one that works.
  int most = 128;
  /// How many tasks may stand in the queue.
  std::size_t queue = 65536;
  /// How long a thread looks for a task before it sleeps; spin_time() if not given.
  std::optional<std::chrono::microseconds> spin{};
  /// After how long without a task a thread ends that is one too many.
  std::chrono::milliseconds idle{2000};
  /// Runs first on each thread; what it throws is logged.
  std::function<void()> prepare{};
};

/// What a pool is doing.
struct WorkerPoolFigures {
  int threads = 0;
  /// Of these, those that wait inside of a task.
  int blocked = 0;
  std::size_t queued = 0;
  std::uint64_t started = 0;
};

/// Runs tasks in the order in which they come. A task that waits lets another thread
/// work, so that calls within calls do not starve each other.
///
///     WorkerPool pool({.name = "serve", .threads = 8});
///     if (!pool.try_run([&] { serve(request); })) refuse(request);
///     pool.stop(Deadline::after(5s));
class WorkerPool final : public Executor {
 public:
  explicit WorkerPool(WorkerPoolOptions options = {});
  /// Stops, without what is in the queue. Threads that have not ended after a few
  /// seconds are left alone, which is logged.
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// False when the queue is full, or the pool stops.
  bool try_run(Task&& task) override;
  std::size_t try_run_all(std::span<Task> tasks) override;

  /// What becomes of the tasks in the queue.
  enum class Rest { Run, Drop };
  /// Takes no more tasks, and returns when all threads have ended; TimeoutError names
  /// how many have not. May be called again.
  void stop(const Deadline& deadline, Rest rest = Rest::Run);

  WorkerPoolFigures figures() const;

 private:
  class Core;
  // Shared with the threads: one that is late may outlive the pool.
  std::shared_ptr<Core> core_;
};

}  // namespace trireme::rpc
