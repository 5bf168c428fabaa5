#include "trireme/net/rendezvous.h"

#include <string>

#include <gtest/gtest.h>

#include "refusal.h"
#include "store_helpers.h"
#include "trireme/core/scratch_folder.h"
#include "trireme/net/memory_store.h"
#include "trireme/net/store_server.h"

namespace trireme::net {
namespace {

/// A port that was free a moment ago.
int free_port() {
  const StoreServer server({.security = Security::insecure_loopback()});
  return server.addresses().front().port;
}

Environment rank_env(int rank, int world, int port, Environment::Variables more = {}) {
  Environment::Variables variables = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(world)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"TRIREME_SECURITY", "insecure-loopback"},
      {"TRIREME_TIMEOUT", "60"}};
  for (auto& [name, value] : more)
    variables[name] = value;
  return Environment(variables);
}

/// Opens the store on each rank, and joins twice so that nobody leaves early.
void meet(const std::string& url, int world, const auto& options_of) {
  on_threads(world, [&](int rank) {
    const auto store = open_store(url, options_of(rank));
    const std::string own = text("address of ", rank);
    const auto all = join(*store, world, rank, own, store_patience());
    ASSERT_EQ(all.size(), static_cast<std::size_t>(world));
    for (int other = 0; other < world; ++other)
      EXPECT_EQ(all[other], text("address of ", other));
    PrefixStore goodbye("goodbye/", store);
    join(goodbye, world, rank, "", store_patience());
    // Rank 0 hosts it: the others go first.
    if (rank != 0)
      store->add("gone", 1);
    else
      while (store->add("gone", 0) < world - 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

TEST(ListenAddress, IsEverywhereUnlessItIsLoopback) {
  for (const char* host : {"127.0.0.2", "localhost", "::1"})
    EXPECT_EQ(listen_address(Address::tcp(host, 7)), Address::tcp(host, 7));
  EXPECT_EQ(listen_address(Address::tcp("node7", 7)), Address::tcp("0.0.0.0", 7));
  EXPECT_EQ(listen_address(Address::tcp("fd00::1", 7)), Address::tcp("::", 7));
  EXPECT_EQ(own_address(Address::tcp("0.0.0.0", 7)), Address::tcp("127.0.0.1", 7));
  EXPECT_EQ(own_address(Address::tcp("::", 7)), Address::tcp("::1", 7));
  EXPECT_EQ(own_address(Address::tcp("127.0.0.2", 7)), Address::tcp("127.0.0.2", 7));
}

TEST(OpenStore, IsBehindThePortThatTorchrunsAgentHas) {
  const StoreServer agent({.security = Security::insecure_loopback()});
  const int port = agent.addresses().front().port;
  meet("env://", 2, [&](int rank) {
    return OpenStoreOptions{
        .env = rank_env(rank, 2, port, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})};
  });
  const int chosen = free_port();
  meet("env://", 2, [&](int rank) {
    return OpenStoreOptions{
        .env = rank_env(
            rank,
            2,
            port,
            {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
             {"TRIREME_STORE_PORT", std::to_string(chosen)}})};
  });
  EXPECT_THROW(
      open_store(
          "env://",
          {.env = rank_env(0, 2, 65535, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})}),
      InvalidArgument);
}

TEST(OpenStore, Rank0HostsItWhereTheVariablesSay) {
  const int port = free_port();
  meet("env://", 4, [&](int rank) {
    return OpenStoreOptions{.env = rank_env(rank, 4, port)};
  });
}

TEST(OpenStore, TheAddressMayComeInBrackets) {
  const int port = free_port();
  meet("env://", 2, [&](int rank) {
    return OpenStoreOptions{
        .env = rank_env(
            rank,
            2,
            port,
            {{"MASTER_ADDR", "[127.0.0.1]"},
             {"LOCAL_RANK", std::to_string(rank)},
             {"LOCAL_WORLD_SIZE", "2"}})};
  });
}

TEST(OpenStore, Rank0HostsItWhereTheUrlSays) {
  const std::string url = text("tcp://127.0.0.1:", free_port());
  meet(url, 3, [&](int rank) {
    return OpenStoreOptions{
        .env = Environment(), .security = Security::insecure_loopback(), .rank = rank};
  });
  const auto only = open_store(
      url + "?rank=0&world=1",
      {.env = Environment(), .security = Security::insecure_loopback()});
  only->set("a", "1");
}

TEST(OpenStore, AFolderNeedsNoHost) {
  const ScratchFolder scratch;
  meet(text("file://", (scratch.path() / "store").string()), 3, [](int) {
    return OpenStoreOptions{.env = Environment()};
  });
}

TEST(OpenStore, TheLauncherMayHostIt) {
  const StoreServer server({.security = Security::insecure_loopback()});
  const std::string url = server.addresses().front().text();
  // Nobody listens at the master's port.
  meet("env://", 2, [&](int rank) {
    return OpenStoreOptions{.env = rank_env(rank, 2, 1, {{"TRIREME_STORE", url}})};
  });
  EXPECT_GT(server.stats().entries, 0u);
}

TEST(OpenStore, AWorldOfOneNeedsNobody) {
  const auto store = open_store("env://", {.env = Environment()});
  EXPECT_EQ(join(*store, 1, 0, "me", store_patience()).front(), "me");
}

TEST(OpenStore, AKeyProtectsIt) {
  const int port = free_port();
  const std::string key = JobKey::random().text();
  Environment::Variables variables = rank_env(0, 2, port).with_prefix("");
  variables.erase("TRIREME_SECURITY");
  variables["TRIREME_JOB_KEY"] = key;
  try {
    Security::job_key(JobKey::parse(key));
  } catch (const NotSupported&) {
    GTEST_SKIP() << "no OpenSSL";
  }
  meet("env://", 2, [&](int rank) {
    Environment::Variables own = variables;
    own["RANK"] = std::to_string(rank);
    return OpenStoreOptions{.env = Environment(own)};
  });
}

TEST(OpenStore, SaysWhatIsMissing) {
  const auto refused = [](const char* url, Environment env) {
    return refusal_of([&] { open_store(url, {.env = std::move(env)}); });
  };
  EXPECT_NE(
      refused("env://", {{"TRIREME_STORE", "env://"}})
          .find("expected TRIREME_STORE to say where the launcher hosts the store"),
      std::string::npos);
  EXPECT_NE(
      refused("env://", {{"TRIREME_STORE", ""}}).find("TRIREME_STORE"),
      std::string::npos);
  EXPECT_NE(
      refused("tcp://127.0.0.1:1", {}).find("TRIREME_JOB_KEY"), std::string::npos);
  EXPECT_NE(refused("nowhere", {}).find("\"nowhere\""), std::string::npos);
  EXPECT_EQ(
      refusal_of([] {
        open_store("tcp://127.0.0.1:1?rank=1", {.env = Environment(), .rank = 2});
      }),
      "[net] expected one rank for the store, got 1 in its URL and 2 in the options; "
      "leave one of them out");
}

TEST(Join, NamesTheRanksThatAreMissing) {
  MemoryStore store;
  store.set("join/2", "here");
  EXPECT_EQ(
      refusal_of<TimeoutError>([&] {
        join(store, 5, 0, "me", Deadline::after(std::chrono::milliseconds(30)));
      }),
      "[net] expected all of 5 ranks to join within 30 ms, got 2, without ranks 1, 3, "
      "4; "
      "check that they have started, still run, and use the same store");
}

TEST(Join, WaitsNoLongerThanItsCallerWants) {
  MemoryStore store;
  int asked = 0;
  EXPECT_THROW(
      join(
          store,
          2,
          0,
          "here",
          store_patience(),
          [&] {
            if (++asked == 2)
              throw PeerError(1, "[net] expected in this test");
          }),
      PeerError);
  EXPECT_EQ(asked, 2);
}

TEST(Join, RefusesASecondProcessOfTheSameRank) {
  MemoryStore store;
  EXPECT_EQ(join(store, 1, 0, "me", store_patience()).size(), 1u);
  // The same once more is no other.
  EXPECT_EQ(join(store, 1, 0, "me", store_patience()).size(), 1u);
  EXPECT_EQ(
      refusal_of([&] { join(store, 1, 0, "another", store_patience()); }),
      "[net] expected to be the only rank 0 that joins, got another one with \"me\"; "
      "give each process its own rank, and each round its own PrefixStore");
  EXPECT_THROW(join(store, 1, 1, "", store_patience()), InvalidArgument);
}

}  // namespace
}  // namespace trireme::net
