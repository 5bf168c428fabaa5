// The side channel of a reducer: ranks that do not get on tell the others what they
// wait for.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/channel.h"
#include "trireme/comm/group.h"
#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// A rank whose backward stands still cannot answer questions, but its comm thread is
/// idle and can speak: after half of the group's timeout it sends a note with the
/// parameters that have no gradient yet. Those who give up waiting look whether there
/// is one. Costs a store a gradient, and no message unless something is wrong.
///
///     notes.begin(round);                       // the backward's thread
///     notes.arrived(parameter);
///     notes.tell_if_stalled();                  // the comm thread, every() so often
///     error += notes.heard(bucket.parameters);  // whoever got a timeout
class StallNotes {
 public:
  StallNotes(const comm::Group& group, const std::vector<Parameter>& parameters);

  /// How often tell_if_stalled() wants to be called.
  std::chrono::milliseconds every() const;

  void begin(int64_t round);
  void arrived(size_t parameter) {
    arrived_[parameter].store(
        round_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  /// A bucket was reduced.
  void moved();
  /// The round is over, one way or the other.
  void end();

  void tell_if_stalled();

  /// "; rank 1 still waits for the gradients of a, b": what others have told in this
  /// round about some parameters. Empty if nobody has.
  std::string heard(std::span<const int> among) const;

 private:
  comm::Channel channel(int from, int to) const;
  std::vector<std::string> told_by(int peer, std::span<const int> among) const;

  comm::Group group_;
  const std::vector<Parameter>& parameters_;
  /// The last round in which each has come; -1: none.
  std::vector<std::atomic<int64_t>> arrived_;
  /// -1: there is none.
  std::atomic<int64_t> round_{-1};
  std::atomic<int64_t> moved_ns_{0};
  /// Of the comm thread: what was told last, and the ways it went. They stay open, or
  /// the notes would go with them.
  int64_t told_round_ = -1;
  std::vector<comm::Channel> ways_;
};

}  // namespace trireme::dp
