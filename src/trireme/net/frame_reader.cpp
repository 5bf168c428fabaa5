#include "trireme/net/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "trireme/core/error.h"
#include "trireme/net/checksum.h"

namespace trireme::net {
namespace {

void check_same(std::uint32_t expected, std::uint32_t got) {
  if (got != expected)
    throw InvalidArgument(text(
        "[net] expected bytes with the checksum ",
        expected,
        ", got ",
        got,
        "; they were damaged on their way"));
}

}  // namespace

void FrameReader::feed(std::span<const std::byte> bytes, FrameSink& sink) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::Head:
        bytes = read_head(bytes);
        // A frame without anything behind its head is complete now.
        if (state_ == State::Header && frame_.header_bytes == 0)
          start_payload(sink);
        break;
      case State::Header:
        bytes = read_header(bytes, sink);
        break;
      case State::Payload:
        bytes = read_payload(bytes, sink);
        break;
    }
  }
}

std::span<const std::byte> FrameReader::read_head(std::span<const std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), kFrameHead - have_);
  std::memcpy(head_.data() + have_, bytes.data(), count);
  have_ += count;
  if (have_ < kFrameHead) {
    if (have_ >= kMagicBytes)
      check_magic(std::span(head_).first<kMagicBytes>());
    return {};
  }
  frame_ = decode(head_, limits_);
  if (checked_ && !frame_.checked && frame_.header_bytes + frame_.payload_bytes > 0)
    throw InvalidArgument(
        "[net] expected frames with checksums on a connection without TLS, got one "
        "without; run the same release of Trireme on all hosts");
  header_.clear();
  check_ = 0;
  state_ = State::Header;
  return bytes.subspan(count);
}

std::span<const std::byte> FrameReader::read_header(
    std::span<const std::byte> bytes, FrameSink& sink) {
  const std::size_t count =
      std::min(bytes.size(), frame_.header_bytes - header_.size());
  header_.append(reinterpret_cast<const char*>(bytes.data()), count);
  if (header_.size() == frame_.header_bytes)
    start_payload(sink);
  return bytes.subspan(count);
}

void FrameReader::start_payload(FrameSink& sink) {
  if (frame_.checked)
    check_same(frame_.header_check, crc32c(header_));
  state_ = State::Payload;
  have_ = 0;
  direct_ = sink.begin(frame_, std::move(header_));
  TRIREME_ASSERT(direct_.empty() || direct_.size() == frame_.payload_bytes);
  finish_if_whole(sink);
}

std::span<const std::byte> FrameReader::read_payload(
    std::span<const std::byte> bytes, FrameSink& sink) {
  const std::size_t count = std::min(bytes.size(), frame_.payload_bytes - have_);
  if (!direct_.empty()) {
    std::memcpy(direct_.data(), bytes.data(), count);
    filled(count, sink);
  } else {
    if (frame_.checked)
      check_ = crc32c(bytes.first(count), check_);
    have_ += count;
    finish_if_whole(sink);
  }
  return bytes.subspan(count);
}

void FrameReader::filled(std::size_t bytes, FrameSink& sink) {
  if (frame_.checked)
    check_ = crc32c(direct_.first(bytes), check_);
  direct_ = direct_.subspan(bytes);
  have_ += bytes;
  finish_if_whole(sink);
}

void FrameReader::finish_if_whole(FrameSink& sink) {
  if (have_ != frame_.payload_bytes)
    return;
  if (frame_.checked)
    check_same(frame_.payload_check, check_);
  state_ = State::Head;
  have_ = 0;
  direct_ = {};
  sink.end(frame_);
}

}  // namespace trireme::net
