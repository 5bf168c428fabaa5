#include "trireme/net/send_queue.h"

#include <algorithm>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/net/checksum.h"

namespace trireme::net {
namespace {

/// The bytes of a body from `offset` on, wherever its parts lie.
void slice(
    const OutMessage& message,
    std::uint64_t offset,
    std::uint64_t bytes,
    std::vector<iovec>& out) {
  for (const auto& part : message.body) {
    if (bytes == 0)
      return;
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    const std::uint64_t count = std::min(bytes, part.size() - offset);
    // iovec serves reads and writes alike; nobody writes through these.
    out.push_back({const_cast<std::byte*>(part.data()) + offset, count});
    offset = 0;
    bytes -= count;
  }
}

std::uint32_t check_of(const std::vector<iovec>& payload) {
  std::uint32_t check = 0;
  for (const iovec& part : payload)
    check = crc32c({static_cast<const std::byte*>(part.iov_base), part.iov_len}, check);
  return check;
}

std::uint32_t whole_milliseconds(std::chrono::milliseconds time) {
  constexpr std::int64_t most = 0xffffffff;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, most));
}

std::uint64_t cost_of(const Outgoing& out) {
  return message_cost(out.message.envelope.header.size(), out.body_bytes);
}

}  // namespace

void SendQueue::open(const Limits& theirs, bool checked) {
  theirs_ = theirs;
  checked_ = checked;
  small_credit_.window = theirs.small_window;
  large_credit_.window = theirs.large_window;
}

void SendQueue::push(OutMessage&& message) {
  const std::size_t header = message.envelope.header.size();
  if (header > theirs_.header_bytes)
    throw InvalidArgument(text(
        "[net] expected a header of at most ",
        theirs_.header_bytes,
        " bytes, got ",
        header,
        "; send what is large as the body"));
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->body_bytes = message.body_bytes();
  if (outgoing->body_bytes > theirs_.body_bytes)
    throw InvalidArgument(text(
        "[net] expected a body of at most ",
        theirs_.body_bytes,
        " bytes, got ",
        outgoing->body_bytes,
        "; send it in parts, or raise the receiver's limit"));
  outgoing->message = std::move(message);
  queued_bytes_ += cost_of(*outgoing);
  auto& lane = is_small(header, outgoing->body_bytes, theirs_) ? small_ : large_;
  lane.push_back(std::move(outgoing));
}

bool SendQueue::next(OutFrame& out) {
  if (unwritten_ == sent_.size() && !take_new(small_, small_credit_) &&
      !take_new(large_, large_credit_))
    return false;
  fill(sent_[unwritten_++], out);
  return true;
}

bool SendQueue::take_new(
    std::deque<std::shared_ptr<Outgoing>>& lane, LaneCredit& credit) {
  if (lane.empty())
    return false;
  Outgoing& first = *lane.front();
  if (first.first_sequence == 0) {
    if (!credit.allows(cost_of(first)))
      return false;
    credit.sent += cost_of(first);
    first.first_sequence = last_sequence_ + 1;
  }
  const std::uint64_t bytes =
      std::min<std::uint64_t>(kChunkBytes, first.body_bytes - first.taken);
  sent_.push_back(
      {++last_sequence_, lane.front(), first.taken, static_cast<std::uint32_t>(bytes)});
  first.taken += bytes;
  if (first.taken == first.body_bytes)
    lane.pop_front();
  return true;
}

void SendQueue::fill(const Sent& sent, OutFrame& out) const {
  const OutMessage& message = sent.message->message;
  const bool first = sent.sequence == sent.message->first_sequence;
  out.payload.clear();
  slice(message, sent.offset, sent.bytes, out.payload);
  out.message = sent.message;
  out.header.clear();
  out.frame = {
      .kind = first ? FrameKind::Message : FrameKind::Chunk,
      .checked = checked_,
      .type = first ? message.envelope.type : std::uint16_t{0},
      .sequence = sent.sequence,
      .id = first ? message.envelope.request : sent.message->first_sequence,
      .body = first ? sent.message->body_bytes : sent.offset,
      .header_bytes =
          first ? static_cast<std::uint32_t>(message.envelope.header.size()) : 0,
      .payload_bytes = sent.bytes,
      .timeout_ms = first ? whole_milliseconds(message.envelope.timeout) : 0,
  };
  if (!checked_)
    return;
  if (first)
    out.frame.header_check = crc32c(message.envelope.header);
  out.frame.payload_check = check_of(out.payload);
}

void SendQueue::acknowledged(std::uint64_t sequence, Finished& finished) {
  const std::uint64_t written =
      unwritten_ == 0 ? (sent_.empty() ? last_sequence_ : sent_.front().sequence - 1)
                      : sent_[unwritten_ - 1].sequence;
  if (sequence > written)
    throw InvalidArgument(text(
        "[net] expected an acknowledgement of at most frame ",
        written,
        ", got ",
        sequence,
        "; the peer's state is not that of this session"));
  while (!sent_.empty() && sent_.front().sequence <= sequence) {
    const Sent& first = sent_.front();
    Outgoing& outgoing = *first.message;
    if (first.offset + first.bytes == outgoing.body_bytes) {
      queued_bytes_ -= cost_of(outgoing);
      finished.push_back(first.message);
    }
    sent_.pop_front();
    --unwritten_;
  }
}

void SendQueue::released(std::uint64_t small, std::uint64_t large) {
  for (const auto& [credit, now] :
       {std::pair(&small_credit_, small), std::pair(&large_credit_, large)}) {
    if (now > credit->sent)
      throw InvalidArgument(text(
          "[net] expected at most ",
          credit->sent,
          " bytes to be let go of, got ",
          now,
          "; the peer's state is not that of this session"));
    // An older number is one that another frame has overtaken.
    credit->released = std::max(credit->released, now);
  }
}

void SendQueue::rewind(std::uint64_t received, Finished& finished) {
  // What was written may have arrived or not; what was not written cannot have.
  acknowledged(received, finished);
  unwritten_ = 0;
}

void SendQueue::abandon(Finished& finished) {
  // A large message that is under way is in its lane still; what was sent of it is no
  // message more.
  for (const Sent& sent : sent_)
    if (sent.offset + sent.bytes == sent.message->body_bytes)
      finished.push_back(sent.message);
  for (const auto* lane : {&small_, &large_})
    finished.insert(finished.end(), lane->begin(), lane->end());
  sent_.clear();
  small_.clear();
  large_.clear();
  unwritten_ = 0;
  queued_bytes_ = 0;
}

}  // namespace trireme::net
