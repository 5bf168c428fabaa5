// Workers of one process, or of several, that send packets over real connections.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../net/relay.h"
#include "../net/two_nodes.h"
#include "trireme/core/error.h"
#include "trireme/net/file_store.h"
#include "trireme/rpc/node_transport.h"
#include "trireme/rpc/packet_message.h"

namespace trireme::rpc {

/// Keeps everything that comes, and waits for it.
class PacketLog : public PacketReceiver {
 public:
  struct Arrival {
    WorkerId from;
    Packet packet;
  };
  struct Word {
    WorkerId worker;
    std::string why;
  };
  void received(WorkerId from, Packet packet) override {
    if (on_packet)
      return on_packet(from, std::move(packet));
    note([&] { arrivals.push_back({from, std::move(packet)}); });
  }
  void lost(WorkerId worker, const std::string& why) override {
    note([&] { losses.push_back({worker, why}); });
  }
  void gone(WorkerId worker, const std::string& why) override {
    note([&] { ends.push_back({worker, why}); });
  }

  template <class Condition>
  bool wait(
      const Condition& condition,
      std::chrono::milliseconds time = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, condition);
  }
  bool wait_arrivals(std::size_t count) {
    return wait([&] { return arrivals.size() >= count; });
  }
  bool wait_losses(std::size_t count) {
    return wait([&] { return losses.size() >= count; });
  }
  bool wait_ends(std::size_t count) {
    return wait([&] { return ends.size() >= count; });
  }
  template <class Change>
  void note(const Change& change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }

  std::function<void(WorkerId, Packet)> on_packet;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Arrival> arrivals;
  std::vector<Word> losses, ends;
};

/// Bytes that are easy to check.
inline Part numbered_part(std::size_t bytes, std::size_t seed) {
  auto kept = std::make_shared<std::vector<std::byte>>(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    (*kept)[i] = static_cast<std::byte>(i * 31 + seed);
  return {*kept, kept};
}
inline bool is_numbered_part(const Part& part, std::size_t bytes, std::size_t seed) {
  if (part.bytes.size() != bytes)
    return false;
  for (std::size_t i = 0; i < bytes; ++i)
    if (part.bytes[i] != static_cast<std::byte>(i * 31 + seed))
      return false;
  return true;
}

/// Workers "w0", "w1", … as threads of this process.
struct TransportWorld {
  using Change = std::function<void(NodeTransportOptions&)>;
  explicit TransportWorld(int count, const Change& change = {}, bool starts = true) {
    for (int i = 0; i < count; ++i) {
      NodeTransportOptions options{
          .me = {.id = i, .name = text("w", i)},
          .job = "test",
          .security = net::Security::insecure_loopback()};
      if (change)
        change(options);
      logs.push_back(std::make_unique<PacketLog>());
      transports.push_back(std::make_unique<NodeTransport>(options));
      members.push_back(transports.back()->member());
    }
    for (int i = 0; starts && i < count; ++i)
      start(i);
  }
  ~TransportWorld() {
    // The logs must outlive all transports.
    transports.clear();
  }
  void start(int worker) { at(worker).start(members, log(worker)); }
  NodeTransport& at(int worker) {
    return *transports[static_cast<std::size_t>(worker)];
  }
  PacketLog& log(int worker) { return *logs[static_cast<std::size_t>(worker)]; }

  std::vector<std::unique_ptr<PacketLog>> logs;
  std::vector<std::unique_ptr<NodeTransport>> transports;
  std::vector<Member> members;
};

template <class Condition>
bool comes_true(
    const Condition& condition,
    std::chrono::milliseconds time = std::chrono::seconds(20)) {
  const Deadline deadline = Deadline::after(time);
  while (!condition() && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return condition();
}

inline void use_tcp(NodeTransportOptions& options) {
  options.unix_sockets = options.shared_memory = false;
}

/// Two workers with a wire between them that can be cut. Only the first finds the
/// other.
struct CutWorld : TransportWorld {
  explicit CutWorld(const Change& change = use_tcp)
      : TransportWorld(2, change, false), relay(members[1].addresses.back()) {
    members[1].addresses.back() = relay.address();
    start(0);
    members[0].addresses.back() = net::Address::tcp("127.0.0.1", 1);
    start(1);
  }
  net::Relay relay;
};

/// A node that is let in as "w1" and says what it likes.
struct BadWorker {
  explicit BadWorker(TransportWorld& world)
      : node(
            {.name = "w1",
             .job = "test",
             .security = net::Security::insecure_loopback()},
            recorder),
        peer(node.connect("w0", world.members[0].addresses.front(), net::soon())) {}
  void say(WireKind kind, std::string header, const std::string& body = "") {
    auto kept = std::make_shared<std::string>(body);
    net::OutMessage message{
        .envelope = {
            .type = static_cast<std::uint16_t>(kind), .header = std::move(header)}};
    message.body.push_back(std::as_bytes(std::span(*kept)));
    message.keep = kept;
    peer.send(std::move(message));
  }
  net::Recorder recorder;
  net::Node node;
  net::Peer peer;
};

/// Runs `body` as one worker of a world of processes.
template <class Body>
int as_worker(
    const std::filesystem::path& folder, int me, int count, const Body& body) {
  net::FileStore store(folder / "store");
  PacketLog log;
  NodeTransport transport(
      {.me = {.id = me, .name = text("w", me)},
       .job = "test",
       .security = net::Security::insecure_loopback()});
  transport.start(
      meet(store, transport.member(), count, Deadline::after(std::chrono::seconds(20))),
      log);
  return body(transport, log);
}

}  // namespace trireme::rpc
