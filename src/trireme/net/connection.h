// One socket between two nodes, from its first byte to its last. A session outlives it.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "trireme/net/frame_reader.h"
#include "trireme/net/reactor.h"
#include "trireme/net/send_queue.h"
#include "trireme/net/stream.h"

namespace trireme::net {

/// Gives the frames that a connection writes.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  /// The next frame, with its head encoded; false if there is none now.
  virtual bool next(OutFrame& out) = 0;
  /// A frame has been written. With the lock held: what its message keeps alive is the
  /// user's, and may want that lock.
  virtual void written(OutFrame&&) {}
};

/// Moves frames over a stream. The reading half belongs to the I/O thread; the writing
/// half to whoever holds the lock that it is given, and so does the stream, unless it
/// is two-way: then nobody who writes keeps the reader waiting.
class Connection {
 public:
  Connection(std::unique_ptr<Stream> stream, const Limits& limits, bool checked)
      : stream_(std::move(stream)), reader_(limits, checked) {}

  Stream& stream() { return *stream_; }

  /// How far a turn has come.
  enum class Turn {
    Idle,    ///< nothing left to do until the socket is ready or something is queued
    More,    ///< its share of a turn is used up
    Closed,  ///< the other side has closed, or the connection broke
  };
  /// Writes what the source has, up to `budget` bytes. With the lock held.
  Turn write(FrameSource& source, std::size_t budget);
  /// Whether everything that was taken from the source has been written.
  bool written() const { return writing_.empty(); }
  /// Whether some of the data frames up to `sequence` is still to be written, so that
  /// nobody can have read it. With the lock held.
  bool is_writing(std::uint64_t sequence) const;
  /// Reads what has come, up to `budget` bytes, with the lock if the stream needs it,
  /// and hands it to the sink without.
  Turn read(
      FrameSink& sink,
      std::span<std::byte> scratch,
      std::size_t budget,
      std::mutex& lock);
  /// Whether the stream has ended where a frame does.
  bool between_frames() const { return reader_.between_frames(); }

 private:
  void gather(FrameSource& source);
  void advance(FrameSource& source, std::size_t bytes);

  std::unique_ptr<Stream> stream_;
  FrameReader reader_;
  std::deque<OutFrame> writing_;
  std::size_t gathered_ = 0;  // bytes of writing_, less `done_`
  std::size_t done_ = 0;      // bytes of its first frame that are written
};

}  // namespace trireme::net
