#include "trireme/net/store_server.h"

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "refusal.h"
#include "store_helpers.h"
#include "trireme/core/log.h"
#include "trireme/net/node.h"
#include "trireme/net/store_client.h"
#include "trireme/net/store_protocol.h"

namespace trireme::net {
namespace {

template <class Condition>
bool comes_true(const Condition& condition) {
  for (const Deadline deadline = store_patience(); !deadline.expired();) {
    if (condition())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

StoreServerOptions quick_server(std::size_t client_bytes = std::size_t{2} << 20) {
  return {
      .security = Security::insecure_loopback(),
      .job = "test",
      .client_bytes = client_bytes,
      .reconnect = std::chrono::milliseconds(300)};
}

TcpStoreOptions client_at(const Address& address) {
  return {
      .server = address,
      .security = Security::insecure_loopback(),
      .job = "test",
      .timeout = std::chrono::seconds(60)};
}

std::shared_ptr<TcpStore> client_of(const StoreServer& server) {
  return std::make_shared<TcpStore>(client_at(server.addresses().front()));
}

TEST(StoreServer, CountsWhatItHolds) {
  const StoreServer server(quick_server());
  const auto store = client_of(server);
  store->set("a", "12");
  const auto watch = store->watch("", [](const StoreChange&) {});
  const StoreServerStats stats = server.stats();
  EXPECT_EQ(stats.clients, 1u);
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_EQ(stats.bytes, 3 + kStoreEntryBytes);
  EXPECT_EQ(stats.watches, 1u);
}

TEST(StoreServer, ForgetsWatchesAndWaitsThatHaveEnded) {
  const StoreServer server(quick_server());
  const auto store = client_of(server);
  store->watch("", [](const StoreChange&) {}).stop();
  EXPECT_THROW(
      store->get("absent", Deadline::after(std::chrono::milliseconds(1))),
      TimeoutError);
  EXPECT_TRUE(comes_true([&] { return server.stats().watches == 0; }));
  EXPECT_EQ(server.stats().waits, 0u);
}

TEST(StoreServer, ForgetsAClientThatLeaves) {
  const StoreServer server(quick_server());
  auto store = client_of(server);
  const auto watch = store->watch("a", [](const StoreChange&) {});
  EXPECT_EQ(server.stats().clients, 1u);
  store.reset();
  EXPECT_TRUE(comes_true([&] { return server.stats().clients == 0; }));
  EXPECT_EQ(server.stats().watches, 0u);
}

TEST(StoreServer, ForgetsAClientThatIsKilledWhileItWaits) {
  // A fork of a process with threads could not have threads of its own everywhere, so
  // it comes first, and learns the port later.
  int ports[2];
  ASSERT_EQ(::pipe(ports), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ports[1]);
    int port = 0;
    if (::read(ports[0], &port, sizeof port) != sizeof port)
      ::_exit(1);
    try {
      TcpStore store(client_at(Address::tcp("127.0.0.1", port)));
      store.get("absent", store_patience());
    } catch (const Error&) {
    }
    ::_exit(0);
  }
  const StoreServer server(quick_server());
  const int port = server.addresses().front().port;
  EXPECT_EQ(::write(ports[1], &port, sizeof port), sizeof port);
  ::close(ports[0]);
  ::close(ports[1]);
  EXPECT_TRUE(comes_true([&] { return server.stats().waits == 1; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const double seconds = seconds_of(
      [&] { EXPECT_TRUE(comes_true([&] { return server.stats().waits == 0; })); });
  EXPECT_LT(seconds, 5);
  EXPECT_EQ(server.stats().clients, 0u);
}

/// A client that writes requests by hand, and does not let go of the replies.
class GreedyClient : public Receiver {
 public:
  explicit GreedyClient(const StoreServer& server)
      : node_(options(), *this),
        peer_(node_.connect("store", server.addresses().front(), store_patience())) {}
  ~GreedyClient() override { node_.close(); }

  void received(const Peer&, InMessage message) override {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (holds_)
      kept_.push_back(std::move(message));
  }
  void ask(std::uint64_t id, const StoreRequest& request) const {
    peer_.send(store_out_message(encode(request), id, std::chrono::minutes(1)));
  }
  void send(OutMessage message) const { peer_.send(std::move(message)); }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// Takes everything from now on, and lets go of what it has.
  void relent() {
    std::vector<InMessage> gone;
    const std::lock_guard lock(mutex_);
    holds_ = false;
    gone.swap(kept_);
  }
  bool ended() const { return peer_.ended(); }

 private:
  static NodeOptions options() {
    NodeOptions options{
        .name = "greedy",
        .job = "test",
        .security = Security::insecure_loopback(),
        .limits = store_node_limits()};
    // A small window, so that the server feels it soon.
    options.limits.large_window = options.limits.body_bytes;
    return options;
  }

  std::mutex mutex_;
  std::size_t count_ = 0;
  bool holds_ = true;
  std::vector<InMessage> kept_;
  Node node_;
  Peer peer_;
};

TEST(StoreServer, MaySayWhichClientsWereLost) {
  StoreServerOptions options = quick_server();
  options.tell_gone = true;
  const StoreServer server(options);
  const auto store = client_of(server);
  TcpStoreOptions third = client_at(server.addresses().front());
  third.name = "rank-3";
  const auto run_third = [&](bool is_killed) {
    const pid_t child = ::fork();
    if (child == 0) {
      {
        TcpStore own(third);
        own.set("here", is_killed ? "once" : "again");
        if (is_killed)
          ::raise(SIGKILL);
      }
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  };
  run_third(true);
  const std::string why = store->get("gone/rank-3", store_patience());
  EXPECT_NE(why.find("rank-3"), std::string::npos) << why;
  // Who comes back is not gone, nor is who leaves as it should.
  run_third(false);
  EXPECT_EQ(store->get("here", store_patience()), "again");
  EXPECT_EQ(store->try_get("gone/rank-3"), std::nullopt);
  EXPECT_TRUE(comes_true([&] { return server.stats().clients == 1; }));
  EXPECT_TRUE(store->keys(kGonePrefix).empty());
}

TEST(StoreServer, HoldsTheRequestsOfAClientThatTakesNoReplies) {
  StoreServer server(quick_server());
  const auto store = client_of(server);
  store->set("large", std::string(kStoreValueBytes, 'v'));
  GreedyClient greedy(server);
  for (std::uint64_t id = 1; id <= 200; ++id)
    greedy.ask(id, {.op = StoreOp::TryGet, .key = "large"});
  EXPECT_TRUE(comes_true([&] { return server.stats().held_requests > 100; }));
  // Others are served meanwhile.
  store->set("other", "1");
  EXPECT_EQ(store->try_get("other"), "1");
  EXPECT_LT(greedy.count(), 20u);
  // Nothing is lost when it takes them after all.
  greedy.relent();
  EXPECT_TRUE(comes_true([&] { return greedy.count() == 200; }));
  EXPECT_EQ(server.stats().held_requests, 0u);
}

TEST(StoreServer, DropsChangesForAClientThatTakesNone) {
  StoreServer server(quick_server());
  const auto store = client_of(server);
  GreedyClient greedy(server);
  greedy.ask(1, {.op = StoreOp::Watch, .key = "big"});
  EXPECT_TRUE(comes_true([&] { return greedy.count() == 1; }));
  const std::string value(kStoreValueBytes, 'v');
  for (int i = 0; i < 30; ++i)
    store->set("big", value);
  EXPECT_LT(greedy.count(), 10u);
  greedy.relent();
  // What it could take, and one or two words that the rest is missing.
  EXPECT_TRUE(comes_true([&] { return greedy.count() >= 4; }));
  const std::size_t before = greedy.count();
  EXPECT_LT(before, 12u);
  EXPECT_TRUE(comes_true([&] {
    store->set("big", "small");
    return greedy.count() > before + 3;
  }));
}

TEST(StoreServer, EndsTheSessionOfOneThatTalksNonsense) {
  const StoreServer server(quick_server());
  const auto store = client_of(server);
  const auto quiet = set_log_sink([](std::string_view) {});
  GreedyClient stranger(server);
  stranger.send({.envelope = {.type = 77, .request = 1, .header = "?"}});
  EXPECT_TRUE(comes_true([&] { return stranger.ended(); }));
  store->set("a", "1");
  EXPECT_EQ(server.stats().clients, 1u);
}

TEST(StoreServer, DoesNotListenUnprotectedBeyondThisMachine) {
  EXPECT_THROW(StoreServer({.listen = {Address::tcp("0.0.0.0", 0)}}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::net
