#include "trireme/net/frame.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/net/checksum.h"

namespace trireme::net {
namespace {

constexpr std::uint16_t kMagic = 0x5254;  // "TR"
constexpr std::uint8_t kCheckedFlag = 1;
constexpr std::size_t kHeadCheckAt = 60;

/// Writes or reads the fields one after the other, so that there is one layout.
class HeadWriter {
 public:
  template <class T>
  void field(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      head[at++] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  FrameHead head{};
  std::size_t at = 0;
};

class HeadReader {
 public:
  explicit HeadReader(std::span<const std::byte, kFrameHead> head) : head_(head) {}
  template <class T>
  T field() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value |= static_cast<std::uint64_t>(head_[at_++]) << (8 * i);
    return static_cast<T>(value);
  }

 private:
  std::span<const std::byte, kFrameHead> head_;
  std::size_t at_ = 0;
};

[[noreturn]] void refuse_frame(const std::string& expected, std::uint64_t got) {
  throw InvalidArgument(text(
      "[net] expected a frame with ",
      expected,
      ", got ",
      got,
      "; something else than Trireme talks to this port, or the bytes were damaged"));
}

void check_lengths(const Frame& frame, const Limits& limits) {
  const bool handshake = frame.kind == FrameKind::Hello ||
                         frame.kind == FrameKind::Welcome ||
                         frame.kind == FrameKind::Refuse;
  const bool message = frame.kind == FrameKind::Message;
  const std::size_t header = message ? limits.header_bytes : handshake ? 4096 : 0;
  if (frame.header_bytes > header)
    refuse_frame(text("a header of at most ", header, " bytes"), frame.header_bytes);
  if (frame.payload_bytes > (frame.is_data() ? kChunkBytes : 0))
    refuse_frame(
        text("a payload of at most ", kChunkBytes, " bytes"), frame.payload_bytes);
  if (message && frame.body > limits.body_bytes)
    refuse_frame(text("a body of at most ", limits.body_bytes, " bytes"), frame.body);
  // A message's first frame brings as much of it as one frame can.
  const std::uint64_t first = std::min<std::uint64_t>(frame.body, kChunkBytes);
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  if (message && frame.payload_bytes != first)
    refuse_frame(text("the first ", first, " bytes of its body"), frame.payload_bytes);
#endif
  if (frame.kind == FrameKind::Chunk && frame.payload_bytes == 0)
    refuse_frame("some of the body", 0);
  if (frame.is_data() != (frame.sequence != 0))
    refuse_frame("a sequence number if it brings data, and none else", frame.sequence);
}

}  // namespace

FrameHead encode(const Frame& frame) {
  HeadWriter out;
  out.field(kMagic);
  out.field(kProtocolVersion);
  out.field(frame.kind);
  out.field(static_cast<std::uint16_t>(frame.checked ? kCheckedFlag : 0));
  out.field(frame.type);
  out.field(frame.sequence);
  out.field(frame.ack);
  out.field(frame.id);
  out.field(frame.body);
  out.field(frame.header_bytes);
  out.field(frame.payload_bytes);
  out.field(frame.timeout_ms);
  out.field(frame.header_check);
  out.field(frame.payload_check);
  out.field(crc32c(std::span(out.head).first<kHeadCheckAt>()));
  return out.head;
}

void check_magic(std::span<const std::byte, kMagicBytes> first) {
  const auto low = static_cast<std::uint8_t>(first[0]);
  const auto high = static_cast<std::uint8_t>(first[1]);
  if (const int magic = low | high << 8; magic != kMagic) {
    // A TLS record of an alert or a handshake, and the first half of its version.
    if ((low == 0x15 || low == 0x16) && high == 0x03)
      throw InvalidArgument(
          "[net] expected a peer without TLS, since nothing protects this side, got "
          "one "
          "that speaks TLS; protect all workers of a job in the same way");
    refuse_frame(text("the magic number ", kMagic), static_cast<std::uint64_t>(magic));
  }
}

Frame decode(std::span<const std::byte, kFrameHead> head, const Limits& limits) {
  check_magic(head.first<kMagicBytes>());
  HeadReader in(head);
  in.field<std::uint16_t>();
  // Before the checksum, which another version may have elsewhere.
  if (const auto version = in.field<std::uint8_t>(); version != kProtocolVersion)
    throw InvalidArgument(text(
        "[net] expected a peer that speaks version ",
        int{kProtocolVersion},
        " of the protocol, got version ",
        int{version},
        "; run the same release of Trireme on all hosts"));
  Frame frame;
  frame.kind = in.field<FrameKind>();
  const auto flags = in.field<std::uint16_t>();
  frame.type = in.field<std::uint16_t>();
  frame.sequence = in.field<std::uint64_t>();
  frame.ack = in.field<std::uint64_t>();
  frame.id = in.field<std::uint64_t>();
  frame.body = in.field<std::uint64_t>();
  frame.header_bytes = in.field<std::uint32_t>();
  frame.payload_bytes = in.field<std::uint32_t>();
  frame.timeout_ms = in.field<std::uint32_t>();
  frame.header_check = in.field<std::uint32_t>();
  frame.payload_check = in.field<std::uint32_t>();
  const auto check = in.field<std::uint32_t>();
  const std::uint32_t right = crc32c(head.first<kHeadCheckAt>());
  if (check != right)
    refuse_frame(text("the checksum ", right, " over its head"), check);
  if (frame.kind < FrameKind::Hello || frame.kind > FrameKind::Leave)
    refuse_frame("a kind from 1 to 8", static_cast<std::uint64_t>(frame.kind));
  if (flags > kCheckedFlag)
    refuse_frame("no flag but 1", flags);
  frame.checked = flags == kCheckedFlag;
  check_lengths(frame, limits);
  return frame;
}

}  // namespace trireme::net
