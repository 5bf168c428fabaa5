// A slow, lossy road between hosts: packets pass through a process that holds them up.
#pragma once
#include <atomic>
#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

#include "trireme/core/file_descriptor.h"
#include "trireme/testing/net_namespace.h"

namespace trireme::testing {

/// Each host has a tun device whose packets a process of the relay's own takes out,
/// delays, drops, or puts into the device of the host that they are for. All of it may
/// be changed while packets are on their way.
///
///     PacketRelay relay;
///     relay.add_host(host, "tun0", "10.0.0.1");
///     relay.add_host(other, "tun0", "10.0.0.2");
///     relay.start();
///     relay.set_delay(std::chrono::milliseconds(20));
class PacketRelay {
 public:
  PacketRelay();
  ~PacketRelay();
  PacketRelay(const PacketRelay&) = delete;
  PacketRelay& operator=(const PacketRelay&) = delete;

  /// Makes the device of a host in its namespace, with this address.
  void add_host(
      const NetNamespace& host, const std::string& device, const std::string& address);
  /// Begins to relay. The process ends with this object, or with this thread.
  void start();

  /// How long every packet takes, one way.
  void set_delay(std::chrono::milliseconds delay);
  /// Loses so many of 10,000 packets, at random.
  void set_loss(int of_ten_thousand);
  /// Loses packets that are longer, and tells nobody: a black hole.
  void set_longest(int bytes);
  /// Whether packets from and to this host pass.
  void set_connected(int host, bool connected);
  /// How many packets it has passed on and lost.
  int64_t passed() const { return settings_->passed.load(); }
  int64_t lost() const { return settings_->lost.load(); }

  /// How many hosts there may be.
  static constexpr int kMostHosts = 8;

 private:
  /// In memory that both processes share.
  struct Settings {
    std::atomic<int64_t> delay_us{0};
    std::atomic<int> loss{0};
    std::atomic<int> longest{65536};
    std::atomic<bool> cut[kMostHosts] = {};
    std::atomic<int64_t> passed{0};
    std::atomic<int64_t> lost{0};
  };
  class Road;

  Settings* settings_;
  std::vector<FileDescriptor> devices_;
  std::vector<uint32_t> addresses_;  // in the byte order of the network
  pid_t process_ = -1;
};

}  // namespace trireme::testing
