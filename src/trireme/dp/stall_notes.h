// The side channel of a reducer: a rank that does not get on says what it waits for.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/dp/bucket_plan.h"
#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// A rank whose backward stands still cannot be asked, but its comm thread is idle and
/// can speak: after half of the group's timeout it leaves a note with the gradients
/// that its next bucket waits for, and comm shows it to those who give up waiting.
/// Costs a store a gradient.
///
///     notes.begin();              // the backward's thread
///     notes.arrived(parameter);
///     notes.tell_if_stalled();    // the comm thread, every() so often
class StallNotes {
 public:
  StallNotes(const comm::Group& group, const std::vector<Parameter>& parameters);

  const comm::Group& group() const { return group_; }
  /// How often tell_if_stalled() wants to be called.
  std::chrono::milliseconds every() const;

  void use(const Layout& layout);
  void begin();
  void arrived(size_t parameter) {
    arrived_[parameter].store(
        round_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  /// A bucket was reduced.
  void moved();
  /// The round is over, one way or the other.
  void end();

  void tell_if_stalled();

 private:
  std::chrono::milliseconds timeout() const;
  std::string missing(int64_t round) const;

  comm::Group group_;
  const std::vector<Parameter>& parameters_;
  /// The last round in which each has come, and where it goes.
  std::vector<std::atomic<int64_t>> arrived_;
  std::vector<std::atomic<int>> bucket_;
  /// Counted here, from 1 on.
  std::atomic<int64_t> round_{0};
  std::atomic<bool> open_{false};
  std::atomic<int64_t> moved_ns_{0};
  /// Whether a note of ours stands; changes together with it.
  std::atomic<bool> told_{false};
  std::mutex note_mutex_;
};

}  // namespace trireme::dp
