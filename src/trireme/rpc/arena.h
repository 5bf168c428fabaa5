// Memory that two processes of one host share. It has no name, and ends with the last
// of them, however they end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "trireme/core/file_descriptor.h"
#include "trireme/net/bytes.h"
#include "trireme/rpc/process_place.h"

namespace trireme::rpc {

/// How another process finds an arena: the descriptor by which its maker has it open,
/// and what tells the file behind it from all others.
struct ArenaOffer {
  std::int32_t descriptor = -1;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  bool operator==(const ArenaOffer&) const = default;
};
void write_offer(net::ByteWriter& out, const ArenaOffer& offer);
ArenaOffer read_offer(net::ByteReader& in);

/// The memory, as one of the two sees it.
class Arena {
 public:
  /// A new one, of which nothing takes memory before it is used. Error if the system
  /// gives none.
  static std::shared_ptr<Arena> make(std::uint64_t bytes);
  /// The one that `maker`, whose processes this one must see, has offered. Error unless
  /// it is what the offer says, of this user, and can never shrink: then whatever lies
  /// in it can be read without a check.
  static std::shared_ptr<Arena> open(
      const ArenaOffer& offer, const ProcessPlace& maker);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  /// What the maker tells the other.
  ArenaOffer offer() const;
  /// Takes memory for a range; false if there is not enough. Then nothing may touch it,
  /// and release() gives back what it got.
  bool reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Gives the memory of a range back to the system.
  void release(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  Arena(FileDescriptor file, std::uint64_t bytes);

  FileDescriptor file_;  // the maker's alone
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::rpc
