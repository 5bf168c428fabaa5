#include "trireme/net/store_client.h"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "store_conformance.h"
#include "trireme/net/store_server.h"

namespace trireme::net {
namespace {

StoreServerOptions server_options(const char* job = "test") {
  return {.security = Security::insecure_loopback(), .job = job};
}

TcpStoreOptions client_options(const StoreServer& server) {
  return {
      .server = server.addresses().front(),
      .security = Security::insecure_loopback(),
      .job = "test",
      .timeout = std::chrono::seconds(60)};
}

struct TcpFlavour {
  static constexpr const char* kPrefix = "";

  explicit TcpFlavour(StoreLimits limits = {}) : server(with_limits(limits)) {}
  static StoreServerOptions with_limits(StoreLimits limits) {
    StoreServerOptions options = server_options();
    options.limits = limits;
    return options;
  }
  std::shared_ptr<Store> open() const {
    return std::make_shared<TcpStore>(client_options(server));
  }

  StoreServer server;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, StoreConformance, TcpFlavour);

TEST(TcpStore, AServerThatEndsIsAnErrorToAll) {
  auto server = std::make_unique<StoreServer>(server_options());
  TcpStoreOptions options = client_options(*server);
  options.server_rank = 0;
  TcpStore store(options);
  StoreChanges changes;
  const auto watch = store.watch("", changes.callback());
  std::thread ender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server.reset();
  });
  const double seconds = seconds_of([&] {
    on_threads(4, [&](int) {
      try {
        store.get("absent", store_patience());
        ADD_FAILURE() << "the store is gone";
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 0);
        EXPECT_NE(
            std::string(error.what()).find("to answer, got none: it has ended"),
            std::string::npos)
            << error.what();
      }
    });
  });
  ender.join();
  EXPECT_LT(seconds, 2.1);
  EXPECT_THROW(store.set("a", ""), PeerError);
  EXPECT_EQ(changes.wait_for(1).front().kind, StoreChange::Kind::Lost);
}

/// A process that hosts a store.
class ServerProcess {
 public:
  ServerProcess() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      StoreServer server(server_options());
      const int port = server.addresses().front().port;
      if (::write(ends[1], &port, sizeof port) == ssize_t{sizeof port})
        ::sleep(120);
      ::_exit(0);
    }
    EXPECT_EQ(::read(ends[0], &port_, sizeof port_), ssize_t{sizeof port_});
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~ServerProcess() {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  TcpStoreOptions options() const {
    return {
        .server = Address::tcp("127.0.0.1", port_),
        .security = Security::insecure_loopback(),
        .job = "test",
        .timeout = std::chrono::seconds(60)};
  }

 private:
  pid_t pid_ = -1;
  int port_ = 0;
};

TEST(TcpStore, AServerThatIsKilledIsAnErrorWithinTwoSeconds) {
  const ServerProcess server;
  TcpStore store(server.options());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server.signal(SIGKILL);
  });
  const double seconds = seconds_of([&] {
    EXPECT_NE(
        refusal_of<Error>([&] {
          store.get("absent", store_patience());
        }).find("to answer, got none: "),
        std::string::npos);
  });
  killer.join();
  EXPECT_LT(seconds, 2.1);
}

TEST(TcpStore, AServerThatIsStoppedIsATimeout) {
  const ServerProcess server;
  TcpStoreOptions options = server.options();
  options.timeout = std::chrono::milliseconds(300);
  TcpStore store(options);
  server.signal(SIGSTOP);
  const auto get = [&] {
    store.get("absent", Deadline::after(std::chrono::milliseconds(100)));
  };
  EXPECT_NE(
      refusal_of<TimeoutError>(get).find("to answer within 1100 ms, got nothing"),
      std::string::npos);
  EXPECT_THROW(store.set("a", "1"), TimeoutError);
  server.signal(SIGCONT);
  EXPECT_EQ(store.get("a", store_patience()), "1");
}

TEST(TcpStore, WaitsForItsServerToStart) {
  // A port that was free a moment ago.
  TcpStoreOptions options = client_options(StoreServer(server_options()));
  std::optional<StoreServer> server;
  std::thread starter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    StoreServerOptions there = server_options();
    there.listen = {options.server};
    server.emplace(there);
  });
  TcpStore(options).set("a", "1");
  starter.join();
  options.server = Address::tcp("127.0.0.1", 1);
  options.timeout = std::chrono::milliseconds(100);
  EXPECT_THROW(TcpStore{options}, TimeoutError);
}

TEST(TcpStore, AnotherJobIsTurnedAway) {
  const StoreServer server(server_options("one"));
  TcpStoreOptions options = client_options(server);
  options.job = "other";
  const auto quiet = set_log_sink([](std::string_view) {});
  EXPECT_THROW(TcpStore{options}, Error);
}

}  // namespace
}  // namespace trireme::net
