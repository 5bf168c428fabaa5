// Network devices, made and joined without a program for it: a little of what `ip`
// does.
#pragma once
#include <cstdint>
#include <string>

#include "trireme/core/file_descriptor.h"

namespace trireme::testing {

/// Speaks with the kernel about the devices of one network namespace: the one in which
/// it was made. Every call throws InternalError with what the kernel said. Root only.
///
///     Netlink net;
///     net.add_bridge("br0");
///     net.set_up("br0", true);
class Netlink {
 public:
  Netlink();

  void add_bridge(const std::string& name);
  /// Two devices with a cable in between: `name` here, `there` in another namespace.
  void add_cable(
      const std::string& name, const std::string& there, int there_namespace);
  /// Plugs a device into a bridge.
  void join_bridge(const std::string& name, const std::string& bridge);
  void set_up(const std::string& name, bool up);
  /// Waits until a device that is on has noticed its cable: before, it drops what
  /// comes.
  void await_running(const std::string& name) const;
  /// The longest packet that a device takes, in bytes.
  void set_mtu(const std::string& name, int bytes);
  /// Lets no more than so many bits a second out of a device: what comes faster waits,
  /// 50 ms at most, and then is lost, as in a switch.
  void limit_rate(const std::string& name, int64_t bits_a_second);
  /// An IPv4 address in a network whose addresses share their first 24 bits.
  void add_address(const std::string& name, const std::string& address);

 private:
  class Request;
  void send(Request& request, const std::string& what);
  int index_of(const std::string& name) const;

  FileDescriptor socket_;
  // Of the same namespace; looks up names.
  FileDescriptor names_;
  uint32_t sequence_ = 0;
};

}  // namespace trireme::testing
