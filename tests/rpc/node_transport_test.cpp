#include "trireme/rpc/node_transport.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "transports.h"
#include "trireme/core/scratch_folder.h"
#include "trireme/net/bytes.h"
#include "trireme/net/job_key.h"
#include "trireme/net/memory_store.h"
#include "trireme/rpc/lending.h"
#include "trireme/rpc/packet_message.h"
#include "trireme/testing/world.h"

namespace trireme::rpc {
namespace {

using namespace std::chrono_literals;

struct TransportWay {
  const char* name;
  bool unix_sockets;
  bool encrypted;
  bool shared;
};

class NodeTransportWaysRanks : public ::testing::TestWithParam<TransportWay> {
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

TEST_P(NodeTransportWaysRanks, PacketsOfAllSizesComeBack) {
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

TEST_P(NodeTransportWaysRanks, AGoodbyeComesAfterAllThatWasSent) {
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

TEST_P(NodeTransportWaysRanks, BothMayDialAtOnce) {
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

INSTANTIATE_TEST_SUITE_P(
    Ways,
    NodeTransportWaysRanks,
    ::testing::Values(
        TransportWay{"UnixPlain", true, false, false},
        TransportWay{"UnixTls", true, true, false},
        TransportWay{"UnixTlsShared", true, true, true},
        TransportWay{"TcpPlain", false, false, false},
        TransportWay{"TcpTls", false, true, false},
        TransportWay{"TcpTlsShared", false, true, true}),
    [](const auto& way) { return way.param.name; });

std::string transport_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no refusal";
}

void expect_transport_refused(
    const std::function<void()>& call, const std::string& part) {
  const std::string what = transport_refusal(call);
  EXPECT_NE(what.find(part), std::string::npos) << what;
}

// Pieces of shared memory that this process sees.
std::size_t seen_arenas() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:trireme-rpc") != std::string::npos;
  return count;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// -- the beginning

TEST(NodeTransportRanks, WhatComesBeforeTheStartIsKept) {
  TransportWorld world(2, {}, false);
  world.start(0);
  world.at(0).send(1, {.head = "early"});
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(world.log(1).arrivals.empty());
  world.start(1);
  ASSERT_TRUE(world.log(1).wait_arrivals(1));
  EXPECT_EQ(world.log(1).arrivals[0].packet.head, "early");
}

TEST(NodeTransportRanks, WhatComesBeforeTheStartMayBeAnsweredAtOnce) {
  TransportWorld world(2, {}, false);
  world.start(0);
  world.log(1).on_packet = [&](WorkerId from, Packet packet) {
    world.at(1).send(from, std::move(packet));
  };
  world.at(0).send(1, {.head = "early"});
  std::this_thread::sleep_for(100ms);
  world.start(1);
  EXPECT_TRUE(world.log(0).wait_arrivals(1));
  EXPECT_TRUE(world.log(1).ends.empty());
}

TEST(NodeTransportRanks, WorkersMeetOverTheStore) {
  net::MemoryStore store;
  TransportWorld world(3, {}, false);
  std::vector<std::thread> threads;
  for (int me = 0; me < 3; ++me)
    threads.emplace_back([&, me] {
      world.at(me).start(
          meet(store, world.at(me).member(), 3, Deadline::after(20s)), world.log(me));
      world.at(me).send((me + 1) % 3, {.head = "hello"});
    });
  for (std::thread& thread : threads)
    thread.join();
  for (int me = 0; me < 3; ++me) {
    ASSERT_TRUE(world.log(me).wait_arrivals(1));
    EXPECT_EQ(world.log(me).arrivals[0].from, (me + 2) % 3);
  }
}

TEST(NodeTransport, WrongArgumentsAreRefused) {
  TransportWorld world(2, {}, false);
  const auto send = [&](WorkerId to) {
    return [&world, to] { world.at(0).send(to, {}); };
  };
  expect_transport_refused(send(1), "start the transport first");
  auto members = world.members;
  std::swap(members[0], members[1]);
  expect_transport_refused(
      [&] { world.at(0).start(members, world.log(0)); }, "pass on what meet() gives");
  members = world.members;
  members[1].addresses = {members[1].addresses.front()};
  members[1].place.network += 1;
  expect_transport_refused(
      [&] { world.at(0).start(members, world.log(0)); }, "listen at a TCP address");
  world.start(0);
  expect_transport_refused([&] { world.start(0); }, "got a second start");
  expect_transport_refused(send(0), "another of 2 workers, got number 0");
  expect_transport_refused(send(2), "got number 2");
  expect_transport_refused(send(-1), "got number -1");
  expect_transport_refused([&] { world.at(0).give_up(7); }, "got number 7");
  const Part endless{{numbered_part(1, 1).bytes.data(), std::size_t{1} << 40}, nullptr};
  expect_transport_refused(
      [&] { world.at(0).send(1, {.parts = {endless}}); }, "send it in several calls");
  expect_transport_refused(
      [] { NodeTransport({.me = {.name = "a b"}}); }, "a worker's name");
  expect_transport_refused(
      [] { NodeTransport({.me = {.name = "a"}, .security = net::Security()}); },
      "what protects connections");
}

// -- many

TEST(NodeTransportRanks, SixtyFourWorkersOfOneProcess) {
  constexpr int kWorkers = 64;
  TransportWorld world(kWorkers);
  world.log(0).on_packet = [&](WorkerId from, Packet packet) {
    world.at(0).send(from, std::move(packet));
  };
  for (int round = 0; round < 10; ++round)
    for (int me = 1; me < kWorkers; ++me) {
      world.at(me).send(0, {.head = "echo", .parts = {numbered_part(100, 1)}});
      world.at(me).send(1 + me % (kWorkers - 1), {.head = "neighbour"});
    }
  for (int me = 1; me < kWorkers; ++me)
    EXPECT_TRUE(world.log(me).wait_arrivals(20)) << me;
  EXPECT_EQ(world.at(0).stats().sessions, 63u);
}

// -- shared memory

TEST(NodeTransportRanks, SharedPartsComeBackWhenTheyAreLetGoOf) {
  const std::size_t before = open_descriptors();
  {
    TransportWorld world(2);
    world.at(0).send(1, {.head = "first", .parts = {numbered_part(1 << 20, 0)}});
    ASSERT_TRUE(world.log(1).wait_arrivals(1));
    ASSERT_TRUE(comes_true([&] {  // until the offer has been taken
      world.at(0).send(1, {.head = "more", .parts = {numbered_part(1 << 20, 0)}});
      return world.at(0).stats().parts_shared >= 3;
    }));
    const auto sent = world.at(0).stats().packets_sent;
    ASSERT_TRUE(world.log(1).wait_arrivals(sent));
    EXPECT_EQ(world.at(0).stats().lent_bytes, world.at(0).stats().parts_shared << 20);
    for (const auto& arrival : world.log(1).arrivals)
      EXPECT_TRUE(is_numbered_part(arrival.packet.parts[0], 1 << 20, 0));
    world.log(1).arrivals.clear();
    EXPECT_TRUE(comes_true([&] { return world.at(0).stats().lent_bytes == 0; }));
    EXPECT_EQ(seen_arenas(), 2u);
  }
  EXPECT_TRUE(comes_true([&] { return open_descriptors() == before; }));
  EXPECT_EQ(seen_arenas(), 0u);
}

TEST(NodeTransportRanks, WithoutRoomPartsGoThroughTheSocket) {
  TransportWorld world(
      2, [](NodeTransportOptions& options) { options.arena_bytes = 1 << 20; });
  for (std::size_t i = 0; i < 40; ++i) {
    world.at(0).send(1, {.head = seed_text(i), .parts = {numbered_part(1 << 18, i)}});
    ASSERT_TRUE(world.log(1).wait_arrivals(i + 1));
  }
  EXPECT_EQ(world.at(0).stats().parts_shared, 4u);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_TRUE(is_numbered_part(world.log(1).arrivals[i].packet.parts[0], 1 << 18, i));
}

TEST(NodeTransportRanks, WhoDoesNotShareIsSentToThroughTheSocket) {
  TransportWorld world(2, [](NodeTransportOptions& options) {
    options.shared_memory = options.me.id == 0;
  });
  for (std::size_t i = 0; i < 10; ++i) {
    world.at(0).send(1, {.head = seed_text(i), .parts = {numbered_part(1 << 20, i)}});
    ASSERT_TRUE(world.log(1).wait_arrivals(i + 1));
  }
  EXPECT_EQ(world.at(0).stats().parts_shared, 0u);
}

TEST(NodeTransportRanks, ReceivedTensorsOutliveTheirTransport) {
  std::vector<Part> kept;
  {
    TransportWorld world(2);
    for (std::size_t i = 0; i < 20; ++i) {
      world.at(0).send(1, {.head = "h", .parts = {numbered_part(1 << 20, i)}});
      ASSERT_TRUE(world.log(1).wait_arrivals(i + 1));
      kept.push_back(world.log(1).arrivals[i].packet.parts[0]);
    }
    EXPECT_GT(world.at(0).stats().parts_shared, 10u);
  }
  EXPECT_EQ(seen_arenas(), 1u);
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(is_numbered_part(kept[i], 1 << 20, i));
  kept.clear();
  EXPECT_TRUE(comes_true([] { return seen_arenas() == 0; }));
}

// -- protection

TEST(NodeTransportProcs, TheEnvironmentSaysWhatProtectsIt) {
  testing::Processes processes;
  processes.start([] {
    for (const char* name :
         {"TRIREME_SECURITY",
          "TRIREME_JOB_KEY",
          "TRIREME_JOB_KEY_FILE",
          "TRIREME_CA_FILE",
          "TRIREME_CERTIFICATE_FILE",
          "TRIREME_PRIVATE_KEY_FILE"})
      ::unsetenv(name);
    expect_transport_refused(
        [] { NodeTransport({.me = {.name = "a"}}); }, "what protects connections");
    ::setenv("TRIREME_SECURITY", "insecure-loopback", 1);
    NodeTransport({.me = {.name = "a"}});
    // Without a key nothing leaves this machine.
    expect_transport_refused(
        [] {
          NodeTransport(
              {.me = {.name = "a"}, .listen = net::Address::tcp("0.0.0.0", 0)});
        },
        "use a job key");
    return 0;
  });
  testing::expect_good_ends(processes.wait(20s));
}

// -- processes

TEST(NodeTransportProcs, TensorsGoFromProcessToProcess) {
  const ScratchFolder folder;
  testing::Processes processes;
  processes.start([&] {
    return as_worker(folder.path(), 0, 2, [](NodeTransport& transport, PacketLog& log) {
      for (std::size_t i = 0; i < 50; ++i) {
        transport.send(1, {.head = seed_text(i), .parts = {numbered_part(1 << 20, i)}});
        EXPECT_TRUE(log.wait_arrivals(1));
        const std::lock_guard lock(log.mutex);
        if (log.arrivals.empty())
          break;
        EXPECT_TRUE(is_numbered_part(log.arrivals.front().packet.parts[0], 1 << 20, i));
        log.arrivals.clear();
      }
      EXPECT_GT(transport.stats().parts_shared, 40u);
      EXPECT_TRUE(comes_true([&] { return transport.stats().lent_bytes == 0; }));
      transport.close(Deadline::after(20s));
      return 0;
    });
  });
  processes.start([&] {
    return as_worker(folder.path(), 1, 2, [](NodeTransport& transport, PacketLog& log) {
      const auto busy = [&] { return !log.arrivals.empty() || !log.ends.empty(); };
      for (bool more = log.wait(busy); more; more = log.wait(busy)) {
        const std::lock_guard lock(log.mutex);
        if (log.arrivals.empty())
          break;
        transport.send(0, std::move(log.arrivals.front().packet));
        log.arrivals.pop_front();
      }
      EXPECT_GT(transport.stats().parts_shared, 40u);
      return 0;
    });
  });
  testing::expect_good_ends(processes.wait(60s));
}

TEST(NodeTransportProcs, AKilledWorkerIsGoneSoonAndWhatItHeldIsFree) {
  const ScratchFolder folder;
  testing::Processes processes;
  testing::SharedNumber ready, killed_at;
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  processes.start([&] {
    return as_worker(
        folder.path(), 0, 2, [&](NodeTransport& transport, PacketLog& log) {
          EXPECT_TRUE(comes_true([&] {
            transport.send(1, {.parts = {numbered_part(1 << 20, 0)}});
            return transport.stats().lent_bytes > 0;
          }));
          *ready = 1;
          EXPECT_TRUE(log.wait_ends(1));
          EXPECT_LT(now() - *killed_at, 2000);
          EXPECT_EQ(log.ends[0].why, "its process has ended");
          EXPECT_EQ(transport.stats().lent_bytes, 0u);
          return 0;
        });
  });
  processes.start([&] {
    return as_worker(folder.path(), 1, 2, [&](NodeTransport&, PacketLog& log) -> int {
      log.wait([] { return false; }, 60s);
      return 1;
    });
  });
  ASSERT_TRUE(comes_true([&] { return *ready == 1; }));
  *killed_at = now();
  processes.kill(1, SIGKILL);
  const auto endings = processes.wait(60s);
  EXPECT_EQ(endings[0].exit_code, 0);
  EXPECT_EQ(endings[1].signal, SIGKILL);
}

TEST(NodeTransportProcs, WhoIsDeadBeforeTheFirstWordIsGone) {
  const ScratchFolder folder;
  testing::Processes processes;
  processes.start([&] {
    return as_worker(folder.path(), 1, 2, [&](NodeTransport&, PacketLog&) -> int {
      std::this_thread::sleep_for(300ms);  // until the other has met it too
      ::_exit(0);
    });
  });
  as_worker(folder.path(), 0, 2, [&](NodeTransport& transport, PacketLog& log) {
    processes.wait(20s);
    const auto begin = std::chrono::steady_clock::now();
    transport.send(1, {.head = "hello"});
    EXPECT_TRUE(log.wait_ends(1));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    EXPECT_EQ(log.ends[0].why, "its process has ended");
    return 0;
  });
}

}  // namespace
}  // namespace trireme::rpc
