// The sending half of a session: which frame goes next, and which may have to go again.
// No I/O here, so that tests can break connections wherever they like.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <sys/uio.h>
#include <vector>

#include "trireme/net/frame.h"

namespace trireme::net {

/// How much of a lane's window is in use.
struct LaneCredit {
  std::uint64_t window = 0;
  /// Counted from the start of the session.
  std::uint64_t sent = 0;
  std::uint64_t released = 0;

  /// A message above the window passes alone.
  bool allows(std::uint64_t cost) const {
    return sent == released || sent - released + cost <= window;
  }
};

/// A message that is queued, or not acknowledged yet.
struct Outgoing {
  OutMessage message;
  std::uint64_t body_bytes = 0;
  std::uint64_t first_sequence = 0;
  std::uint64_t taken = 0;  // bytes of the body that are in frames
};

/// One frame on its way out, with what its bytes lie in.
struct OutFrame {
  Frame frame;
  FrameHead head;
  std::shared_ptr<Outgoing> message;  // null for frames without data
  std::string header;                 // of frames without a message
  std::vector<iovec> payload;

  std::size_t bytes() const {
    return kFrameHead + frame.header_bytes + frame.payload_bytes;
  }
};

/// Messages that have arrived, or never will. Whoever holds the session's lock hands
/// them out of it: their `done` is the user's, and the memory that they keep alive may
/// be too.
using Finished = std::vector<std::shared_ptr<Outgoing>>;

/// Not for two threads at once: its session has a lock.
class SendQueue {
 public:
  /// `theirs` is what the other side accepts. `checked`: whether frames carry a
  /// checksum of their bytes.
  void open(const Limits& theirs, bool checked);

  /// InvalidArgument for a message that the other side would refuse.
  void push(OutMessage&& message);

  /// The next frame, or false if there is none that may go now: a frame that goes
  /// again, else one of the small lane, else of the large one.
  bool next(OutFrame& out);

  /// Everything up to `sequence` has arrived. InvalidArgument if it was never sent.
  void acknowledged(std::uint64_t sequence, Finished& finished);
  /// The other side has let go of so many bytes, counted from the start.
  void released(std::uint64_t small, std::uint64_t large);
  /// A new connection: what the other side has not received goes again.
  void rewind(std::uint64_t received, Finished& finished);

  /// Nothing is left to be sent or acknowledged.
  bool idle() const { return small_.empty() && large_.empty() && sent_.empty(); }
  /// Bytes that are not acknowledged, sent or not.
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// The session has ended: nothing goes any more.
  void abandon(Finished& finished);

 private:
  struct Sent {
    std::uint64_t sequence = 0;
    std::shared_ptr<Outgoing> message;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
  };
  bool take_new(std::deque<std::shared_ptr<Outgoing>>& lane, LaneCredit& credit);
  void fill(const Sent& sent, OutFrame& out) const;

  Limits theirs_;
  bool checked_ = true;
  LaneCredit small_credit_, large_credit_;
  std::deque<std::shared_ptr<Outgoing>> small_, large_;
  std::deque<Sent> sent_;      // not acknowledged, in order
  std::size_t unwritten_ = 0;  // the first of sent_ that this connection has not had
  std::uint64_t last_sequence_ = 0;
  std::size_t queued_bytes_ = 0;
};

}  // namespace trireme::net
