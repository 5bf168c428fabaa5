// Calls that are worked off together.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/rpc/future.h"

namespace trireme::rpc {

struct BatcherOptions {
  /// A batch is worked off as soon as it has so many.
  std::size_t most = 32;
  /// A smaller one when its first has waited so long.
  std::chrono::microseconds wait{1000};
};

/// Gathers the calls of many workers and works them off together, such as the samples
/// of one forward or the gradients of one update. The calls' threads are free
/// meanwhile.
///
///     rpc::Batcher<at::Tensor, at::Tensor> infer(
///         [&](std::vector<at::Tensor> in) { return at::unbind(net(at::stack(in))); },
///         {.most = 64});
///     functions.add("infer", [&](at::Tensor x) { return infer(std::move(x)); });
///
/// Batches are worked off one after the other, in the order in which their calls came,
/// on a thread of its own. What `work` throws goes to all of its batch.
template <class In, class Out>
class Batcher {
 public:
  using Work = std::function<std::vector<Out>(std::vector<In> batch)>;

  explicit Batcher(Work work, BatcherOptions options = {})
      : work_(std::move(work)), options_(options) {
    if (options_.most == 0)
      throw InvalidArgument(
          "[rpc] expected at least 1 call in a batch, got at most 0; set "
          "BatcherOptions::most");
    thread_ = std::thread([this] { run(); });
  }
  /// Works off what is there.
  ~Batcher() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// The result for one input, when its batch is through.
  Future<Out> operator()(In in) {
    Promise<Out> promise;
    Future<Out> future = promise.future();
    const std::lock_guard lock(mutex_);
    if (waiting_.empty())
      first_ = Clock::now();
    waiting_.emplace_back(std::move(in), std::move(promise));
    if (waiting_.size() == 1 || waiting_.size() == options_.most)
      changed_.notify_one();
    return future;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Item = std::pair<In, Promise<Out>>;

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty())
        return;
      changed_.wait_until(lock, first_ + options_.wait, [&] {
        return ends_ || waiting_.size() >= options_.most;
      });
      std::vector<Item> batch = take();
      lock.unlock();
      work_off(std::move(batch));
      lock.lock();
    }
  }

  // The first ones, as many as may go together; for who holds the lock.
  std::vector<Item> take() {
    const std::size_t count = std::min(waiting_.size(), options_.most);
    std::vector<Item> batch;
    batch.reserve(count);
    std::move(
        waiting_.begin(),
        waiting_.begin() + static_cast<std::ptrdiff_t>(count),
        std::back_inserter(batch));
    waiting_.erase(
        waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    first_ = Clock::now();
    return batch;
  }

  void work_off(std::vector<Item> batch) {
    std::vector<In> inputs;
    inputs.reserve(batch.size());
    for (Item& item : batch)
      inputs.push_back(std::move(item.first));
    try {
      std::vector<Out> results = work_(std::move(inputs));
      if (results.size() != batch.size())
        throw InvalidArgument(text(
            "[rpc] expected ",
            batch.size(),
            " results of a batch, got ",
            results.size(),
            "; return one for each input, in their order"));
      for (std::size_t i = 0; i < batch.size(); ++i)
        batch[i].second.set_value(std::move(results[i]));
    } catch (...) {
      for (Item& item : batch)
        item.second.set_exception(std::current_exception());
    }
  }

  Work work_;
  BatcherOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> waiting_;
  Clock::time_point first_{};
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme::rpc
