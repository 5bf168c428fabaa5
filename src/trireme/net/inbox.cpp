#include "trireme/net/inbox.h"

#include "trireme/core/error.h"

namespace trireme::net {
namespace {

[[noreturn]] void refuse_order(
    const char* what, std::uint64_t expected, std::uint64_t got) {
  throw InvalidArgument(text(
      "[net] expected ",
      what,
      " ",
      expected,
      ", got ",
      got,
      "; the peer does not keep to the protocol, or the bytes were damaged"));
}

}  // namespace

std::span<std::byte> Inbox::begin(
    const Frame& frame, std::string header, const Place& place) {
  now_ = nullptr;
  if (frame.sequence <= received_)
    return {};
  if (frame.sequence != received_ + 1)
    refuse_order("frame", received_ + 1, frame.sequence);
  first_frame_ = frame.kind == FrameKind::Message;
  if (first_frame_) {
    begin_message(frame, std::move(header), place);
  } else {
    check_chunk(frame);
    now_ = &large_;
  }
  now_bytes_ = frame.payload_bytes;
  return now_->message.body.subspan(now_->here, now_bytes_);
}

void Inbox::check_window(const Cost& cost) const {
  const std::size_t lane = cost.small ? 0 : 1;
  const std::uint64_t held = taken_[lane] - released_[lane];
  const std::uint64_t window = cost.small ? limits_.small_window : limits_.large_window;
  if (held > 0 && held + cost.bytes > window)
    refuse_order("a peer that keeps to its window of", window, held + cost.bytes);
}

void Inbox::begin_message(const Frame& frame, std::string header, const Place& place) {
  const Cost cost{
      .small = is_small(header.size(), frame.body, limits_),
      .bytes = message_cost(header.size(), frame.body)};
  Incoming& in = cost.small ? small_ : large_;
  now_ = &in;
  // A first frame that was cut off comes again: its place is known.
  if (in.first_sequence == frame.sequence && in.message.body.size() == frame.body)
    return;
  if (in.here > 0)
    refuse_order("more of the message from frame", in.first_sequence, frame.sequence);
  check_window(cost);
  in = {};
  in.cost = cost;
  in.message.envelope = {
      .type = frame.type,
      .request = frame.id,
      .timeout = std::chrono::milliseconds(frame.timeout_ms),
      .header = std::move(header)};
  if (frame.body > 0)
    in.message.body = place(in.message.envelope, frame.body);
  if (in.message.body.empty()) {
    in.message.buffer = pool_.take(frame.body);
    in.message.body = in.message.buffer.bytes();
  } else if (in.message.body.size() != frame.body) {
    throw InvalidArgument(text(
        "[net] expected place() to give ",
        frame.body,
        " bytes for a body, got ",
        in.message.body.size(),
        "; give all of it, or nothing for a block of the pool"));
  }
  in.first_sequence = frame.sequence;
}

void Inbox::check_chunk(const Frame& frame) const {
  if (large_.first_sequence == 0)
    refuse_order("the beginning of a message in frame", frame.sequence, frame.id);
  if (frame.id != large_.first_sequence)
    refuse_order("more of the message from frame", large_.first_sequence, frame.id);
  if (frame.body != large_.here)
    refuse_order("the part of a body from byte", large_.here, frame.body);
  if (frame.payload_bytes > large_.message.body.size() - large_.here)
    refuse_order(
        "a part of at most",
        large_.message.body.size() - large_.here,
        frame.payload_bytes);
}

std::optional<InMessage> Inbox::end() {
  if (now_ == nullptr)
    return std::nullopt;  // it was here before
  ++received_;
  if (first_frame_)
    taken_[now_->cost.small ? 0 : 1] += now_->cost.bytes;
  now_->here += now_bytes_;
  Incoming& in = *now_;
  now_ = nullptr;
  if (in.here != in.message.body.size())
    return std::nullopt;
  last_cost_ = in.cost;
  InMessage message = std::move(in.message);
  in = {};
  return message;
}

}  // namespace trireme::net
