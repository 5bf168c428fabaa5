#include "trireme/rpc/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/core/machine.h"
#include "trireme/rpc/blocking.h"
#include "trireme/rpc/task_ring.h"
#include "trireme/rpc/word_wait.h"

namespace trireme::rpc {
namespace {

WorkerPoolOptions checked(WorkerPoolOptions options) {
  constexpr int kLeastThreads = 4;
  if (options.threads == 0)
    options.threads =
        std::min(options.most, std::max(kLeastThreads, 2 * available_cores()));
  if (options.threads < 1 || options.most < options.threads)
    throw InvalidArgument(text(
        "[rpc] expected at least 1 thread for pool '",
        options.name,
        "', and no fewer at most, got threads = ",
        options.threads,
        " and most = ",
        options.most,
        "; raise the smaller one"));
  if (options.queue == 0)
    throw InvalidArgument(text(
        "[rpc] expected a queue with room for a task for pool '",
        options.name,
        "', got queue = 0; set it to 1 or more"));
  if (options.idle.count() < 1)
    throw InvalidArgument(text(
        "[rpc] expected threads of pool '",
        options.name,
        "' to stay idle for at least 1 ms, got ",
        options.idle.count(),
        "; give them a second or two"));
  return options;
}

void run_logged(const char* what, const std::string& pool, auto& function) noexcept {
  try {
    function();
  } catch (const std::exception& e) {
    TRIREME_LOG(error, "rpc") << what << " of pool '" << pool
                              << "' threw: " << e.what();
  } catch (...) {
    TRIREME_LOG(error, "rpc") << what << " of pool '" << pool << "' threw something";
  }
}

// The pool that this thread belongs to.
thread_local const void* running_pool = nullptr;

void name_thread(const std::string& name) {
  constexpr std::size_t kLongest = 15;
  pthread_setname_np(pthread_self(), name.substr(0, kLongest).c_str());
}

}  // namespace

// A thread is working, blocked inside of a task, searching (awake, and about to look
// into the queue) or idle. While there are tasks and a thread is idle, one is
// searching: who brings a task wakes one if there is none, and who takes a task wakes
// the next if there are more. So no wakeup is lost, who brings many wakes one, and
// tasks that are short are over before all threads are awake.
class WorkerPool::Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(WorkerPoolOptions options)
      : options_(checked(std::move(options))),
        spin_(options_.spin.value_or(spin_time())) {}

  void start_first() {
    const std::lock_guard lock(mutex_);
    start();
  }
  std::size_t try_run_all(std::span<Task> tasks);
  void stop(const Deadline& deadline, Rest rest);
  void abandon() noexcept;
  WorkerPoolFigures figures() const;

 private:
  // A thread and its place to sleep.
  struct Seat {
    std::thread thread;
    std::atomic<std::uint32_t> word{0};
  };
  using Seats = std::list<Seat>;

  // Has another thread work while this one waits.
  class Hook final : public BlockingHook {
   public:
    explicit Hook(Core& core) : core_(core) {}
    void block() override {
      if (depth_ == 0)
        core_.block();
      ++depth_;
    }
    void unblock() noexcept override {
      if (--depth_ == 0)
        core_.unblock();
    }

   private:
    Core& core_;
    int depth_ = 0;
  };

  Seat* find_help();
  static void wake(Seat* seat);
  void start();
  void refuse_start(const std::string& why);
  void block();
  void unblock() noexcept;
  void loop(Seat* seat);
  std::optional<Task> next_task(Seat* seat, bool searching);
  bool sleep(Seat* seat, std::unique_lock<std::mutex>& lock);
  void leave(Seat* seat);
  int others() const;
  void join_ended(std::unique_lock<std::mutex>& lock);

  const WorkerPoolOptions options_;
  const std::chrono::microseconds spin_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  TaskRing queue_;
  // The queue's size, for those who look without the lock.
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> stopping_{false};
  int threads_ = 0;
  int blocked_ = 0;
  std::size_t searching_ = 0;
  std::uint64_t started_ = 0;
  bool start_failed_ = false;
  std::vector<Seat*> idle_;  // the last to sleep is the first to wake
  Seats seats_;
  std::vector<std::thread> gone_;  // to be joined
};

// With the lock. Called whenever there may be tasks and no searching thread; who is
// returned is woken without the lock.
WorkerPool::Core::Seat* WorkerPool::Core::find_help() {
  if (queue_.size() == 0 || searching_ > 0)
    return nullptr;
  if (!idle_.empty()) {
    Seat* seat = idle_.back();
    idle_.pop_back();
    ++searching_;
    return seat;
  }
  if (threads_ - blocked_ < options_.threads && threads_ < options_.most)
    start();
  return nullptr;
}

void WorkerPool::Core::wake(Seat* seat) {
  if (!seat)
    return;
  seat->word.store(1, std::memory_order_release);
  wake_one(seat->word);
}

// With the lock, which keeps the thread from its end until its seat knows it.
void WorkerPool::Core::start() {
  Seat* seat = &seats_.emplace_back();
  try {
    seat->thread = std::thread([core = shared_from_this(), seat] { core->loop(seat); });
    ++threads_;
    ++searching_;
  } catch (const std::system_error& e) {
    seats_.pop_back();
    refuse_start(e.what());
  }
}

void WorkerPool::Core::refuse_start(const std::string& why) {
  if (threads_ == 0)
    throw Error(text(
        "[rpc] expected a thread for pool '",
        options_.name,
        "', got none (",
        why,
        "); raise the limit of processes"));
  // The others do its work.
  if (!std::exchange(start_failed_, true))
    TRIREME_LOG(warn, "rpc") << "pool '" << options_.name << "' cannot start thread "
                             << threads_ + 1 << ": " << why;
}

std::size_t WorkerPool::Core::try_run_all(std::span<Task> tasks) {
  Seat* helper = nullptr;
  std::size_t taken = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_.load(std::memory_order_relaxed))
      return 0;
    taken = std::min(tasks.size(), options_.queue - queue_.size());
    for (Task& task : tasks.first(taken))
      queue_.push(std::move(task));
    queued_.store(queue_.size(), std::memory_order_release);
    helper = find_help();
  }
  wake(helper);
  return taken;
}

void WorkerPool::Core::block() {
  Seat* helper = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (blocked_ + 1 >= options_.most)
      throw Error(text(
          "[rpc] expected at most ",
          options_.most - 1,
          " tasks of pool '",
          options_.name,
          "' that wait at once, got one more; give the pool more threads, or go on "
          "by then() in place of waiting"));
    ++blocked_;
    helper = find_help();
  }
  wake(helper);
}

void WorkerPool::Core::unblock() noexcept {
  const std::lock_guard lock(mutex_);
  --blocked_;
}

void WorkerPool::Core::loop(Seat* seat) {
  name_thread(options_.name);
  running_pool = this;
  {
    // Here rather than where threads are started, which may be a thread of the network.
    std::unique_lock lock(mutex_);
    join_ended(lock);
  }
  const auto hook = std::make_shared<Hook>(*this);
  add_blocking_hook(hook);
  if (options_.prepare)
    run_logged("the preparation", options_.name, options_.prepare);
  bool searching = true;
  while (std::optional<Task> task = next_task(seat, searching)) {
    searching = false;
    run_logged("a task", options_.name, *task);
  }
}

// Nothing when the thread is to end; then its seat is gone.
std::optional<Task> WorkerPool::Core::next_task(Seat* seat, bool searching) {
  std::unique_lock lock(mutex_);
  bool looked = false;
  for (;;) {
    if (queue_.size() != 0) {
      searching_ -= searching ? 1 : 0;
      Task task = queue_.pop();
      queued_.store(queue_.size(), std::memory_order_relaxed);
      ++started_;
      Seat* const helper = find_help();
      lock.unlock();
      wake(helper);
      return task;
    }
    if (!searching) {
      searching = true;
      ++searching_;
    }
    if (stopping_.load(std::memory_order_relaxed))
      break;
    // One that looks is enough.
    if (!looked && searching_ == 1 && spin_.count() > 0) {
      looked = true;
      lock.unlock();
      spin_until(spin_, [this] {
        return queued_.load(std::memory_order_acquire) != 0 ||
               stopping_.load(std::memory_order_relaxed);
      });
      lock.lock();
      continue;
    }
    if (!sleep(seat, lock))
      break;
    looked = false;
  }
  leave(seat);
  return std::nullopt;
}

void WorkerPool::Core::leave(Seat* seat) {
  --searching_;
  --threads_;
  const auto place = std::find_if(
      seats_.begin(), seats_.end(), [&](const Seat& one) { return &one == seat; });
  if (place->thread.joinable())
    gone_.push_back(std::move(place->thread));
  seats_.erase(place);
  ended_.notify_all();
}

// From searching to idle and back; false if the thread is one too many.
bool WorkerPool::Core::sleep(Seat* seat, std::unique_lock<std::mutex>& lock) {
  seat->word.store(0, std::memory_order_relaxed);
  idle_.push_back(seat);
  --searching_;
  for (;;) {
    lock.unlock();
    const bool woken = wait_while(seat->word, 0, Deadline::after(options_.idle));
    lock.lock();
    if (woken)
      return true;  // who woke it has counted it as searching
    const auto place = std::find(idle_.begin(), idle_.end(), seat);
    if (place == idle_.end())
      continue;  // is being woken this moment
    if (threads_ - blocked_ > options_.threads) {
      idle_.erase(place);
      ++searching_;
      return false;
    }
  }
}

// How many threads there are beside the one that asks.
int WorkerPool::Core::others() const {
  return threads_ - (running_pool == this ? 1 : 0);
}

// They have left the lock for the last time.
void WorkerPool::Core::join_ended(std::unique_lock<std::mutex>& lock) {
  auto ended = std::exchange(gone_, {});
  lock.unlock();
  for (std::thread& thread : ended)
    thread.join();
}

void WorkerPool::Core::stop(const Deadline& deadline, Rest rest) {
  std::vector<Task> dropped;
  std::unique_lock lock(mutex_);
  stopping_.store(true, std::memory_order_relaxed);
  if (rest == Rest::Drop)
    while (queue_.size() != 0)
      dropped.push_back(queue_.pop());
  queued_.store(queue_.size(), std::memory_order_relaxed);
  searching_ += idle_.size();
  for (Seat* seat : std::exchange(idle_, {}))
    wake(seat);
  lock.unlock();
  dropped.clear();
  lock.lock();
  const auto end = Deadline::Clock::now() + deadline.remaining();
  ended_.wait_until(lock, end, [this] { return others() == 0; });
  const int late = others();
  const std::size_t waiting = queue_.size();
  join_ended(lock);
  if (late > 0)
    throw TimeoutError(text(
        "[rpc] expected all tasks of pool '",
        options_.name,
        "' to end within ",
        deadline.allowed().count(),
        " ms, got ",
        late,
        " that still run and ",
        waiting,
        " that wait; give them more time, or look at what they do"));
}

// Lets go of the threads that are left; they hold the core.
void WorkerPool::Core::abandon() noexcept {
  std::unique_lock lock(mutex_);
  for (Seat& seat : seats_)
    if (seat.thread.joinable())
      seat.thread.detach();
  join_ended(lock);
}

WorkerPoolFigures WorkerPool::Core::figures() const {
  const std::lock_guard lock(mutex_);
  return {
      .threads = threads_,
      .blocked = blocked_,
      .queued = queue_.size(),
      .started = started_};
}

WorkerPool::WorkerPool(WorkerPoolOptions options)
    : core_(std::make_shared<Core>(std::move(options))) {
  core_->start_first();
}

WorkerPool::~WorkerPool() {
  constexpr std::chrono::seconds kPatience{5};
  try {
    core_->stop(Deadline::after(kPatience), Rest::Drop);
  } catch (const std::exception& e) {
    TRIREME_LOG(error, "rpc") << "the threads of a pool are left alone: " << e.what();
  }
  core_->abandon();
}

bool WorkerPool::try_run(Task&& task) {
  return core_->try_run_all({&task, 1}) == 1;
}

std::size_t WorkerPool::try_run_all(std::span<Task> tasks) {
  return core_->try_run_all(tasks);
}

void WorkerPool::stop(const Deadline& deadline, Rest rest) {
  core_->stop(deadline, rest);
}

WorkerPoolFigures WorkerPool::figures() const {
  return core_->figures();
}

}  // namespace trireme::rpc
