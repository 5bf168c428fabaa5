// Two nodes in one process, and what they have received.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include <gtest/gtest.h>

#include "trireme/net/node.h"

namespace trireme::net {

/// Keeps everything that happens to a node, and waits for it.
class Recorder : public Receiver {
 public:
  struct Loss {
    std::string name;
    Ending ending;
    std::string why;
  };
  void joined(const Peer& peer) override {
    note([&] { peers.push_back(peer); });
  }
  std::span<std::byte> place(
      const Peer& peer, const Envelope& envelope, std::size_t bytes) override {
    return on_place ? on_place(peer, envelope, bytes) : std::span<std::byte>();
  }
  void received(const Peer& peer, InMessage message) override {
    if (const auto answer = answer_now())
      return answer(peer, std::move(message));
    note([&] { messages.push_back(std::move(message)); });
  }
  void lost(const Peer& peer, Ending ending, const std::string& why) override {
    note([&] { losses.push_back({peer.name(), ending, why}); });
  }

  /// Whether it comes true soon enough.
  template <class Condition>
  bool wait(
      const Condition& condition,
      std::chrono::milliseconds time = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, condition);
  }
  bool wait_messages(std::size_t count) {
    return wait([&] { return messages.size() >= count; });
  }
  bool wait_losses(std::size_t count) {
    return wait([&] { return losses.size() >= count; });
  }
  Peer peer() {
    EXPECT_TRUE(wait([&] { return !peers.empty(); }));
    const std::lock_guard lock(mutex);
    return peers.front();
  }

  /// From now on messages go there.
  void answer_with(std::function<void(const Peer&, InMessage)> answer) {
    const std::lock_guard lock(mutex);
    on_message = std::move(answer);
  }

  std::function<void(const Peer&, InMessage)> on_message;  // under the mutex
  std::function<std::span<std::byte>(const Peer&, const Envelope&, std::size_t)>
      on_place;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Peer> peers;
  std::deque<InMessage> messages;
  std::vector<Loss> losses;

 private:
  std::function<void(const Peer&, InMessage)> answer_now() {
    const std::lock_guard lock(mutex);
    return on_message;
  }
  template <class Change>
  void note(const Change& change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }
};

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

/// "server" listens and "client" dials, over loopback or what the options say.
struct TwoNodes {
  using Change = std::function<void(NodeOptions&)>;
  explicit TwoNodes(
      Security security = Security::insecure_loopback(),
      const Change& both = {},
      Address address = Address::tcp("127.0.0.1", 0)) {
    const auto named = [&](const char* name) {
      NodeOptions options{.name = name, .job = "test", .security = security};
      if (both)
        both(options);
      return options;
    };
    client.emplace(named("client"), at_client);
    NodeOptions listening = named("server");
    listening.listen = {std::move(address)};
    server.emplace(listening, at_server);
  }
  Peer connect() {
    return client->connect("server", server->addresses().front(), soon());
  }

  Recorder at_client, at_server;
  std::optional<Node> client, server;
};

/// A body of numbers that are easy to check, kept alive by the message.
inline OutMessage numbered_message(std::uint64_t request, std::size_t bytes) {
  auto body = std::make_shared<std::vector<std::byte>>(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    (*body)[i] = static_cast<std::byte>(i * 31 + request);
  OutMessage message{
      .envelope = {.type = 5, .request = request, .header = "n"}, .keep = body};
  message.body.push_back(*body);
  return message;
}
inline bool is_numbered(const InMessage& message) {
  for (std::size_t i = 0; i < message.body.size(); ++i)
    if (message.body[i] != static_cast<std::byte>(i * 31 + message.envelope.request))
      return false;
  return true;
}

}  // namespace trireme::net
