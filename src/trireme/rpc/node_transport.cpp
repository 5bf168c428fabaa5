#include "trireme/rpc/node_transport.h"

#include <algorithm>
#include <exception>
#include <random>
#include <thread>
#include <unistd.h>
#include <utility>

#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/log.h"
#include "trireme/core/machine.h"
#include "trireme/rpc/node_transport_core.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostDiallers = 4;
// What close() waits for goodbyes beyond its deadline.
constexpr milliseconds kGoodbye{500};

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

// -- the beginning

NodeTransportCore::NodeTransportCore(NodeTransportOptions options)
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
      .limits = {.body_bytes = largest_message(options_.me)},
      .heartbeat = options_.heartbeat,
      .reconnect = options_.reconnect,
      .linger = kGoodbye};
  if (options_.unix_sockets)
    node.listen.push_back(fresh_unix_address());
  node.listen.push_back(options_.listen);
  node_.emplace(std::move(node), *this);
}

Member NodeTransportCore::member() const {
  Member member{.info = options_.me, .addresses = node_->addresses(), .place = place_};
  if (!options_.host.empty())
    member.addresses.back().host = options_.host;
  return member;
}

void NodeTransportCore::start(
    const std::vector<Member>& members, PacketReceiver& receiver) {
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
  // Who looks for more before it sleeps must not take the core of one who works.
  const auto here_too =
      std::count_if(members.begin(), members.end(), [&](const Member& one) {
        return one.place.kernel == place_.kernel;
      });
  node_->set_looks(here_too <= available_cores());
  open_ = true;
  for (const auto& event : early_)
    event();
  early_.clear();
  started_ = true;
}

// -- the end

void NodeTransportCore::close(Deadline deadline) {
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

NodeTransportStats NodeTransportCore::stats() const {
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
    : core_(std::make_unique<NodeTransportCore>(std::move(options))) {}

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

void NodeTransport::start(
    const std::vector<Member>& members, PacketReceiver& receiver) {
  core_->start(members, receiver);
}

void NodeTransport::send(WorkerId to, Packet packet) {
  core_->send(to, std::move(packet));
}

void NodeTransport::give_up(WorkerId worker) {
  core_->give_up(worker);
}

void NodeTransport::close(Deadline deadline) {
  core_->close(deadline);
}

NodeTransportStats NodeTransport::stats() const {
  return core_->stats();
}

bool NodeTransport::has_ended(WorkerId worker) const {
  return core_->has_ended_here(worker);
}

}  // namespace trireme::rpc
