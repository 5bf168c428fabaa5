#include "trireme/rpc/node_transport.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "transports.h"
#include "trireme/net/job_key.h"
#include "trireme/net/memory_store.h"
#include "trireme/net/node.h"

namespace trireme::rpc {
namespace {

using namespace std::chrono_literals;

struct TransportWay {
  const char* name;
  bool unix_sockets;
  bool encrypted;
  bool shared;
};

class NodeTransportRanks : public ::testing::TestWithParam<TransportWay> {
 protected:
  static void choose(NodeTransportOptions& options) {
    static const net::JobKey key = net::JobKey::random();
    options.unix_sockets = GetParam().unix_sockets;
    options.shared_memory = GetParam().shared;
    if (GetParam().encrypted)
      options.security = net::Security::job_key(key);
  }
};

std::string seed_text(std::size_t seed) {
  return text("packet ", seed);
}

TEST_P(NodeTransportRanks, PacketsOfAllSizesComeBack) {
  TransportWorld world(2, choose);
  world.log(1).on_packet = [&](WorkerId from, Packet packet) {
    for (const Part& part : packet.parts)
      if (!part.bytes.empty())
        part.bytes[0] ^= std::byte{1};  // a receiver owns its parts
    world.at(1).send(from, std::move(packet));
  };
  const std::size_t sizes[] = {0, 4, 1000, 65536, 300'000, 5'000'000};
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    world.at(0).send(
        1,
        {.head = seed_text(i),
         .parts = {numbered_part(sizes[i], i), numbered_part(7, i + 1)}});
  ASSERT_TRUE(world.log(0).wait_arrivals(std::size(sizes)));
  for (auto& [from, packet] : world.log(0).arrivals) {
    EXPECT_EQ(from, 1);
    const auto seed = static_cast<std::size_t>(packet.head.back() - '0');
    ASSERT_EQ(packet.parts.size(), 2u);
    for (const Part& part : packet.parts)
      if (!part.bytes.empty())
        part.bytes[0] ^= std::byte{1};
    EXPECT_TRUE(is_numbered_part(packet.parts[0], sizes[seed], seed));
    EXPECT_TRUE(is_numbered_part(packet.parts[1], 7, seed + 1));
  }
}

TEST_P(NodeTransportRanks, AGoodbyeComesAfterAllThatWasSent) {
  TransportWorld world(2, choose);
  for (std::size_t i = 0; i < 20; ++i)
    world.at(0).send(1, {.head = seed_text(i), .parts = {numbered_part(200'000, i)}});
  world.at(0).close(Deadline::after(20s));
  ASSERT_TRUE(world.log(1).wait_ends(1));
  EXPECT_EQ(world.log(1).arrivals.size(), 20u);
  EXPECT_EQ(world.log(1).ends[0].worker, 0);
  EXPECT_EQ(world.log(1).ends[0].why, "w0 has left");
  EXPECT_TRUE(world.log(1).losses.empty());
  EXPECT_TRUE(world.log(0).ends.empty());
  // To one that is gone nothing goes, and that is no error.
  world.at(1).send(0, {.head = "late"});
}

TEST_P(NodeTransportRanks, BothMayDialAtOnce) {
  for (int round = 0; round < 5; ++round) {
    TransportWorld world(2, choose);
    std::vector<std::thread> threads;
    for (const int me : {0, 1})
      threads.emplace_back([&world, me] {
        for (std::size_t i = 0; i < 50; ++i)
          world.at(me).send(1 - me, {.head = seed_text(i)});
      });
    for (std::thread& thread : threads)
      thread.join();
    for (const int me : {0, 1})
      EXPECT_TRUE(world.log(me).wait_arrivals(50));
    EXPECT_EQ(world.log(0).losses.size() + world.log(1).losses.size(), 0u);
  }
}

struct Echo {
  explicit Echo(TransportWorld& its_world) : world(its_world) {
    world.log(1).on_packet = [this](WorkerId from, Packet packet) {
      world.at(1).send(from, std::move(packet));
    };
    world.log(0).on_packet = [this](WorkerId, Packet packet) {
      last = std::move(packet);
      last.parts.clear();
      ++count;
      count.notify_one();
    };
  }
  std::chrono::duration<double, std::micro> once(const Part& part) {
    const int before = count;
    const auto begin = std::chrono::steady_clock::now();
    world.at(0).send(1, {.head = "echo", .parts = {part}});
    count.wait(before);
    return std::chrono::steady_clock::now() - begin;
  }
  TransportWorld& world;
  Packet last;
  std::atomic<int> count{0};
};

TEST_P(NodeTransportRanks, DISABLED_EchoTimes) {
  TransportWorld world(2, [](NodeTransportOptions& options) {
    choose(options);
    if (const char* bytes = std::getenv("SHARED"))
      options.shared_bytes = static_cast<std::size_t>(std::atol(bytes));
  });
  Echo echo(world);
  for (const std::size_t size :
       {4ul, 16384ul, 65536ul, 262144ul, 1ul << 20, 16ul << 20}) {
    const Part part = numbered_part(size, 1);
    std::vector<double> times;
    for (int i = 0; i < (size > 1000000 ? 60 : 400); ++i)
      times.push_back(echo.once(part).count());
    std::sort(times.begin(), times.end());
    std::cout << size << " B: median " << times[times.size() / 2] << " us, least "
              << times[0] << ", shared " << world.at(0).stats().parts_shared << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    NodeTransportRanks,
    ::testing::Values(
        TransportWay{"UnixPlain", true, false, false},
        TransportWay{"UnixTls", true, true, false},
        TransportWay{"UnixTlsShared", true, true, true},
        TransportWay{"TcpPlain", false, false, false},
        TransportWay{"TcpTls", false, true, false},
        TransportWay{"TcpTlsShared", false, true, true}),
    [](const auto& way) { return way.param.name; });

TEST(NodeTransportPeer, WhoHearsOfAnEarlyPacketMayAnswerIt) {
  TransportWorld world(2, {}, false);
  world.log(1).on_packet = [&](WorkerId from, Packet packet) {
    world.at(1).send(from, std::move(packet));
  };
  world.start(0);
  world.at(0).send(1, {.head = "early", .parts = {}});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is there by now
  world.start(1);
  ASSERT_TRUE(world.log(0).wait_arrivals(1));
  EXPECT_EQ(world.log(0).arrivals[0].packet.head, "early");
}

}  // namespace
}  // namespace trireme::rpc
