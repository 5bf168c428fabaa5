// Lets the threads that share one end of a channel in one after the other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "trireme/core/deadline.h"

namespace trireme::comm {

/// A lock that knows whether its holder works or waits for a peer. Who only tries to
/// send or receive waits for the first, which is short, and never for the second.
class PortGate {
 public:
  /// Holds the gate while it lives. Converts to false if it could not get in.
  class Turn {
   public:
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (inside_)
        gate_.set(State::Free);
    }
    explicit operator bool() const { return inside_; }
    /// Says whether the holder waits for its peer now.
    void set_waiting(bool waiting) const {
      gate_.set(waiting ? State::Waiting : State::Busy);
    }

   private:
    friend class PortGate;
    Turn(PortGate& gate, bool inside) : gate_(gate), inside_(inside) {}
    PortGate& gate_;
    bool inside_;
  };

  /// Waits for its turn, until the deadline.
  Turn enter(const Deadline& deadline) { return {*this, take() || take_by(deadline)}; }
  /// Does not get in while the holder waits for a peer.
  Turn try_enter() { return {*this, take() || take_unless_waiting()}; }

 private:
  enum class State : uint32_t { Free, Busy, Waiting };
  bool take() {
    State free = State::Free;
    return state_.compare_exchange_strong(free, State::Busy);
  }
  bool take_by(const Deadline& deadline);
  bool take_unless_waiting();
  void set(State state);

  std::atomic<State> state_{State::Free};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace trireme::comm
