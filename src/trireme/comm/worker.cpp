#include "trireme/comm/worker.h"

#include "trireme/comm/work_state.h"

namespace trireme::comm {

Worker::Worker(std::function<void()> prepare, Idle idle)
    : prepare_(std::move(prepare)), idle_(std::move(idle)) {
  if (idle_.call)
    thread_ = std::thread([this] { loop(); });
}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Work Worker::push(std::function<void()> task) {
  auto state = std::make_shared<Work::State>();
  {
    std::lock_guard lock(mutex_);
    // First: if there is no thread to be had, the task must not be waited for.
    if (!thread_.joinable())
      thread_ = std::thread([this] { loop(); });
    queue_.push_back({std::move(task), state});
    pending_.fetch_add(1, std::memory_order_relaxed);
  }
  changed_.notify_all();
  return Work(std::move(state));
}

void Worker::drain() {
  if (pending_.load(std::memory_order_acquire) == 0)
    return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pending_.load(std::memory_order_acquire) == 0; });
}

void Worker::await_task(std::unique_lock<std::mutex>& lock) {
  const auto ready = [this] { return stopping_ || !queue_.empty(); };
  if (!idle_.call)
    return changed_.wait(lock, ready);
  while (!changed_.wait_for(lock, idle_.every, ready)) {
    lock.unlock();
    idle_.call();
    lock.lock();
  }
}

void Worker::loop() {
  prepare_();
  std::unique_lock lock(mutex_);
  for (;;) {
    await_task(lock);
    if (queue_.empty())
      return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      task.run();
    } catch (...) {
      error = std::current_exception();
    }
    task.run = nullptr;  // lets go of tensors before the waiter goes on
    task.state->finish(std::move(error));
    task.state.reset();
    lock.lock();
    pending_.fetch_sub(1, std::memory_order_release);
    changed_.notify_all();
  }
}

}  // namespace trireme::comm
