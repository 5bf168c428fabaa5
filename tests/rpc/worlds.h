// What tests of whole worlds of workers share.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/rpc/agent.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/rpc/future_all.h"
#include "trireme/rpc/remote_error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::rpc {

using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;
using testing::RpcKind;
using testing::run_rpc;

/// One event that threads wait for; a test that waits in vain fails.
class Event {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool wait(milliseconds limit = std::chrono::seconds(20)) {
    const Blocking blocking;
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return set_; });
  }
  bool is_set() {
    const std::lock_guard lock(mutex_);
    return set_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

/// Waits until it is so; false after a while.
template <class Condition>
bool soon(const Condition& condition, milliseconds limit = std::chrono::seconds(10)) {
  for (const Deadline deadline = Deadline::after(limit); !condition();
       std::this_thread::sleep_for(milliseconds(1)))
    if (deadline.expired())
      return false;
  return true;
}

/// A world of threads, where only worker 0 does something: the others serve.
inline void lead_world(
    int workers,
    const testing::RpcWorldOptions& options,
    const std::function<void(Agent&)>& lead) {
  run_rpc(RpcKind::Threads, workers, options, [&](Agent& agent) {
    if (agent.me().id == 0)
      lead(agent);
  });
}

}  // namespace trireme::rpc
