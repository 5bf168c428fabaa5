// The receiving half of a session: what may come next, and what has come whole. No I/O
// here.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "trireme/net/frame.h"

namespace trireme::net {

/// Takes the frames of a session in order. Used by the I/O thread alone.
///
/// For each data frame: begin(), then its payload goes to where that said, then end().
class Inbox {
 public:
  /// Where a body shall lie; empty for a block of the pool.
  using Place = std::function<std::span<std::byte>(const Envelope&, std::size_t bytes)>;

  Inbox(const Limits& limits, BufferPool& pool) : limits_(limits), pool_(pool) {}

  /// Gives where the frame's payload goes. Of a frame that was here before it goes
  /// nowhere: then the range is empty and the payload is to be thrown away. Throws
  /// InvalidArgument for what cannot come now, and where the peer sends more than its
  /// windows allow.
  std::span<std::byte> begin(
      const Frame& frame, std::string header, const Place& place);
  /// The frame has come whole: gives the message if it was its last.
  std::optional<InMessage> end();
  /// The connection broke in the middle of a frame, which will come again.
  void forget_frame() { now_ = nullptr; }

  /// The last frame that has come whole.
  std::uint64_t received() const { return received_; }
  /// What a message counts for in its window; to be given back to released().
  struct Cost {
    bool small = true;
    std::uint64_t bytes = 0;
  };
  Cost last_cost() const { return last_cost_; }
  /// Somebody has let go of a message; counted from the start of the session. May be
  /// told to the inbox late, never early.
  void set_released(std::uint64_t small, std::uint64_t large) {
    released_[0] = small;
    released_[1] = large;
  }

 private:
  struct Incoming {
    InMessage message;
    std::uint64_t first_sequence = 0;  // 0 while there is none
    std::uint64_t here = 0;            // bytes of the body that have come
    Cost cost;
  };
  void check_window(const Cost& cost) const;
  void begin_message(const Frame& frame, std::string header, const Place& place);
  void check_chunk(const Frame& frame) const;

  Limits limits_;
  BufferPool& pool_;
  Incoming small_;           // comes whole in one frame
  Incoming large_;           // the one that is under way
  Incoming* now_ = nullptr;  // whose frame is being read
  std::uint32_t now_bytes_ = 0;
  std::uint64_t received_ = 0;
  bool first_frame_ = false;
  Cost last_cost_;
  std::uint64_t taken_[2] = {0, 0};
  std::uint64_t released_[2] = {0, 0};
};

}  // namespace trireme::net
