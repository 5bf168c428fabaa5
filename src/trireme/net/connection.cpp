#include "trireme/net/connection.h"

#include <algorithm>
#include <array>

namespace trireme::net {
namespace {

// Enough for one call to be worth its while, and no more: what is queued after it waits
// behind it.
constexpr std::size_t kGatherBytes = kChunkBytes;
constexpr std::size_t kMostParts = 64;
// Behind the payload that is being read, room for the head of the next frame: not more,
// since what else came with it would have to be copied.
constexpr std::size_t kBesideDirect = 1024;

/// A list of iovecs that leaves out what was written before.
class Parts {
 public:
  explicit Parts(std::size_t skip) : skip_(skip) {}
  void add(const void* data, std::size_t bytes) {
    if (bytes <= skip_) {
      skip_ -= bytes;
      return;
    }
    auto* begin = const_cast<char*>(static_cast<const char*>(data)) + skip_;
    list_[count_++] = {begin, bytes - skip_};
    skip_ = 0;
  }
  bool room(std::size_t parts) const { return count_ + parts <= kMostParts; }
  std::span<const iovec> list() const { return {list_.data(), count_}; }

 private:
  std::array<iovec, kMostParts> list_;
  std::size_t count_ = 0;
  std::size_t skip_;
};

void add_frame(Parts& parts, const OutFrame& frame) {
  const std::string& header =
      frame.message ? frame.message->message.envelope.header : frame.header;
  parts.add(frame.head.data(), kFrameHead);
  if (frame.frame.header_bytes > 0)
    parts.add(header.data(), frame.frame.header_bytes);
  for (const iovec& part : frame.payload) {
    if (!parts.room(1))
      return;
    parts.add(part.iov_base, part.iov_len);
  }
}

}  // namespace

void Connection::gather(FrameSource& source) {
  while (gathered_ < kGatherBytes) {
    OutFrame& frame = writing_.emplace_back();
    if (!source.next(frame)) {
      writing_.pop_back();
      return;
    }
    gathered_ += frame.bytes();
  }
}

void Connection::advance(FrameSource& source, std::size_t bytes) {
  gathered_ -= bytes;
  done_ += bytes;
  while (!writing_.empty() && done_ >= writing_.front().bytes()) {
    done_ -= writing_.front().bytes();
    source.written(std::move(writing_.front()));
    writing_.pop_front();
  }
}

bool Connection::is_writing(std::uint64_t sequence) const {
  std::size_t end = 0;
  for (const OutFrame& frame : writing_) {
    end += frame.bytes();
    // A last byte that does not count as written may be (see Stream::write).
    if (frame.message && frame.frame.sequence <= sequence && end > done_ + 1)
      return true;
  }
  return false;
}

Connection::Turn Connection::write(FrameSource& source, std::size_t budget) {
  for (std::size_t moved = 0; moved < budget;) {
    gather(source);
    if (writing_.empty())
      return Turn::Idle;
    Parts parts(done_);
    for (const OutFrame& frame : writing_) {
      if (!parts.room(3))
        break;
      add_frame(parts, frame);
    }
    const Io io = stream_->write(parts.list());
    if (io.state != Io::State::Done)
      return io.state == Io::State::Blocked ? Turn::Idle : Turn::Closed;
    advance(source, io.bytes);
    moved += io.bytes;
  }
  return Turn::More;
}

Connection::Turn Connection::read(
    FrameSink& sink,
    std::span<std::byte> scratch,
    std::size_t budget,
    std::mutex& lock) {
  for (std::size_t moved = 0; moved < budget;) {
    const std::span<std::byte> direct = reader_.direct();
    const std::size_t beside = direct.empty() ? scratch.size() : kBesideDirect;
    const std::array<iovec, 2> parts = {{
        {direct.data(), direct.size()},
        {scratch.data(), std::min(beside, scratch.size())},
    }};
    Io io;
    {
      std::unique_lock hold(lock, std::defer_lock);
      if (!stream_->is_two_way())
        hold.lock();
      io = stream_->read(std::span(parts).subspan(direct.empty() ? 1 : 0));
    }
    if (io.state != Io::State::Done)
      return io.state == Io::State::Blocked ? Turn::Idle : Turn::Closed;
    const std::size_t straight = std::min(io.bytes, direct.size());
    if (straight > 0)
      reader_.filled(straight, sink);
    reader_.feed(scratch.first(io.bytes - straight), sink);
    moved += io.bytes;
    if (!sink.wants_more())
      return Turn::More;
  }
  return Turn::More;
}

}  // namespace trireme::net
