// What workers send to each other.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme::rpc {

/// Memory that travels as it is, such as a tensor's elements.
struct Part {
  std::span<std::byte> bytes;
  /// Holds the memory: until all of it is sent, or as long as a receiver uses it.
  std::shared_ptr<const void> keep;
};

/// One message. A packet that was received owns its parts alone: they may be written
/// to. They begin at multiples of 64.
struct Packet {
  std::string head;
  std::vector<Part> parts;
};

}  // namespace trireme::rpc
