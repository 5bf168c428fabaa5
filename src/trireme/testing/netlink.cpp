#include "trireme/testing/netlink.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"

namespace trireme::testing {

/// A message to the kernel: a head, a body, and attributes that may hold others.
class Netlink::Request {
 public:
  template <class Body>
  Request(uint16_t type, uint16_t flags, const Body& body) {
    const nlmsghdr head{
        .nlmsg_len = 0,
        .nlmsg_type = type,
        .nlmsg_flags = static_cast<uint16_t>(flags | NLM_F_REQUEST | NLM_F_ACK),
        .nlmsg_seq = 0,
        .nlmsg_pid = 0};
    put(&head, sizeof head);
    put(&body, sizeof body);
  }

  template <class Body>
  Request& body(const Body& bytes) {
    put(&bytes, sizeof bytes);
    return *this;
  }
  Request& attribute(uint16_t type, const void* data, size_t bytes) {
    const size_t at = begin(type);
    put(data, bytes);
    return end(at);
  }
  Request& attribute(uint16_t type, const std::string& words) {
    return attribute(type, words.c_str(), words.size() + 1);
  }
  Request& attribute(uint16_t type, int32_t number) {
    return attribute(type, &number, sizeof number);
  }
  /// What is added until end() lies inside this one.
  size_t begin(uint16_t type) {
    const size_t at = bytes_.size();
    const rtattr head{.rta_len = 0, .rta_type = type};
    put(&head, sizeof head);
    return at;
  }
  Request& end(size_t at) {
    rtattr head{};
    std::memcpy(&head, bytes_.data() + at, sizeof head);
    head.rta_len = static_cast<unsigned short>(length_ - at);
    std::memcpy(bytes_.data() + at, &head, sizeof head);
    return *this;
  }
  const std::vector<char>& finish(uint32_t sequence) {
    nlmsghdr head{};
    std::memcpy(&head, bytes_.data(), sizeof head);
    head.nlmsg_len = static_cast<uint32_t>(length_);
    head.nlmsg_seq = sequence;
    std::memcpy(bytes_.data(), &head, sizeof head);
    return bytes_;
  }

 private:
  // Everything begins at a multiple of four.
  void put(const void* data, size_t bytes) {
    const char* begin = static_cast<const char*>(data);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
    length_ = bytes_.size();
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }

  std::vector<char> bytes_;
  size_t length_ = 0;  // without what fills up the last four
};

namespace {

constexpr uint16_t kMake = NLM_F_CREATE | NLM_F_EXCL;

ifinfomsg device(int index = 0) {
  ifinfomsg info{};
  info.ifi_family = AF_UNSPEC;
  info.ifi_index = index;
  return info;
}

[[noreturn]] void refuse_netlink(const std::string& what, int code) {
  throw InternalError(text("[testing] expected to ", what, ", got ", errno_text(code)));
}

int checked_socket(int fd) {
  if (fd < 0)
    refuse_netlink("open a socket to the kernel", errno);
  return fd;
}

}  // namespace

Netlink::Netlink()
    : socket_(
          checked_socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE))),
      names_(checked_socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))) {}

int Netlink::index_of(const std::string& name) const {
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  if (::ioctl(names_.get(), SIOCGIFINDEX, &request) != 0)
    refuse_netlink("find the network device " + name, errno);
  return request.ifr_ifindex;
}

void Netlink::send(Request& request, const std::string& what) {
  const std::vector<char>& bytes = request.finish(++sequence_);
  if (::send(socket_.get(), bytes.data(), bytes.size(), 0) < 0)
    refuse_netlink(what, errno);
  // The kernel answers before send() returns.
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  const ssize_t size = ::recv(socket_.get(), answer.data(), answer.size(), 0);
  if (size < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(nlmsgerr)))
    refuse_netlink(what, EPROTO);
  nlmsgerr error{};
  std::memcpy(&error, answer.data() + sizeof(nlmsghdr), sizeof error);
  if (error.error != 0)
    refuse_netlink(what, -error.error);
}

void Netlink::add_bridge(const std::string& name) {
  Request request(RTM_NEWLINK, kMake, device());
  request.attribute(IFLA_IFNAME, name);
  const size_t info = request.begin(IFLA_LINKINFO);
  request.attribute(IFLA_INFO_KIND, "bridge").end(info);
  send(request, "make the bridge " + name);
}

void Netlink::add_cable(
    const std::string& name, const std::string& there, int there_namespace) {
  Request request(RTM_NEWLINK, kMake, device());
  request.attribute(IFLA_IFNAME, name);
  const size_t info = request.begin(IFLA_LINKINFO);
  request.attribute(IFLA_INFO_KIND, "veth");
  const size_t data = request.begin(IFLA_INFO_DATA);
  const size_t peer = request.begin(VETH_INFO_PEER);
  request.body(device())
      .attribute(IFLA_IFNAME, there)
      .attribute(IFLA_NET_NS_FD, there_namespace)
      .end(peer)
      .end(data)
      .end(info);
  send(request, text("lay a cable from ", name, " to ", there));
}

void Netlink::join_bridge(const std::string& name, const std::string& bridge) {
  Request request(RTM_NEWLINK, 0, device(index_of(name)));
  request.attribute(IFLA_MASTER, index_of(bridge));
  send(request, text("plug ", name, " into ", bridge));
}

void Netlink::set_up(const std::string& name, bool up) {
  ifinfomsg info = device(index_of(name));
  info.ifi_change = IFF_UP;
  info.ifi_flags = up ? unsigned{IFF_UP} : 0U;
  Request request(RTM_NEWLINK, 0, info);
  send(request, text("turn ", name, up ? " on" : " off"));
}

void Netlink::await_running(const std::string& name) const {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  for (;;) {
    if (::ioctl(names_.get(), SIOCGIFFLAGS, &request) != 0)
      refuse_netlink("look at the network device " + name, errno);
    if ((request.ifr_flags & IFF_RUNNING) != 0)
      return;
    if (deadline.expired())
      refuse_netlink(text("see ", name, " run within 10 s"), ETIMEDOUT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Netlink::set_mtu(const std::string& name, int bytes) {
  Request request(RTM_NEWLINK, 0, device(index_of(name)));
  request.attribute(IFLA_MTU, bytes);
  send(request, text("let ", name, " take packets of ", bytes, " bytes"));
}

void Netlink::limit_rate(const std::string& name, int64_t bits_a_second) {
  // What passes unhindered at once: some of the kernel's own packets of 64 KiB.
  constexpr uint32_t kBurst = 256 << 10;
  tcmsg info{};
  info.tcm_family = AF_UNSPEC;
  info.tcm_ifindex = index_of(name);
  info.tcm_parent = TC_H_ROOT;
  const auto rate = static_cast<uint32_t>(bits_a_second / 8);
  tc_tbf_qopt limit{};
  limit.rate.rate = rate;
  limit.rate.linklayer = TC_LINKLAYER_ETHERNET;
  limit.limit = kBurst + rate / 20;
  Request request(RTM_NEWQDISC, kMake, info);
  request.attribute(TCA_KIND, "tbf");
  const size_t options = request.begin(TCA_OPTIONS);
  request.attribute(TCA_TBF_PARMS, &limit, sizeof limit)
      .attribute(TCA_TBF_BURST, &kBurst, sizeof kBurst)
      .end(options);
  send(request, text("let ", bits_a_second, " bits a second out of ", name));
}

void Netlink::add_address(const std::string& name, const std::string& address) {
  ifaddrmsg info{};
  info.ifa_family = AF_INET;
  info.ifa_prefixlen = 24;
  info.ifa_index = static_cast<uint32_t>(index_of(name));
  in_addr binary{};
  if (::inet_pton(AF_INET, address.c_str(), &binary) != 1)
    refuse_netlink("read the address " + address, EINVAL);
  Request request(RTM_NEWADDR, kMake, info);
  request.attribute(IFA_LOCAL, &binary, sizeof binary)
      .attribute(IFA_ADDRESS, &binary, sizeof binary);
  send(request, text("give ", name, " the address ", address));
}

}  // namespace trireme::testing
