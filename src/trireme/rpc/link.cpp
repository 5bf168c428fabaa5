#include "trireme/rpc/link.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"

namespace trireme::rpc {

namespace {

// What precedes the messages of a packet.
struct LinkHead {
  std::uint64_t from = 0;  // the sender's name for this time
  std::uint64_t to = 0;    // the receiver's, as far as the sender knows it
  std::uint64_t got = 0;   // all messages up to this one have come
  bool asks = false;       // for a packet in return
};
// A message that comes so far ahead of those before it comes from no link of ours.
constexpr std::size_t kFarthest = std::size_t{1} << 20;
constexpr std::size_t kLargestBody = std::size_t{1} << 30;
// How often one that is not known yet says who it is.
constexpr std::chrono::milliseconds kHello{200};

}  // namespace

// Reads a packet's head and hands out its parts in order.
class PacketCursor {
 public:
  explicit PacketCursor(Packet packet)
      : packet_(std::move(packet)), bytes_(packet_.head, "a packet of a worker") {}

  LinkHead head() {
    LinkHead head;
    head.from = bytes_.u64();
    head.to = bytes_.u64();
    head.got = bytes_.u64();
    head.asks = bytes_.flag();
    return head;
  }

  bool more() const { return bytes_.left() > 0; }

  std::uint64_t message(Message& message) {
    const std::uint64_t number = bytes_.u64();
    message.kind = bytes_.u8();
    const std::uint32_t parts = bytes_.u32();
    message.body = bytes_.string(kLargestBody);
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
    if (parts > packet_.parts.size() - part_)
      throw InvalidArgument(text(
          "[rpc] expected a packet whose messages have ",
          packet_.parts.size(),
          " parts in all, got more; do not speak to workers with other programs"));
#endif
    const auto begin = packet_.parts.begin() + static_cast<std::ptrdiff_t>(part_);
    message.parts.assign(
        std::make_move_iterator(begin), std::make_move_iterator(begin + parts));
    part_ += parts;
    return number;
  }

 private:
  Packet packet_;
  net::ByteReader bytes_;
  std::size_t part_ = 0;
};

Link::Link(const LinkOptions& options, std::uint64_t name)
    : options_(options), mine_(name), patience_(options.resend) {}

// The lease begins now, however long nobody has ticked.
void Link::watch(Time now) {
  if (!std::exchange(watching_, true))
    heard_ = ticked_ = now;
}

void Link::post(Message message, Time now) {
  watch(now);
  kept_.push_back(std::move(message));
  ++posted_;
}

Link::Arrivals Link::receive(Packet packet, Time now) {
  PacketCursor cursor(std::move(packet));
  const LinkHead head = cursor.head();
  Arrivals arrivals;
  if (head.from < theirs_ || head.to > mine_)
    return arrivals;  // from before the other began anew
  if (head.from > theirs_) {
    // Before the first packet there is nothing that could be void.
    if (open_) {
      forget();
      arrivals.voided = true;
    }
    theirs_ = head.from;
  }
  if (head.to != mine_) {
    answer_ = true;  // it does not know my name, or an old one
    return arrivals;
  }
  watch(now);
  open_ = true;
  heard_ = now;
  answer_ = answer_ || head.asks;
  acknowledge(head.got, now);
  take_messages(cursor, arrivals);
  if (!arrivals.messages.empty() && !owes_) {
    owes_ = true;
    owes_since_ = now;
  }
  return arrivals;
}

void Link::acknowledge(std::uint64_t number, Time now) {
  if (number < first_ || number - first_ >= sent_)
    return;
  const std::size_t count = number - first_ + 1;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  first_ += count;
  sent_ -= count;
  sent_since_ = now;
  patience_ = options_.resend;
}

void Link::take_messages(PacketCursor& cursor, Arrivals& arrivals) {
  while (cursor.more()) {
    Message message;
    const std::uint64_t number = cursor.message(message);
    if (is_new(number))
      arrivals.messages.push_back(std::move(message));
    else
      owes_ = true;  // it did not hear that this one came
  }
}

bool Link::is_new(std::uint64_t number) {
  if (number > got_ + kFarthest)
    throw InvalidArgument(text(
        "[rpc] expected a message with a number near ",
        got_,
        ", got ",
        number,
        "; do not speak to workers with other programs"));
  if (number <= got_)
    return false;
  if (number != got_ + 1)
    return ahead_.insert(number).second;
  ++got_;
  while (!ahead_.empty() && *ahead_.begin() == got_ + 1) {
    ahead_.erase(ahead_.begin());
    ++got_;
  }
  return true;
}

bool Link::unsent() const {
  return sent_ < std::min(kept_.size(), kFarthest / 2);
}

Packet Link::begin_packet(bool asks) const {
  Packet packet;
  packet.head = net::ByteWriter().u64(mine_).u64(theirs_).u64(got_).flag(asks).take();
  return packet;
}

void Link::fill(Packet& packet) {
  std::size_t bytes = 0;
  net::ByteWriter writer;
  while (unsent() && bytes < options_.packet_bytes) {
    const Message& message = kept_[sent_];
    writer.u64(first_ + sent_)
        .u8(message.kind)
        .u32(static_cast<std::uint32_t>(message.parts.size()))
        .string(message.body);
    bytes += message.body.size();
    for (const Part& part : message.parts)
      bytes += part.bytes.size();
    packet.parts.insert(packet.parts.end(), message.parts.begin(), message.parts.end());
    ++sent_;
  }
  packet.head += writer.bytes();
}

std::vector<Packet> Link::flush(Time now) {
  std::vector<Packet> packets;
  if (open_)
    while (unsent()) {
      if (sent_ == 0)
        sent_since_ = now;
      fill(packets.emplace_back(begin_packet(false)));
    }
  const bool acknowledges = owes_ && now - owes_since_ >= options_.acknowledge;
  const bool greets = !open_ && !kept_.empty() && now - said_ >= kHello;
  if (asks_ || (packets.empty() && (answer_ || acknowledges || greets)))
    packets.push_back(begin_packet(asks_ || greets));
  if (!packets.empty()) {
    said_ = now;
    owes_ = answer_ = asks_ = false;
  }
  return packets;
}

void Link::resend(Time now) {
  sent_ = 0;
  sent_since_ = now;
  said_ = asked_ = Time{};  // a greeting or a question may be lost, too
}

bool Link::tick(bool shared, Time now) {
  // Time during which nobody ticked says nothing of the other: this process stood
  // still.
  if (now - ticked_ > options_.lease / 2)
    heard_ = std::min(now, heard_ + (now - ticked_));
  ticked_ = now;
  watching_ = shared || !kept_.empty();
  if (!watching_) {
    heard_ = now;
    return false;
  }
  if (now - heard_ > options_.lease) {
    reset();
    return true;
  }
  if (options_.resend.count() > 0 && sent_ > 0 && now - sent_since_ >= patience_) {
    resend(now);
    patience_ = std::min(patience_ * 2, options_.lease / 4);
  }
  if (now - std::max(heard_, asked_) >= options_.lease / 4) {
    asks_ = true;
    asked_ = now;
  }
  return false;
}

Time Link::next() const {
  Time next = Time::max();
  if (owes_)
    next = owes_since_ + options_.acknowledge;
  if (!watching_)
    return next;
  next = std::min(next, ticked_ + options_.lease / 8);
  if (!open_ && !kept_.empty())
    next = std::min(next, said_ + kHello);
  if (options_.resend.count() > 0 && sent_ > 0)
    next = std::min(next, sent_since_ + patience_);
  return next;
}

void Link::forget() {
  kept_.clear();
  ahead_.clear();
  first_ = 1;
  sent_ = 0;
  got_ = 0;
  open_ = owes_ = watching_ = false;
  patience_ = options_.resend;
  ++round_;
}

void Link::reset() {
  forget();
  ++mine_;
  answer_ = theirs_ != 0;  // says so at once
}

}  // namespace trireme::rpc
