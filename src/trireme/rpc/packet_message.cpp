#include "trireme/rpc/packet_message.h"

#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"

namespace trireme::rpc {
namespace {

// The envelope's header: how long the head is, and how many parts there are. Then the
// body: the head, an entry for each part, and the parts that lie in it.
constexpr std::size_t kPacketHeader = 8 + 4;
// An entry: whether the part lies elsewhere, its length, and where.
constexpr std::size_t kPartEntry = 1 + 8 + 8;
constexpr std::array<std::byte, kPartAlignment> kPadding{};
// Who keeps a part of at most so many bytes keeps no message of more than that.
constexpr std::size_t kSmallPart = 4 << 10;
constexpr std::size_t kLargeMessage = 16 << 10;

constexpr std::size_t padding_behind(std::uint64_t bytes) {
  return static_cast<std::size_t>(-bytes % kPartAlignment);
}

// What a packet's message is sent from.
struct KeptPacket {
  std::string front;  // head and entries
  std::vector<Part> parts;
};

void add_span(net::OutMessage& message, const void* data, std::size_t bytes) {
  if (bytes > 0)
    message.body.push_back({static_cast<const std::byte*>(data), bytes});
}

[[noreturn]] void refuse_packet(const char* expected, std::uint64_t got) {
  throw InvalidArgument(text(
      "[rpc] expected a packet of a worker with ",
      expected,
      ", got ",
      got,
      "; run the same release of Trireme on all workers"));
}

// The same in memory of its own.
Part copy_part(std::span<const std::byte> bytes) {
  constexpr std::align_val_t alignment{kPartAlignment};
  const std::shared_ptr<std::byte> copy(
      static_cast<std::byte*>(::operator new(bytes.size(), alignment)),
      [](std::byte* memory) { ::operator delete(memory, alignment); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return {{copy.get(), bytes.size()}, copy};
}

// Hands out the parts of a body one after the other.
class BodyParts {
 public:
  BodyParts(std::span<std::byte> body, std::size_t at, std::shared_ptr<const void> keep)
      : body_(body), at_(at), keep_(std::move(keep)) {}

  Part take(std::uint64_t bytes) {
    skip(padding_behind(at_));
    if (bytes > body_.size() - at_)
      refuse_packet("parts that lie in it", bytes);
    const auto part = body_.subspan(at_, static_cast<std::size_t>(bytes));
    at_ += part.size();
    if (part.size() <= kSmallPart && body_.size() > kLargeMessage)
      return copy_part(part);
    return {part, keep_};
  }
  void expect_end() {
    if (at_ != body_.size())
      refuse_packet("nothing after its parts", body_.size() - at_);
  }

 private:
  void skip(std::size_t bytes) {
    if (bytes > body_.size() - at_)
      refuse_packet("padding before its parts", body_.size() - at_);
    at_ += bytes;
  }

  std::span<std::byte> body_;
  std::size_t at_;
  std::shared_ptr<const void> keep_;
};

}  // namespace

net::OutMessage to_message(Packet packet, const PlacePart& place) {
  const std::size_t head = packet.head.size();
  const std::size_t parts = packet.parts.size();
  if (parts > std::numeric_limits<std::uint32_t>::max())
    refuse_packet("at most 4294967295 parts", parts);
  net::OutMessage message{
      .envelope = {
          .type = static_cast<std::uint16_t>(WireKind::Packet),
          .header = net::ByteWriter()
                        .u64(head)
                        .u32(static_cast<std::uint32_t>(parts))
                        .take()}};
  auto kept = std::make_shared<KeptPacket>();
  kept->front = std::move(packet.head);
  kept->parts = std::move(packet.parts);
  if (parts > 0) {
    net::ByteWriter entries;
    for (Part& part : kept->parts) {
      const auto elsewhere = place ? place(part) : std::nullopt;
      entries.flag(elsewhere.has_value())
          .u64(part.bytes.size())
          .u64(elsewhere.value_or(0));
      if (elsewhere)
        part = {};  // the copy is all that is needed
    }
    kept->front += entries.bytes();
  }
  message.body.reserve(1 + 2 * parts);
  add_span(message, kept->front.data(), kept->front.size());
  std::uint64_t at = kept->front.size();
  for (const Part& part : kept->parts) {
    if (part.bytes.empty())
      continue;
    add_span(message, kPadding.data(), padding_behind(at));
    add_span(message, part.bytes.data(), part.bytes.size());
    at += padding_behind(at) + part.bytes.size();
  }
  message.keep = std::move(kept);
  return message;
}

Packet to_packet(net::InMessage message, const FindPart& find) {
  net::ByteReader header(message.envelope.header, "the header of a packet");
  const std::uint64_t head = header.u64();
  const std::uint32_t parts = header.u32();
  header.expect_end();
  const std::span<std::byte> body = message.body;
  if (head > body.size())
    refuse_packet("a head that lies in it", head);
  if (parts > (body.size() - head) / kPartEntry)
    refuse_packet("an entry for each part", parts);
  const std::string_view bytes(reinterpret_cast<const char*>(body.data()), body.size());
  Packet packet{.head = std::string(bytes.substr(0, head))};
  const std::size_t front = static_cast<std::size_t>(head) + parts * kPartEntry;
  if (parts == 0) {
    if (front != body.size())
      refuse_packet("nothing after its head", body.size() - front);
    return packet;
  }
  net::ByteReader entries(
      bytes.substr(head, parts * kPartEntry), "the parts of a packet");
  BodyParts inside(
      body, front, std::make_shared<const Buffer>(std::move(message.buffer)));
  packet.parts.reserve(parts);
  for (std::uint32_t i = 0; i < parts; ++i) {
    const bool elsewhere = entries.flag();
    const std::uint64_t size = entries.u64();
    const std::uint64_t offset = entries.u64();
    if (elsewhere && !find)
      refuse_packet("parts that lie in it alone", offset);
    if (!elsewhere && offset != 0)
      refuse_packet("no place for what lies in it", offset);
    if (elsewhere)
      packet.parts.push_back(find(offset, size));
    else
      packet.parts.push_back(size == 0 ? Part{} : inside.take(size));
  }
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  inside.expect_end();
#endif
  return packet;
}

}  // namespace trireme::rpc
