// The wire over tcp: the conformance suite, flat and between hosts, plain and under
// TLS.
#include "trireme/comm/tcp/tcp_wire.h"

#include <algorithm>
#include <array>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../../net/certificate_files.h"
#include "tcp_ranks.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

using testing::contains;

void add_tcp_suite(const std::string& name, TcpRanks how, std::vector<int> sizes = {}) {
  const bool flat = !sizes.empty();
  if (!flat)
    sizes = {how.ranks()};
  testing::register_conformance(
      {.suite = "ConformanceTcp" + name + "Ranks",
       .run =
           [how, flat](int ranks, const testing::RankBody& body) {
             TcpRanks these = how;
             if (flat)
               these.hosts = {ranks};
             run_tcp(these, body);
           },
       .sizes = std::move(sizes)});
}

// Made when it is first asked for: a test program is started for every test.
std::vector<net::Security> certificates_of(int ranks) {
  static net::TestAuthority authority;
  std::vector<net::Security> securities;
  for (int rank = 0; rank < ranks; ++rank)
    securities.push_back(authority.worker(text("rank-", rank)));
  return securities;
}

const bool tcp_registered = [] {
  add_tcp_suite("", {}, {1, 2, 4});
  add_tcp_suite(
      "Tls", {.security = net::Security::job_key(net::JobKey::random())}, {2});
  if (net::has_tls())
    testing::register_conformance(
        {.suite = "ConformanceTcpCertificatesRanks",
         .run =
             [](int ranks, const testing::RankBody& body) {
               run_tcp({.hosts = {ranks}, .securities = certificates_of(ranks)}, body);
             },
         .sizes = {2}});
  add_tcp_suite("22", {.hosts = {2, 2}});
  add_tcp_suite("31", {.hosts = {3, 1}});
  add_tcp_suite(
      "22Chain",
      {.hosts = {2, 2},
       .tuning = {.payload_bytes = 600, .small_bytes = 0, .chain_bytes = 5000}});
  return true;
}();

TEST(TcpWireRanks, NamesItself) {
  EXPECT_TRUE(tcp_registered);
  run_tcp({.hosts = {2}}, [](const Group& world) {
    EXPECT_EQ(world.backend(), "tcp");
    world.engine().check();
  });
}

TEST(TcpWireRanks, ACertificateIsForOneRank) {
  if (!net::has_tls())
    GTEST_SKIP() << "this build is without OpenSSL";
  TcpRanks how{.hosts = {3}, .securities = certificates_of(2)};
  how.securities.push_back(how.securities[1]);  // of rank 1, for one that says it is 2
  const auto store = std::make_shared<net::MemoryStore>();
  std::array<std::string, 3> heard;
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1, 2})
    ranks.emplace_back([&, rank] {
      try {
        TcpWire::root(how.setup(rank, store), Deadline::after(std::chrono::seconds(3)));
      } catch (const Error& error) {
        heard[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
  EXPECT_NE(heard[0], "") << "nobody joins such a world";
  // Rank 1 dials it, and it dials rank 0.
  for (const int rank : {1, 2})
    EXPECT_TRUE(contains(
        heard[static_cast<size_t>(rank)],
        "expected the certificate of \"rank-2\", got one for \"rank-1\""))
        << heard[static_cast<size_t>(rank)];
}

// Who has sent from its own memory waits until all has come, and small messages are
// acknowledged late, in the hope of one that goes the other way.
TEST(TcpWireRanks, NoLengthWaitsForALateAcknowledgement) {
  run_tcp({.hosts = {2}}, [](const Group& world) {
    for (const int64_t bytes : {65'000, 65'536, 65'537, 100'000, 131'072, 132'000}) {
      std::vector<std::chrono::duration<double>> times;
      for (int i = 0; i < 21; ++i) {
        at::Tensor tensor = at::ones({bytes}, at::kByte);
        barrier(world);
        const auto start = std::chrono::steady_clock::now();
        broadcast(world, tensor, 0);
        times.emplace_back(std::chrono::steady_clock::now() - start);
      }
      std::sort(times.begin(), times.end());
      EXPECT_LT(times[10], std::chrono::milliseconds(10)) << bytes;
    }
  });
}

// One group's large transfer, for which nobody is ready yet, must not hold another up.
TEST(TcpWireRanks, GroupsDoNotStandInEachOthersWay) {
  run_tcp({.hosts = {2}}, [](const Group& world) {
    const Group first = world.split(0), second = world.split(0);
    at::Tensor large = at::ones({40'000'000});  // more than any window
    at::Tensor other = at::ones({30'000'000});
    if (world.rank() == 0) {
      const Work work = all_reduce(first, large, {.async = true});
      all_reduce(second, other);
      work.wait();
    } else {
      all_reduce(second, other);
      all_reduce(first, large);
    }
    EXPECT_EQ(large[7].item<float>(), 2.0F);
    EXPECT_EQ(other[7].item<float>(), 2.0F);
  });
}

// Calls, messages that were received and messages that were not.
TEST(TcpWireRanks, GroupsThatHaveEndedAreForgotten) {
  run_tcp({.hosts = {3}}, [](const Group& world) {
    auto& wire = dynamic_cast<WireEngine&>(world.engine()).wire();
    TcpMail& mail = dynamic_cast<TcpWire&>(wire).world().mail();
    const int rank = world.rank();
    for (int round = 0; round < 1000; ++round) {
      Group part = world.split(rank == round % 3 ? 1 : 0);
      if (part.size() == 1)
        continue;
      const int me = part.rank();
      if (round % 4 > 0) {
        at::Tensor sum = at::ones({round % 2 == 0 ? 3 : 20'000});
        all_reduce(part, sum);
        ASSERT_EQ(sum[1].item<float>(), 2.0F);
      }
      const Channel out(part, {me, 1 - me}), in(part, {1 - me, me});
      out.send({.tensors = {at::ones({round % 10 == 0 ? 60'000 : 10})}});
      if (round % 3 > 0)
        in.receive();
    }
    barrier(world);
    // The last words of the last groups may still be on their way.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (mail.groups() > 1 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(mail.groups(), 1u);
    barrier(world);
  });
}

TEST(TcpWireRanks, ATimeoutTakesItsTransfersBack) {
  run_tcp(
      {.hosts = {2}, .timeout = std::chrono::milliseconds(400)},
      [](const Group& world) {
        auto memory = std::make_unique<at::Tensor>(at::ones({1'000'000}));
        if (world.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));
          EXPECT_ANY_THROW(world.engine().check());
          return;
        }
        try {
          all_reduce(world, *memory);
          FAIL();
        } catch (const TimeoutError& error) {
          EXPECT_TRUE(contains(error.what(), "rank 1 did not come")) << error.what();
        }
        memory.reset();  // nobody touches it any more
      });
}

}  // namespace
}  // namespace trireme::comm
