#include "trireme/rpc/node_transport.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/net/node.h"
#include "trireme/rpc/contact.h"
#include "trireme/rpc/errands.h"
#include "trireme/rpc/lending.h"
#include "trireme/rpc/packet_message.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostDiallers = 4;
// What close() waits for goodbyes beyond its deadline.
constexpr milliseconds kGoodbye{500};
// How long shared memory stays that nobody uses.
constexpr milliseconds kTrim{2000};

// Ends an attempt to connect that nobody needs any more.
struct NotNeeded {};

net::OutMessage word(WireKind kind, std::string header) {
  return {
      .envelope = {
          .type = static_cast<std::uint16_t>(kind), .header = std::move(header)}};
}

net::Address fresh_unix_address() {
  std::random_device random;
  return net::Address::unix_at(
      text("@trireme-rpc-", ::getpid(), "-", std::hex, random(), random()));
}

// The first address of a member that leads there from here.
const net::Address& way_to(const Member& member, const Member& here, bool use_unix) {
  const bool near = use_unix && share_sockets(member.place, here.place);
  const auto found = std::find_if(
      member.addresses.begin(), member.addresses.end(), [&](const net::Address& one) {
        return near || one.kind == net::Address::Kind::Tcp;
      });
  if (found == member.addresses.end())
    throw InvalidArgument(text(
        "[rpc] expected an address that leads from here to ",
        member.info.name,
        ", got ",
        member.addresses.front().text(),
        " alone, which leads there on its own host; let it listen at a TCP address"));
  return *found;
}

}  // namespace

class NodeTransport::Core : public net::Receiver {
 public:
  explicit Core(NodeTransportOptions options)
      : options_(std::move(options)),
        place_(ProcessPlace::of_this_process()),
        errands_(kMostDiallers) {
    check_worker_name(options_.me.name);
    net::NodeOptions node{
        .name = options_.me.name,
        .job = options_.job,
        .incarnation = options_.incarnation,
        .security = options_.security
                        ? *options_.security
                        : net::Security::from_environment(Environment::of_process()),
        .heartbeat = options_.heartbeat,
        .reconnect = options_.reconnect,
        .linger = kGoodbye};
    if (options_.unix_sockets)
      node.listen.push_back(fresh_unix_address());
    node.listen.push_back(options_.listen);
    node_.emplace(std::move(node), *this);
  }

  Member member() const {
    Member member{
        .info = options_.me, .addresses = node_->addresses(), .place = place_};
    if (!options_.host.empty())
      member.addresses.back().host = options_.host;
    return member;
  }

  void start(std::vector<Member> members, PacketReceiver& receiver);
  void send(WorkerId to, Packet packet);
  void close(Deadline deadline);
  NodeTransportStats stats() const;

  void joined(const net::Peer& peer) override;
  void received(const net::Peer& peer, net::InMessage message) override;
  void lost(const net::Peer& peer, net::Ending ending, const std::string& why) override;

 private:
  bool keep_for_start(const std::function<void()>& event);
  Contact& contact_of(const net::Peer& peer) const;
  void add_session(Contact& contact, const net::Peer& peer, bool dialled);
  void end_session(
      Contact& contact,
      const net::Peer& peer,
      net::Ending ending,
      const std::string& why);
  void take(Contact& contact, const net::Peer& peer, net::InMessage message);
  void take_packet(Contact& contact, const net::Peer& peer, net::InMessage message);
  void take_offer(Contact& contact, const net::Peer& peer, const ArenaOffer& offer);
  void take_returns(Contact& contact, const net::Peer& peer, const std::string& header);
  void trim_later(std::weak_ptr<Lender> lender);
  void post(
      Contact& contact,
      const net::Peer& peer,
      const std::shared_ptr<Lender>& lender,
      Packet packet);
  void dial_soon(Contact& contact, milliseconds pause);
  void dial(Contact& contact);
  void check_worth(const Contact& contact) const;
  void fail_to_dial(Contact& contact, const std::string& why);
  void tell_lost(Contact& contact, const std::string& why);
  void tell_gone(Contact& contact, const std::string& why);
  bool has_ended_here(const Contact& contact) const {
    return has_ended(contact.member().place, place_);
  }

  const NodeTransportOptions options_;
  const ProcessPlace place_;

  // Set by start(), and the same from then on.
  std::vector<std::unique_ptr<Contact>> contacts_;  // by id; none for this worker
  std::map<std::string, Contact*, std::less<>> by_name_;
  std::atomic<bool> knows_members_{false};
  std::atomic<bool> started_{false};
  std::mutex start_mutex_;
  std::vector<std::function<void()>> early_;

  std::mutex receiver_mutex_;  // held while the receiver is called
  PacketReceiver* receiver_ = nullptr;

  std::atomic<bool> closing_{false};
  std::atomic<std::uint64_t> sent_{0}, received_{0}, dropped_{0}, shared_{0};
  std::mutex close_mutex_;
  std::optional<net::Node> node_;
  Errands errands_;
};

// -- the beginning

void NodeTransport::Core::start(std::vector<Member> members, PacketReceiver& receiver) {
  const std::lock_guard lock(start_mutex_);
  if (started_)
    throw InvalidArgument(
        "[rpc] expected a transport to be started once, got a second start; make "
        "another transport");
  const Member here = member();
  std::vector<std::unique_ptr<Contact>> contacts;
  for (const Member& one : members) {
    const auto id = static_cast<WorkerId>(contacts.size());
    if (one.info.id != id || (id == here.info.id) != (one.info.name == here.info.name))
      throw InvalidArgument(text(
          "[rpc] expected the members of the world by their numbers, with ",
          here.info.name,
          " as number ",
          here.info.id,
          ", got ",
          in_quotes(one.info.name),
          " as number ",
          one.info.id,
          " in place ",
          id,
          "; pass on what meet() gives"));
    if (id == here.info.id) {
      contacts.push_back(nullptr);
      continue;
    }
    const bool shares =
        options_.shared_memory && share_processes(one.place, here.place);
    const net::Address& address = way_to(one, here, options_.unix_sockets);
    contacts.push_back(std::make_unique<Contact>(
        one, address, options_.waiting_bytes, shares ? options_.arena_bytes : 0));
  }
  contacts_ = std::move(contacts);
  for (const auto& contact : contacts_)
    if (contact)
      by_name_[contact->name()] = contact.get();
  receiver_ = &receiver;
  knows_members_ = true;  // whoever hears of what was early may answer
  for (const auto& event : early_)
    event();
  early_.clear();
  started_ = true;
}

// What happens before start() is looked at then: the others may be faster.
bool NodeTransport::Core::keep_for_start(const std::function<void()>& event) {
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

void NodeTransport::Core::send(WorkerId to, Packet packet) {
  if (!knows_members_ || to < 0 || static_cast<std::size_t>(to) >= contacts_.size() ||
      !contacts_[static_cast<std::size_t>(to)])
    throw InvalidArgument(text(
        "[rpc] expected another of ",
        contacts_.size(),
        " workers to send to, got number ",
        to,
        "; start the transport first, and deliver to this worker itself without one"));
  Contact& contact = *contacts_[static_cast<std::size_t>(to)];
  const Contact::Way way = contact.way_for(packet);
  if (way.dropped)
    ++dropped_;
  if (way.dial)
    dial_soon(contact, milliseconds(0));
  if (way.peer)
    post(contact, way.peer, way.lender, std::move(packet));
}

void NodeTransport::Core::post(
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

void NodeTransport::Core::add_session(
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
  if (begun.dropped)
    errands_.at(Errands::Clock::now(), [this, &contact] {
      tell_lost(contact, "more was sent than could wait for a connection");
    });
}

// -- in, on the I/O thread

Contact& NodeTransport::Core::contact_of(const net::Peer& peer) const {
  const auto found = by_name_.find(peer.name());
  if (found == by_name_.end())
    throw InvalidArgument(text(
        "[rpc] expected a worker of this world, got one called ",
        in_quotes(peer.name()),
        "; see that no other job uses this one's key and name"));
  return *found->second;
}

void NodeTransport::Core::joined(const net::Peer& peer) {
  if (!keep_for_start([this, peer] { add_session(contact_of(peer), peer, false); }))
    add_session(contact_of(peer), peer, false);
}

void NodeTransport::Core::received(const net::Peer& peer, net::InMessage message) {
  if (started_)
    return take(contact_of(peer), peer, std::move(message));
  const auto kept = std::make_shared<net::InMessage>(std::move(message));
  const auto event = [this, peer, kept] {
    take(contact_of(peer), peer, std::move(*kept));
  };
  if (!keep_for_start(event))
    event();
}

void NodeTransport::Core::take(
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

void NodeTransport::Core::take_packet(
    Contact& contact, const net::Peer& peer, net::InMessage message) {
  // Held until the receiver has taken the packet.
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
  const std::lock_guard lock(receiver_mutex_);
  if (receiver_ != nullptr && !contact.is_gone())
    receiver_->received(contact.id(), std::move(packet));
}

void NodeTransport::Core::take_offer(
    Contact& contact, const net::Peer& peer, const ArenaOffer& offer) {
  const auto borrower = contact.borrower(peer);
  const bool accepted = borrower && borrower->accept(offer, contact.member().place);
  peer.send(word(WireKind::Answer, encode_answer(accepted)));
}

void NodeTransport::Core::take_returns(
    Contact& contact, const net::Peer& peer, const std::string& header) {
  const auto lender = contact.lender(peer);
  if (lender && lender->returned(decode_returns(header)))
    trim_later(lender);
}

void NodeTransport::Core::trim_later(std::weak_ptr<Lender> lender) {
  errands_.at(Errands::Clock::now() + kTrim, [this, lender] {
    if (const auto alive = lender.lock(); alive && alive->trim())
      trim_later(lender);
  });
}

void NodeTransport::Core::lost(
    const net::Peer& peer, net::Ending ending, const std::string& why) {
  const auto event = [this, peer, ending, why] {
    const auto found = by_name_.find(peer.name());
    if (found != by_name_.end())
      end_session(*found->second, peer, ending, why);
  };
  if (!keep_for_start(event))
    event();
}

void NodeTransport::Core::end_session(
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

void NodeTransport::Core::tell_lost(Contact& contact, const std::string& why) {
  const std::lock_guard lock(receiver_mutex_);
  if (receiver_ != nullptr && !contact.is_gone())
    receiver_->lost(contact.id(), why);
}

void NodeTransport::Core::tell_gone(Contact& contact, const std::string& why) {
  {
    const std::lock_guard lock(receiver_mutex_);
    if (contact.set_gone() && receiver_ != nullptr)
      receiver_->gone(contact.id(), why);
  }
  for (const net::Peer& peer : contact.sessions())
    peer.close();
}

// -- connections, on the threads that run errands

void NodeTransport::Core::dial_soon(Contact& contact, milliseconds pause) {
  errands_.at(Errands::Clock::now() + pause, [this, &contact] {
    if (contact.wants_dial())
      dial(contact);
  });
}

// Called now and then while it connects; what it throws ends that.
void NodeTransport::Core::check_worth(const Contact& contact) const {
  if (closing_ || contact.is_gone() || has_ended_here(contact))
    throw NotNeeded();
}

void NodeTransport::Core::dial(Contact& contact) {
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

void NodeTransport::Core::fail_to_dial(Contact& contact, const std::string& why) {
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

// -- the end

void NodeTransport::Core::close(Deadline deadline) {
  const std::lock_guard lock(close_mutex_);
  if (closing_)
    return;
  const auto idle = [](const auto& contact) {
    return !contact || contact->is_gone() || contact->is_idle();
  };
  if (started_)
    while (!deadline.expired() &&
           !std::all_of(contacts_.begin(), contacts_.end(), idle))
      std::this_thread::sleep_for(milliseconds(1));
  closing_ = true;
  errands_.close();
  node_->close();
  const std::lock_guard receiver(receiver_mutex_);
  receiver_ = nullptr;
}

NodeTransportStats NodeTransport::Core::stats() const {
  NodeTransportStats stats{
      .packets_sent = sent_,
      .packets_received = received_,
      .parts_shared = shared_,
      .packets_dropped = dropped_,
      .turned_away = node_->turned_away()};
  if (started_)
    for (const auto& contact : contacts_)
      for (const net::Peer& peer :
           contact ? contact->sessions() : std::vector<net::Peer>()) {
        ++stats.sessions;
        if (const auto lender = contact->lender(peer))
          stats.lent_bytes += lender->lent_bytes();
      }
  return stats;
}

// -- the handle

NodeTransport::NodeTransport(NodeTransportOptions options)
    : core_(std::make_unique<Core>(std::move(options))) {}

NodeTransport::~NodeTransport() {
  try {
    close(Deadline::after(milliseconds(0)));
  } catch (const std::exception& error) {
    TRIREME_LOG(warn, "rpc") << "could not close the transport: " << error.what();
  }
}

Member NodeTransport::member() const {
  return core_->member();
}

void NodeTransport::start(std::vector<Member> members, PacketReceiver& receiver) {
  core_->start(std::move(members), receiver);
}

void NodeTransport::send(WorkerId to, Packet packet) {
  core_->send(to, std::move(packet));
}

void NodeTransport::close(Deadline deadline) {
  core_->close(deadline);
}

NodeTransportStats NodeTransport::stats() const {
  return core_->stats();
}

}  // namespace trireme::rpc
