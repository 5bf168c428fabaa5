// Decides what a watch of a slow client gets: every change, or word that some are
// missing.
#pragma once

namespace trireme::net {

/// The state of one watch at the server. While a client has too much to take already,
/// its watch is shut: one Lost goes out, and changes are dropped until it has arrived.
/// If some were dropped after it was sent, another one follows: the client may have
/// read the store in between.
class WatchGate {
 public:
  enum class Send { Change, Lost, Nothing };

  /// There is a change; `full` if the client has too much to take already.
  Send change(bool full) {
    if (shut_) {
      dropped_ = true;
      return Send::Nothing;
    }
    if (!full)
      return Send::Change;
    shut_ = true;
    return Send::Lost;
  }

  /// The Lost that was sent has arrived.
  Send lost_arrived() {
    if (dropped_) {
      dropped_ = false;
      return Send::Lost;
    }
    shut_ = false;
    return Send::Nothing;
  }

 private:
  bool shut_ = false;
  bool dropped_ = false;
};

}  // namespace trireme::net
