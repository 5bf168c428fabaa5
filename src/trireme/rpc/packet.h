// What workers send to each other.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme::rpc {

/// What a packet is for.
enum class PacketKind : std::uint8_t { Request, Response, Control };

/// Memory that travels as it is, such as a tensor's elements.
struct Part {
  std::span<std::byte> bytes;
  /// Holds the memory: until all of it is sent, or as long as a receiver uses it.
  std::shared_ptr<const void> keep;
};

/// One message. A packet that was received owns its parts alone: they may be written
/// to. They begin at multiples of 64.
struct Packet {
  PacketKind kind = PacketKind::Control;
  /// The call that a request or a response belongs to.
  std::uint64_t number = 0;
  /// How long the sender will wait, from when it sent; zero where it does not say.
  std::chrono::milliseconds timeout{0};
  std::string head;
  std::vector<Part> parts;
};

}  // namespace trireme::rpc
