#include "trireme/net/frame_reader.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/mix.h"
#include "trireme/net/checksum.h"
#include "trireme/testing/message.h"

namespace trireme::net {
namespace {

/// Writes down what it is given, and gives payloads a place unless told to drop them.
class Notes : public FrameSink {
 public:
  std::span<std::byte> begin(const Frame& frame, std::string header) override {
    headers.push_back(std::move(header));
    payloads.emplace_back(drop ? 0 : frame.payload_bytes);
    return payloads.back();
  }
  void end(const Frame&) override { ++ends; }
  bool drop = false;
  std::vector<std::string> headers;
  std::vector<std::vector<std::byte>> payloads;
  int ends = 0;
};

std::vector<std::byte> wire_bytes(const std::string& header, std::size_t payload) {
  std::vector<std::byte> body(payload);
  for (std::size_t i = 0; i < payload; ++i)
    body[i] = static_cast<std::byte>(mix(i + kMixStep));
  const FrameHead head = encode(Frame{
      .kind = FrameKind::Message,
      .checked = true,
      .sequence = 1,
      .body = payload,
      .header_bytes = static_cast<std::uint32_t>(header.size()),
      .payload_bytes = static_cast<std::uint32_t>(payload),
      .header_check = crc32c(header),
      .payload_check = crc32c(body)});
  std::vector<std::byte> all(head.begin(), head.end());
  for (const char c : header)
    all.push_back(static_cast<std::byte>(c));
  all.insert(all.end(), body.begin(), body.end());
  return all;
}

TEST(FrameReader, FindsFramesHoweverTheirBytesCome) {
  std::vector<std::byte> bytes;
  for (const auto& [header, payload] :
       {std::pair("", 0),
        std::pair("one", 0),
        std::pair("", 70),
        std::pair("two", 500)}) {
    const auto frame = wire_bytes(header, static_cast<std::size_t>(payload));
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  for (const std::size_t step :
       {std::size_t{1},
        std::size_t{3},
        std::size_t{64},
        std::size_t{65},
        bytes.size()}) {
    FrameReader reader({}, true);
    Notes notes;
    for (std::size_t at = 0; at < bytes.size();) {
      // Through both doors, as a connection does.
      const std::size_t count = std::min(step, bytes.size() - at);
      const std::size_t straight = std::min(count, reader.direct().size());
      if (straight > 0) {
        std::memcpy(reader.direct().data(), bytes.data() + at, straight);
        reader.filled(straight, notes);
      }
      reader.feed(std::span(bytes).subspan(at + straight, count - straight), notes);
      at += count;
    }
    EXPECT_EQ(notes.ends, 4) << step;
    EXPECT_EQ(notes.headers, (std::vector<std::string>{"", "one", "", "two"}));
    EXPECT_EQ(notes.payloads[3].size(), 500u);
    EXPECT_EQ(notes.payloads[3][499], static_cast<std::byte>(mix(499 + kMixStep)));
    EXPECT_TRUE(reader.between_frames());
  }
}

TEST(FrameReader, ThrowsAwayWhatNobodyWants) {
  FrameReader reader({}, true);
  Notes notes;
  notes.drop = true;
  const auto bytes = wire_bytes("again", 1000);
  reader.feed(std::span(bytes).first(700), notes);
  EXPECT_TRUE(reader.direct().empty());
  EXPECT_FALSE(reader.between_frames());
  reader.feed(std::span(bytes).subspan(700), notes);
  EXPECT_EQ(notes.ends, 1);
}

TEST(FrameReader, NoFlippedBitComesThrough) {
  const auto good = wire_bytes("header", 40);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    FrameReader reader({}, true);
    Notes notes;
    EXPECT_THROW(reader.feed(bad, notes), InvalidArgument) << "bit " << bit;
    EXPECT_EQ(notes.ends, 0);
    // A header that is wrong has not been acted upon.
    EXPECT_TRUE(notes.headers.empty() || notes.headers[0] == "header") << "bit " << bit;
  }
}

TEST(FrameReader, ATruncatedFrameIsNoFrame) {
  const auto bytes = wire_bytes("header", 40);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    FrameReader reader({}, true);
    Notes notes;
    reader.feed(std::span(bytes).first(size), notes);
    EXPECT_EQ(notes.ends, 0);
    EXPECT_EQ(reader.between_frames(), size == 0);
  }
}

TEST(FrameReader, KnowsByTheFirstBytesWhoSpeaksSomethingElse) {
  const std::pair<std::vector<int>, const char*> cases[] = {
      {{0x15, 0x03, 0x03, 0, 2, 2, 70}, "got one that speaks TLS; protect all workers"},
      {{0x16, 0x03}, "got one that speaks TLS; protect all workers"},
      {{'G', 'E'}, "the magic number "}};
  for (const auto& [words, reason] : cases) {
    std::vector<std::byte> bytes;
    for (const int word : words)
      bytes.push_back(static_cast<std::byte>(word));
    FrameReader reader({}, true);
    Notes notes;
    const std::string what = testing::message_of<InvalidArgument>([&] {
      for (const std::byte& byte : bytes)
        reader.feed(std::span(&byte, 1), notes);
    });
    EXPECT_TRUE(testing::contains(what, reason)) << what;
  }
}

TEST(FrameReader, WithoutTlsFramesNeedChecksums) {
  FrameHead head = encode(
      Frame{.kind = FrameKind::Message, .sequence = 1, .body = 4, .payload_bytes = 4});
  FrameReader strict({}, true), relaxed({}, false);
  Notes notes;
  EXPECT_THROW(strict.feed(head, notes), InvalidArgument);
  EXPECT_NO_THROW(relaxed.feed(head, notes));
}

}  // namespace
}  // namespace trireme::net
