#include "trireme/rpc/packet_message.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"

namespace trireme::rpc {
namespace {

std::string bytes_of(std::size_t size, int seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(i * 7 + static_cast<std::size_t>(seed));
  return bytes;
}

Part part_of(const std::string& bytes) {
  auto kept = std::make_shared<std::string>(bytes);
  return {std::as_writable_bytes(std::span(*kept)), kept};
}

std::string string_of(const Part& part) {
  return {reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size()};
}

// What the other side's node would hand out.
net::InMessage arrive(BufferPool& pool, const net::OutMessage& message) {
  net::InMessage in{
      .envelope = message.envelope, .buffer = pool.take(message.body_bytes())};
  in.body = in.buffer.bytes();
  std::size_t at = 0;
  for (const auto& span : message.body) {
    std::memcpy(in.body.data() + at, span.data(), span.size());
    at += span.size();
  }
  return in;
}

net::InMessage raw(
    BufferPool& pool,
    std::uint64_t head,
    std::uint32_t parts,
    const std::string& body) {
  net::OutMessage message{
      .envelope = {.header = net::ByteWriter().u64(head).u32(parts).take()}};
  message.body.push_back(std::as_bytes(std::span(body)));
  return arrive(pool, message);
}

std::string refusal_of(net::InMessage message, const FindPart& find = nullptr) {
  try {
    to_packet(std::move(message), find);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no refusal";
}

std::string entry(bool elsewhere, std::uint64_t bytes, std::uint64_t offset) {
  return net::ByteWriter().flag(elsewhere).u64(bytes).u64(offset).take();
}

}  // namespace

TEST(PacketMessage, AllSizesComeBackAlignedAndEqual) {
  BufferPool pool;
  for (const std::size_t head : {0, 1, 63, 64, 1000}) {
    Packet packet{.head = bytes_of(head, 1)};
    const std::size_t sizes[] = {0, 1, 63, 64, 65, 4096, 0, 100'001};
    for (const std::size_t size : sizes)
      packet.parts.push_back(part_of(bytes_of(size, 2)));
    const Packet back = to_packet(arrive(pool, to_message(packet)));
    EXPECT_EQ(back.head, packet.head);
    ASSERT_EQ(back.parts.size(), std::size(sizes));
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      EXPECT_EQ(string_of(back.parts[i]), bytes_of(sizes[i], 2));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(back.parts[i].bytes.data()) % 64, 0u);
    }
  }
}

TEST(PacketMessage, PartsAreNotCopiedOnTheWayOut) {
  Part part = part_of(bytes_of(1000, 3));
  const std::weak_ptr<const void> kept = part.keep;
  const std::byte* data = part.bytes.data();
  net::OutMessage message = to_message({.head = "h", .parts = {std::move(part)}});
  ASSERT_EQ(message.body.size(), 3u);
  EXPECT_EQ(message.body[2].data(), data);
  EXPECT_FALSE(kept.expired());
  message = {};
  EXPECT_TRUE(kept.expired());
}

TEST(PacketMessage, PartsAreViewsThatHoldTheBufferAlone) {
  BufferPool pool;
  auto allowance = std::make_shared<int>(0);
  const std::weak_ptr<const void> held = allowance;
  net::InMessage message = arrive(
      pool,
      to_message({.head = "h", .parts = {part_of("abc"), part_of(bytes_of(500, 1))}}));
  message.allowance = std::move(allowance);
  const std::span<std::byte> body = message.body;
  Packet packet = to_packet(std::move(message));
  EXPECT_TRUE(held.expired());
  EXPECT_GE(packet.parts[0].bytes.data(), body.data());
  EXPECT_LE(packet.parts[1].bytes.data() + 500, body.data() + body.size());
  EXPECT_EQ(pool.stats().live_buffers, 1u);
  packet.parts.erase(packet.parts.begin());
  EXPECT_EQ(pool.stats().live_buffers, 1u);
  EXPECT_EQ(string_of(packet.parts[0]), bytes_of(500, 1));
  packet.parts.clear();
  EXPECT_EQ(pool.stats().live_buffers, 0u);
}

TEST(PacketMessage, ASmallPartThatIsKeptDoesNotHoldALargeMessage) {
  BufferPool pool;
  std::vector<Part> parts;
  for (const std::size_t size : {1, 100, 4096})
    parts.push_back(part_of(bytes_of(size, 6)));
  parts.push_back(part_of(bytes_of(1 << 20, 7)));
  Packet packet = to_packet(arrive(pool, to_message({.head = "h", .parts = parts})));
  EXPECT_EQ(string_of(packet.parts[3]), bytes_of(1 << 20, 7));
  EXPECT_EQ(pool.stats().live_buffers, 1u) << "large parts are not copied";
  packet.parts.pop_back();
  EXPECT_EQ(pool.stats().live_bytes, 0u);
  for (std::size_t i = 0; i < packet.parts.size(); ++i) {
    EXPECT_EQ(string_of(packet.parts[i]), string_of(parts[i]));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet.parts[i].bytes.data()) % 64, 0u);
  }
}

TEST(PacketMessage, LargePartsMayLieElsewhere) {
  BufferPool pool;
  Part large = part_of(bytes_of(300, 4));
  const std::weak_ptr<const void> kept = large.keep;
  const net::OutMessage message = to_message(
      {.head = "head", .parts = {part_of("a"), std::move(large), part_of("b")}},
      [](const Part& part) -> std::optional<std::uint64_t> {
        if (part.bytes.size() < 100)
          return std::nullopt;
        return 640;
      });
  EXPECT_TRUE(kept.expired());
  EXPECT_LT(message.body_bytes(), 300u);
  const auto find = [](std::uint64_t offset, std::uint64_t bytes) {
    EXPECT_EQ(offset, 640u);
    EXPECT_EQ(bytes, 300u);
    return part_of(bytes_of(300, 4));
  };
  const Packet back = to_packet(arrive(pool, message), find);
  EXPECT_EQ(string_of(back.parts[0]), "a");
  EXPECT_EQ(string_of(back.parts[1]), bytes_of(300, 4));
  EXPECT_EQ(string_of(back.parts[2]), "b");
  EXPECT_NE(
      refusal_of(arrive(pool, message)).find("parts that lie in it alone"),
      std::string::npos);
}

TEST(PacketMessage, WhatNoWorkerWritesIsRefused) {
  BufferPool pool;
  const auto refused = [&](net::InMessage message, const char* why) {
    const std::string what = refusal_of(std::move(message));
    EXPECT_NE(what.find(why), std::string::npos) << what;
  };
  refused(raw(pool, 4, 0, "abc"), "a head that lies in it, got 4");
  refused(raw(pool, ~std::uint64_t{0}, 0, "abc"), "a head that lies in it");
  refused(raw(pool, 2, 0, "abc"), "nothing after its head, got 1");
  refused(raw(pool, 0, ~std::uint32_t{0}, std::string(40, '\0')), "an entry for each");
  refused(raw(pool, 0, 1, entry(false, 1, 0)), "padding before its parts");
  refused(
      raw(pool, 0, 1, entry(false, 9, 0) + std::string(47 + 8, 'x')),
      "parts that lie in it, got 9");
  refused(
      raw(pool, 0, 1, entry(false, ~std::uint64_t{0}, 0) + std::string(55, 'x')),
      "parts that lie in it");
  refused(
      raw(pool, 0, 1, entry(false, 1, 64) + std::string(48, 'x')), "no place for what");
  refused(
      raw(pool, 0, 1, entry(false, 1, 0) + std::string(49, 'x')),
      "nothing after its parts, got 1");
  refused(raw(pool, 0, 1, '\2' + entry(false, 1, 0).substr(1)), "0 or 1");
  net::InMessage cut = raw(pool, 0, 0, "");
  cut.envelope.header.pop_back();
  EXPECT_NE(refusal_of(std::move(cut)), "no refusal");
  net::InMessage longer = raw(pool, 0, 0, "");
  longer.envelope.header.push_back('x');
  EXPECT_NE(refusal_of(std::move(longer)), "no refusal");
}

TEST(PacketMessage, DamagedBytesGiveAPacketOrARefusal) {
  BufferPool pool;
  std::minstd_rand random(7);
  const net::OutMessage good = to_message(
      {.head = "some head", .parts = {part_of("abc"), part_of(bytes_of(200, 5))}});
  int refusals = 0;
  for (int i = 0; i < 5000; ++i) {
    net::InMessage message = arrive(pool, good);
    auto& header = message.envelope.header;
    if (random() % 2 == 0)
      header[random() % header.size()] = static_cast<char>(random());
    else
      message.body[random() % 43] = static_cast<std::byte>(random());
    refusals += refusal_of(std::move(message)) != "no refusal";
  }
  EXPECT_GT(refusals, 500);
}

}  // namespace trireme::rpc
