// Cuts a stream of bytes into frames, and brings payloads straight to their place.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "trireme/net/frame.h"

namespace trireme::net {

/// What a FrameReader finds.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A frame with its typed header. Gives where the payload goes: all of it, or an
  /// empty range to throw it away.
  virtual std::span<std::byte> begin(const Frame& frame, std::string header) = 0;
  /// The same frame is here whole, and its checksum is right.
  virtual void end(const Frame& frame) = 0;
  /// Whether this sink is the one for what the next read brings.
  virtual bool wants_more() const { return true; }
};

/// Bytes come in through two doors: a read that goes on with a payload puts them where
/// direct() says; all others go through feed(). Throws InvalidArgument for what is no
/// frame; then the connection is of no more use.
class FrameReader {
 public:
  /// `checked`: frames must carry a checksum of their bytes.
  FrameReader(const Limits& limits, bool checked)
      : limits_(limits), checked_(checked) {}

  /// Where the rest of the payload that is being read lies; empty if none is.
  std::span<std::byte> direct() const { return direct_; }
  /// The first `bytes` of direct() have been filled.
  void filled(std::size_t bytes, FrameSink& sink);
  void feed(std::span<const std::byte> bytes, FrameSink& sink);
  /// Whether the last frame is complete: the stream may end here.
  bool between_frames() const { return state_ == State::Head && have_ == 0; }

 private:
  enum class State { Head, Header, Payload };
  std::span<const std::byte> read_head(std::span<const std::byte> bytes);
  std::span<const std::byte> read_header(
      std::span<const std::byte> bytes, FrameSink& sink);
  std::span<const std::byte> read_payload(
      std::span<const std::byte> bytes, FrameSink& sink);
  void start_payload(FrameSink& sink);
  void finish_if_whole(FrameSink& sink);

  Limits limits_;
  bool checked_;
  State state_ = State::Head;
  std::size_t have_ = 0;  // bytes of the head, or of what follows it
  FrameHead head_;
  Frame frame_;
  std::string header_;
  std::span<std::byte> direct_;
  std::uint32_t check_ = 0;
};

}  // namespace trireme::net
