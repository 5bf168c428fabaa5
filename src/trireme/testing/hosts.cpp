#include "trireme/testing/hosts.h"

#include "trireme/core/error.h"
#include "trireme/testing/netlink.h"

namespace trireme::testing {
namespace {

constexpr const char* kDevice = "net0";

std::string plug(int host) {
  return text("plug", host);
}

}  // namespace

std::string Hosts::missing() {
  return NetNamespace::missing();
}

std::string Hosts::address(int host) {
  return text("10.77.0.", host + 1);
}

Hosts::Hosts(const HostsOptions& options) {
  for (int host = 0; host < options.hosts; ++host)
    hosts_.push_back(NetNamespace::make());
  if (!options.relayed) {
    lay_cables(options);
    if (options.megabits > 0)
      limit_cables(options.megabits);
  } else {
    relay_.emplace();
    for (int host = 0; host < size(); ++host)
      relay_->add_host(at(host), kDevice, address(host));
    relay_->start();
  }
  for (int host = 0; host < static_cast<int>(options.mtu.size()); ++host) {
    const InNamespace inside(at(host));
    Netlink().set_mtu(kDevice, options.mtu[static_cast<size_t>(host)]);
  }
}

void Hosts::lay_cables(const HostsOptions& options) {
  switch_.emplace(NetNamespace::make());
  {
    const InNamespace inside(*switch_);
    Netlink net;
    net.add_bridge("bridge");
    net.set_up("bridge", true);
    for (int host = 0; host < size(); ++host) {
      net.add_cable(plug(host), kDevice, at(host).fd());
      if (!options.mtu.empty())
        net.set_mtu(plug(host), options.mtu[static_cast<size_t>(host)]);
      net.join_bridge(plug(host), "bridge");
      net.set_up(plug(host), true);
    }
  }
  for (int host = 0; host < size(); ++host) {
    const InNamespace inside(at(host));
    Netlink net;
    net.add_address(kDevice, address(host));
    net.set_up(kDevice, true);
    net.await_running(kDevice);
  }
  const InNamespace inside(*switch_);
  for (int host = 0; host < size(); ++host)
    Netlink().await_running(plug(host));
}

void Hosts::limit_cables(int megabits) {
  const int64_t rate = int64_t{1'000'000} * megabits;
  for (int host = 0; host < size(); ++host) {
    const InNamespace inside(at(host));
    Netlink().limit_rate(kDevice, rate);
  }
  const InNamespace inside(*switch_);
  for (int host = 0; host < size(); ++host)
    Netlink().limit_rate(plug(host), rate);
}

void Hosts::enter(int host) const {
  at(host).enter();
}

void Hosts::set_connected(int host, bool connected) {
  if (relay_)
    return relay_->set_connected(host, connected);
  const InNamespace inside(*switch_);
  Netlink net;
  net.set_up(plug(host), connected);
  if (connected)
    net.await_running(plug(host));
}

void Hosts::set_device(int host, bool on) {
  const InNamespace inside(at(host));
  Netlink().set_up(kDevice, on);
}

}  // namespace trireme::testing
