// Hosts for tests: each a network of its own in this machine, joined by a switch or by
// a relay.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/testing/net_namespace.h"
#include "trireme/testing/packet_relay.h"

namespace trireme::testing {

/// What hosts a test has.
struct HostsOptions {
  int hosts = 2;
  /// Whether packets pass through a PacketRelay, which delays and loses them, instead
  /// of a switch.
  bool relayed = false;
  /// The longest packets of each host's device, where they differ; else 1500.
  std::vector<int> mtu;
  /// How many million bits a second each cable carries, each way; 0: as many as can be.
  int megabits = 0;
};

/// Hosts that reach one another as machines in a rack do, and nothing else: neither
/// this machine nor the hosts of another test. Only their networks are theirs; they
/// share memory, files and processes. All of it goes with this object, or with this
/// process.
///
///     if (const auto why = Hosts::missing(); !why.empty())
///       GTEST_SKIP() << why;
///     const Hosts hosts({.hosts = 2});
///     // in a process of the second host:
///     hosts.enter(1);
class Hosts {
 public:
  /// Why this process cannot make any; empty if it can.
  static std::string missing();
  explicit Hosts(const HostsOptions& options = {});

  int size() const { return static_cast<int>(hosts_.size()); }
  /// This thread, and those that it starts from now on, are on that host.
  void enter(int host) const;
  const NetNamespace& network(int host) const { return at(host); }
  /// By which the others reach it.
  static std::string address(int host);

  /// Pulls the cable between a host and the switch, or plugs it in again. Nobody is
  /// told: packets are lost.
  void set_connected(int host, bool connected);
  /// Turns a host's own device off or on: there is no way out of it while it is off.
  void set_device(int host, bool on);

  /// With HostsOptions::relayed.
  PacketRelay& relay() { return *relay_; }

 private:
  void lay_cables(const HostsOptions& options);
  void limit_cables(int megabits);
  const NetNamespace& at(int host) const { return hosts_[static_cast<size_t>(host)]; }

  std::vector<NetNamespace> hosts_;
  std::optional<NetNamespace> switch_;
  std::optional<PacketRelay> relay_;
};

}  // namespace trireme::testing
