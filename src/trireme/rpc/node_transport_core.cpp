#include "trireme/rpc/node_transport_core.h"

#include <algorithm>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/rpc/packet_message.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

// How long shared memory stays that nobody uses.
constexpr milliseconds kTrim{2000};

// Ends an attempt to connect that nobody needs any more.
struct NotNeeded {};

net::OutMessage word(WireKind kind, std::string header) {
  return {
      .envelope = {
          .type = static_cast<std::uint16_t>(kind), .header = std::move(header)}};
}

// What goes with the largest call in one message: its heads, and small ones beside it.
constexpr std::uint64_t kBesideCall = std::uint64_t{2} << 20;

// What no message can carry must be refused where somebody hears of it.
void check_size(const Packet& packet, const WorkerInfo& receiver) {
  const std::uint64_t most = largest_message(receiver);
  std::uint64_t room = most;
  bool fits = packet.head.size() <= room;
  room -= fits ? packet.head.size() : 0;
  for (const Part& part : packet.parts) {
    fits = fits && room >= kPartCost && part.bytes.size() <= room - kPartCost;
    if (!fits)
      break;
    room -= part.bytes.size() + kPartCost;
  }
  if (!fits)
    throw InvalidArgument(text(
        "[rpc] expected a packet of at most ",
        most,
        " bytes for ",
        receiver.name,
        ", got a larger one; send it in several calls"));
}

}  // namespace

std::size_t largest_message(const WorkerInfo& receiver) {
  constexpr std::uint64_t kMost = net::Limits().body_bytes;
  return std::min(kMost, std::min(kMost, receiver.message_bytes) + kBesideCall);
}

bool NodeTransportCore::keep_for_start(const std::function<void()>& event) {
  if (started_)
    return false;
  const std::lock_guard lock(start_mutex_);
  if (started_)
    return false;
  early_.push_back([event] {
    try {
      event();
    } catch (const Error& error) {
      TRIREME_LOG(warn, "rpc") << error.what();
    }
  });
  return true;
}

// -- out

Contact& NodeTransportCore::other(WorkerId worker) const {
  const auto at = static_cast<std::size_t>(worker);
  if (!open_ || worker < 0 || at >= contacts_.size() || !contacts_[at])
    throw InvalidArgument(text(
        "[rpc] expected another of ",
        contacts_.size(),
        " workers, got number ",
        worker,
        "; start the transport first, and deliver to this worker itself without one"));
  return *contacts_[at];
}

void NodeTransportCore::send(WorkerId to, Packet packet) {
  Contact& contact = other(to);
  check_size(packet, contact.member().info);
  const Contact::Way way = contact.way_for(packet);
  if (way.dropped)
    ++dropped_;
  if (way.dial)
    dial_soon(contact, milliseconds(0));
  if (way.peer)
    post(contact, way.peer, way.lender, std::move(packet));
}

// Not here: the receiver may be what calls, and it is told, too.
void NodeTransportCore::give_up(WorkerId worker) {
  errands_.at(Errands::Clock::now(), [this, &contact = other(worker)] {
    tell_gone(contact, "this worker has given it up");
  });
}

void NodeTransportCore::post(
    Contact& contact,
    const net::Peer& peer,
    const std::shared_ptr<Lender>& lender,
    Packet packet) {
  ++sent_;
  if (!lender) {
    peer.send(to_message(std::move(packet)));
  } else {
    peer.send(to_message(
        std::move(packet), [&](const Part& part) -> std::optional<std::uint64_t> {
          if (part.bytes.size() < options_.shared_bytes)
            return std::nullopt;
          const auto offset = lender->lend(part);
          shared_ += offset.has_value();
          return offset;
        }));
    if (const auto offer = lender->take_offer())
      peer.send(word(WireKind::Offer, encode_offer(*offer)));
  }
  // It may have ended a moment ago, and its loss be told already: then nobody would
  // hear that this packet went nowhere.
  if (peer.ended())
    errands_.at(Errands::Clock::now(), [this, &contact] {
      tell_lost(contact, "the session had ended when more was sent");
    });
}

void NodeTransportCore::add_session(
    Contact& contact, const net::Peer& peer, bool dialled) {
  Contact::Begun begun = contact.begin(peer, dialled);
  if (begun.refused)
    throw InvalidArgument(text(
        "[rpc] expected a session with a worker of this world, got one with ",
        contact.name(),
        ", which is gone; start the job again"));
  for (Packet& packet : begun.packets)
    post(contact, peer, begun.lender, std::move(packet));
  contact.posted();
  // It may have been lost before it was known here.
  if (peer.ended())
    end_session(contact, peer, net::Ending::Lost, peer.why());
  if (begun.dropped)
    errands_.at(Errands::Clock::now(), [this, &contact] {
      tell_lost(contact, "more was sent than could wait for a connection");
    });
}

// -- in, on the I/O thread

Contact& NodeTransportCore::contact_of(const net::Peer& peer) const {
  const auto found = by_name_.find(peer.name());
  if (found == by_name_.end())
    throw InvalidArgument(text(
        "[rpc] expected a worker of this world, got one called ",
        in_quotes(peer.name()),
        "; see that no other job uses this one's key and name"));
  return *found->second;
}

void NodeTransportCore::joined(const net::Peer& peer) {
  if (!keep_for_start([this, peer] { add_session(contact_of(peer), peer, false); }))
    add_session(contact_of(peer), peer, false);
}

void NodeTransportCore::received(const net::Peer& peer, net::InMessage message) {
  if (started_)
    return take(contact_of(peer), peer, std::move(message));
  const auto kept = std::make_shared<net::InMessage>(std::move(message));
  const auto event = [this, peer, kept] {
    take(contact_of(peer), peer, std::move(*kept));
  };
  if (!keep_for_start(event))
    event();
}

void NodeTransportCore::take(
    Contact& contact, const net::Peer& peer, net::InMessage message) {
  const std::string& header = message.envelope.header;
  switch (static_cast<WireKind>(message.envelope.type)) {
    case WireKind::Packet:
      return take_packet(contact, peer, std::move(message));
    case WireKind::Offer:
      return take_offer(contact, peer, decode_offer(header));
    case WireKind::Answer:
      if (const auto lender = contact.lender(peer))
        lender->answered(decode_answer(header));
      return;
    case WireKind::Return:
      return take_returns(contact, peer, header);
  }
  throw InvalidArgument(text(
      "[rpc] expected a packet of a worker, got a message of type ",
      message.envelope.type,
      "; run the same release of Trireme on all workers"));
}

void NodeTransportCore::take_packet(
    Contact& contact, const net::Peer& peer, net::InMessage message) {
  const net::Allowance allowance = std::move(message.allowance);
  Packet packet =
      to_packet(std::move(message), [&](std::uint64_t offset, std::uint64_t bytes) {
        const auto borrower = contact.borrower(peer);
        if (!borrower)
          throw InvalidArgument(text(
              "[rpc] expected a packet without shared memory from ",
              contact.name(),
              ", got one with a part at ",
              offset,
              "; run the same release of Trireme on all workers"));
        return borrower->borrow(offset, bytes);
      });
  ++received_;
  {
    const std::lock_guard lock(receiver_mutex_);
    if (receiver_ != nullptr && !contact.is_gone())
      receiver_->received(contact.id(), std::move(packet));
  }
}

void NodeTransportCore::take_offer(
    Contact& contact, const net::Peer& peer, const ArenaOffer& offer) {
  // Who was dialled may be faster than the thread that has dialled.
  if (!contact.knows(peer))
    add_session(contact, peer, true);
  const auto borrower = contact.borrower(peer);
  const bool accepted = borrower && borrower->accept(offer, contact.member().place);
  peer.send(word(WireKind::Answer, encode_answer(accepted)));
}

void NodeTransportCore::take_returns(
    Contact& contact, const net::Peer& peer, const std::string& header) {
  const auto lender = contact.lender(peer);
  if (lender && lender->returned(decode_returns(header)))
    trim_later(lender);
}

void NodeTransportCore::trim_later(std::weak_ptr<Lender> lender) {
  errands_.at(Errands::Clock::now() + kTrim, [this, lender] {
    if (const auto alive = lender.lock(); alive && alive->trim())
      trim_later(lender);
  });
}

void NodeTransportCore::lost(
    const net::Peer& peer, net::Ending ending, const std::string& why) {
  const auto event = [this, peer, ending, why] {
    const auto found = by_name_.find(peer.name());
    if (found != by_name_.end())
      end_session(*found->second, peer, ending, why);
  };
  if (!keep_for_start(event))
    event();
}

void NodeTransportCore::end_session(
    Contact& contact,
    const net::Peer& peer,
    net::Ending ending,
    const std::string& why) {
  const Contact::Ended ended = contact.end(peer);
  if (closing_ && ending == net::Ending::Closed)
    return;
  if (ending == net::Ending::Left) {
    // Over another session there may be more on its way.
    if (ended.last)
      tell_gone(contact, contact.name() + " has left");
    return;
  }
  if (ending == net::Ending::Closed)
    return tell_gone(contact, text("this worker has given it up: ", why));
  if (has_ended_here(contact))
    return tell_gone(contact, "its process has ended");
  if (ended.lost)
    tell_lost(contact, why);
  if (ended.dial)
    dial_soon(contact, ended.pause);
}

void NodeTransportCore::tell_lost(Contact& contact, const std::string& why) {
  const std::lock_guard lock(receiver_mutex_);
  if (receiver_ != nullptr && !contact.is_gone())
    receiver_->lost(contact.id(), why);
}

void NodeTransportCore::tell_gone(Contact& contact, const std::string& why) {
  {
    const std::lock_guard lock(receiver_mutex_);
    if (contact.set_gone() && receiver_ != nullptr)
      receiver_->gone(contact.id(), why);
  }
  for (const net::Peer& peer : contact.sessions())
    peer.close();
}

// -- connections, on the threads that run errands

void NodeTransportCore::dial_soon(Contact& contact, milliseconds pause) {
  errands_.at(Errands::Clock::now() + pause, [this, &contact] {
    if (contact.wants_dial())
      dial(contact);
  });
}

// Called now and then while it connects; what it throws ends that.
void NodeTransportCore::check_worth(const Contact& contact) const {
  if (closing_ || contact.is_gone() || has_ended_here(contact))
    throw NotNeeded();
}

void NodeTransportCore::dial(Contact& contact) {
  try {
    const net::Peer peer = node_->connect(
        contact.name(),
        contact.address(),
        Deadline::after(options_.dial),
        [this, &contact] { check_worth(contact); });
    add_session(contact, peer, true);
  } catch (const NotNeeded&) {
    fail_to_dial(contact, "nobody needs it any more");
  } catch (const TimeoutError& error) {
    fail_to_dial(contact, error.what());
  } catch (const Error& error) {
    if (has_ended_here(contact))
      tell_gone(contact, "its process has ended");
    else if (!closing_)
      tell_gone(contact, error.what());
  }
}

void NodeTransportCore::fail_to_dial(Contact& contact, const std::string& why) {
  if (closing_)
    return;
  if (has_ended_here(contact))
    return tell_gone(contact, "its process has ended");
  const Contact::Ended ended = contact.fail_to_dial();
  if (ended.lost)
    tell_lost(contact, why);
  if (ended.dial)
    dial_soon(contact, ended.pause);
}

}  // namespace trireme::rpc
