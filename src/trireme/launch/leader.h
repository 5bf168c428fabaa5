// The launcher of node 0 as the one that the others meet: it listens, tells all what
// Rounds decides, and hosts a store for the ranks of each start.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trireme/core/deadline.h"
#include "trireme/launch/mailbox.h"
#include "trireme/launch/options.h"
#include "trireme/launch/rounds.h"
#include "trireme/net/node.h"
#include "trireme/net/store_server.h"

namespace trireme::launch {

/// What launchers call the one that leads, and the job in which they talk.
inline constexpr const char* kLeaderName = "node-0";
inline constexpr const char* kLaunchJob = "trireme run";
/// After so long without a sign a node counts as lost.
inline constexpr std::chrono::seconds kNodeHeartbeat{5};

/// A word on its way to another launcher.
net::OutMessage node_message(const Word& word);
/// Where the nodes of a job meet.
net::Address meeting_address(const Options& options);

/// To be driven by one thread: attend() when fd() is readable, and at wake().
class Leader : public net::Receiver {
 public:
  /// `token` tells the node of this process, which is number 0, from the others.
  /// InvalidArgument where it cannot listen, or must not without protection.
  Leader(const Options& options, const net::Security& security, std::string token);
  ~Leader() override;

  int fd() const { return mailbox_.fd(); }
  std::optional<Rounds::Time> wake() const { return rounds_.wake(); }
  void attend();
  /// As Rounds::cannot_gather().
  void cannot_gather(const std::string& why);
  /// Goes on until the node of this process has left, so that what it said last has
  /// reached the others; at most that long.
  void finish(const Deadline& deadline);
  /// Where it listens.
  net::Address address() const { return node_->addresses().front(); }

 private:
  struct Event {
    net::Peer peer;
    std::optional<Word> word;
    /// If it is lost.
    std::string why;
  };
  void received(const net::Peer& peer, net::InMessage message) override;
  void lost(const net::Peer& peer, net::Ending ending, const std::string& why) override;

  void take(const Event& event);
  void post();
  void send(Letter letter);
  void open_store(int attempt);

  const Options options_;
  const std::string token_;
  const std::string log_name_;
  /// A key for the ranks; none where the launchers talk without protection.
  std::optional<net::JobKey> key_;
  Rounds rounds_;
  Mailbox<Event> mailbox_;
  int last_id_ = 0;
  int own_id_ = 0;  // of the node of this process, while it is there
  std::map<net::Peer, int> ids_;
  std::map<int, net::Peer> peers_;
  int store_attempt_ = -1;
  int master_port_ = 0;
  std::unique_ptr<net::StoreServer> store_;
  // The last: it calls the others until it is gone.
  std::unique_ptr<net::Node> node_;
};

}  // namespace trireme::launch
