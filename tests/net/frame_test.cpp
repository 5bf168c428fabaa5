#include "trireme/net/frame.h"

#include <functional>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/checksum.h"

namespace trireme::net {
namespace {

Frame message_frame() {
  return {
      .kind = FrameKind::Message,
      .checked = true,
      .type = 513,
      .sequence = 7,
      .ack = 6,
      .id = 0x1122334455667788,
      .body = 300'000,
      .header_bytes = 12,
      .payload_bytes = kChunkBytes,
      .timeout_ms = 2500,
      .header_check = 0xdeadbeef,
      .payload_check = 0x12345678};
}

/// The head with a byte changed, and its checksum made right again.
FrameHead with_byte(FrameHead head, std::size_t at, int value) {
  head[at] = static_cast<std::byte>(value);
  const std::uint32_t check = crc32c(std::span(head).first<60>());
  for (std::size_t i = 0; i < 4; ++i)
    head[60 + i] = static_cast<std::byte>(check >> (8 * i));
  return head;
}

std::string refusal(const FrameHead& head, const Limits& limits = {}) {
  try {
    decode(head, limits);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Frame, ComesBackAsItWas) {
  const Frame frame = message_frame();
  EXPECT_EQ(decode(encode(frame), {}), frame);
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  const FrameHead good = encode(message_frame());
  for (std::size_t bit = 0; bit < kFrameHead * 8; ++bit) {
    FrameHead bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(refusal(bad), "") << "bit " << bit;
  }
}

TEST(Frame, AnotherVersionIsNamed) {
  FrameHead head = encode(message_frame());
  head[2] = std::byte{9};  // the checksum is not even looked at
  EXPECT_EQ(
      refusal(head),
      "[net] expected a peer that speaks version 1 of the protocol, got version 9; run "
      "the "
      "same release of Trireme on all hosts");
}

TEST(Frame, LengthsAreCheckedBeforeAnythingIsAllocated) {
  const Limits limits{.header_bytes = 100, .body_bytes = 1000};
  const std::vector<std::pair<const char*, std::function<void(Frame&)>>> cases = {
      {"a header of at most 100", [](Frame& f) { f.header_bytes = 101; }},
      {"a body of at most 1000",
       [](Frame& f) { f.body = 1001, f.payload_bytes = 1001; }},
      {"the first 500", [](Frame& f) { f.body = 500, f.payload_bytes = 499; }},
      {"the first 500", [](Frame& f) { f.body = 500, f.payload_bytes = 501; }},
      {"a payload of at most", [](Frame& f) { f.payload_bytes = kChunkBytes + 1; }},
      {"a sequence number", [](Frame& f) { f.sequence = 0; }},
      {"some of the body",
       [](Frame& f) {
         f.kind = FrameKind::Chunk, f.header_bytes = 0, f.payload_bytes = 0;
       }},
      {"a header of at most 0", [](Frame& f) { f.kind = FrameKind::Chunk; }},
      {"a payload of at most",
       [](Frame& f) {
         f.kind = FrameKind::Ping, f.header_bytes = 0;
         f.payload_bytes = 1;
       }},
      {"a header of at most 4096",
       [](Frame& f) {
         f.kind = FrameKind::Hello, f.sequence = 0, f.header_bytes = 5000,
         f.payload_bytes = 0;
       }},
      {"a sequence number",
       [](Frame& f) {
         f.kind = FrameKind::Ack, f.header_bytes = 0, f.payload_bytes = 0;
       }},
  };
  for (const auto& [expected, change] : cases) {
    Frame frame = message_frame();
    frame.body = frame.payload_bytes = 10;
    change(frame);
    EXPECT_NE(refusal(encode(frame), limits).find(expected), std::string::npos)
        << expected << ": " << refusal(encode(frame), limits);
  }
}

TEST(Frame, UnknownKindsAndFlagsAreRefused) {
  const FrameHead good = encode(message_frame());
  EXPECT_NE(refusal(with_byte(good, 3, 0)).find("a kind"), std::string::npos);
  EXPECT_NE(refusal(with_byte(good, 3, 9)).find("a kind"), std::string::npos);
  EXPECT_NE(refusal(with_byte(good, 4, 2)).find("no flag"), std::string::npos);
  EXPECT_EQ(refusal(with_byte(good, 4, 0)), "");
}

}  // namespace
}  // namespace trireme::net
