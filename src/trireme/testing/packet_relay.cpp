#include "trireme/testing/packet_relay.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <random>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/testing/netlink.h"

namespace trireme::testing {
namespace {

using RelayClock = std::chrono::steady_clock;

// Where an IPv4 packet says whom it is for.
constexpr size_t kDestination = 16;

/// A device without a cable: what the host sends can be read from the descriptor.
int make_tun(const std::string& name) {
  const int fd = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (fd < 0 || ::ioctl(fd, TUNSETIFF, &request) != 0) {
    const int code = errno;
    FileDescriptor close_it(fd);
    throw InternalError(text(
        "[testing] expected to make the device ", name, ", got ", errno_text(code)));
  }
  return fd;
}

}  // namespace

/// What the relay's process does.
class PacketRelay::Road {
 public:
  explicit Road(const PacketRelay& relay) : relay_(relay) {}

  [[noreturn]] void run() {
    std::vector<pollfd> devices;
    for (const FileDescriptor& device : relay_.devices_)
      devices.push_back({.fd = device.get(), .events = POLLIN, .revents = 0});
    for (;;) {
      const timespec wait = time_to_next();
      ::ppoll(
          devices.data(),
          devices.size(),
          travelling_.empty() ? nullptr : &wait,
          nullptr);
      for (size_t host = 0; host < devices.size(); ++host)
        if ((devices[host].revents & POLLIN) != 0)
          take(host);
      deliver();
    }
  }

 private:
  struct Packet {
    RelayClock::time_point due;
    size_t to = 0;
    std::vector<char> bytes;
  };

  timespec time_to_next() const {
    if (travelling_.empty())
      return {};
    const auto left = std::max(
        std::chrono::nanoseconds(0),
        std::chrono::nanoseconds(travelling_.front().due - RelayClock::now()));
    return {
        .tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
        .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
  }

  void take(size_t from) {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t size =
          ::read(relay_.devices_[from].get(), buffer.data(), buffer.size());
      if (size <= 0)
        return;
      const auto to = destination(buffer.data(), static_cast<size_t>(size));
      if (to == relay_.addresses_.size())
        continue;  // for nobody here: the kernel's own multicasts
      if (loses(from, to, static_cast<int>(size))) {
        ++relay_.settings_->lost;
        continue;
      }
      // In the order in which they came, also where the delay grows shorter.
      const auto due = RelayClock::now() +
                       std::chrono::microseconds(relay_.settings_->delay_us.load());
      travelling_.push_back(
          {.due = travelling_.empty() ? due : std::max(due, travelling_.back().due),
           .to = to,
           .bytes = {buffer.data(), buffer.data() + size}});
    }
  }

  size_t destination(const char* packet, size_t bytes) const {
    uint32_t address = 0;
    if (bytes < kDestination + sizeof address || packet[0] >> 4 != 4)
      return relay_.addresses_.size();
    std::memcpy(&address, packet + kDestination, sizeof address);
    const auto found =
        std::find(relay_.addresses_.begin(), relay_.addresses_.end(), address);
    return static_cast<size_t>(found - relay_.addresses_.begin());
  }

  bool loses(size_t from, size_t to, int bytes) {
    const Settings& settings = *relay_.settings_;
    return settings.cut[from] || settings.cut[to] || bytes > settings.longest ||
           static_cast<int>(random_() % 10000) < settings.loss;
  }

  void deliver() {
    const auto now = RelayClock::now();
    while (!travelling_.empty() && travelling_.front().due <= now) {
      const Packet& packet = travelling_.front();
      // A device that has no room loses it, as a switch would.
      const ssize_t written = ::write(
          relay_.devices_[packet.to].get(), packet.bytes.data(), packet.bytes.size());
      ++(written > 0 ? relay_.settings_->passed : relay_.settings_->lost);
      travelling_.pop_front();
    }
  }

  const PacketRelay& relay_;
  std::deque<Packet> travelling_;
  std::minstd_rand random_{17};
};

PacketRelay::PacketRelay() {
  void* const memory = ::mmap(
      nullptr,
      sizeof(Settings),
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_ANONYMOUS,
      -1,
      0);
  if (memory == MAP_FAILED)
    throw InternalError(text("[testing] expected memory, got ", errno_text(errno)));
  settings_ = new (memory) Settings;
}

PacketRelay::~PacketRelay() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::munmap(settings_, sizeof *settings_);
}

void PacketRelay::add_host(
    const NetNamespace& host, const std::string& device, const std::string& address) {
  const InNamespace inside(host);
  devices_.emplace_back(make_tun(device));
  addresses_.push_back(::inet_addr(address.c_str()));
  Netlink net;
  net.add_address(device, address);
  net.set_up(device, true);
}

void PacketRelay::start() {
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0)
    throw InternalError(text("[testing] expected to fork, got ", errno_text(errno)));
  if (process_ > 0)
    return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(1);
  Road(*this).run();
}

void PacketRelay::set_delay(std::chrono::milliseconds delay) {
  settings_->delay_us = std::chrono::microseconds(delay).count();
}

void PacketRelay::set_loss(int of_ten_thousand) {
  settings_->loss = of_ten_thousand;
}

void PacketRelay::set_longest(int bytes) {
  settings_->longest = bytes;
}

void PacketRelay::set_connected(int host, bool connected) {
  settings_->cut[static_cast<size_t>(host)] = !connected;
}

}  // namespace trireme::testing
