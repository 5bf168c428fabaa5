// What a NodeTransport does with its node, its contacts and its receiver.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/net/node.h"
#include "trireme/rpc/contact.h"
#include "trireme/rpc/errands.h"
#include "trireme/rpc/lending.h"
#include "trireme/rpc/node_transport.h"

namespace trireme::rpc {

/// How large the body of a message for that worker may be.
std::size_t largest_message(const WorkerInfo& receiver);

/// All of a NodeTransport; see there. Errands and the node's I/O thread call it too.
class NodeTransportCore : public net::Receiver {
 public:
  explicit NodeTransportCore(NodeTransportOptions options);

  Member member() const;
  void start(const std::vector<Member>& members, PacketReceiver& receiver);
  void send(WorkerId to, Packet packet);
  void give_up(WorkerId worker);
  void close(Deadline deadline);
  NodeTransportStats stats() const;
  bool has_ended_here(WorkerId worker) const { return has_ended_here(other(worker)); }

  void joined(const net::Peer& peer) override;
  void received(const net::Peer& peer, net::InMessage message) override;
  void lost(const net::Peer& peer, net::Ending ending, const std::string& why) override;

 private:
  /// What happens before start() is looked at then: the others may be faster.
  bool keep_for_start(const std::function<void()>& event);
  Contact& other(WorkerId worker) const;
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
  void dial_soon(Contact& contact, std::chrono::milliseconds pause);
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
  std::atomic<bool> open_{false};     // send() may be called
  std::atomic<bool> started_{false};  // and what came before is done with
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

}  // namespace trireme::rpc
