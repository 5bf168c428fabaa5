// Which parts of a piece of memory are in use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace trireme::rpc {

/// Shares out a range of bytes in blocks that begin at multiples of kBlock, lowest
/// place first: what was used a moment ago is used again, and is still in the caches.
/// It touches no memory. Not for two threads at once.
class ArenaBlocks {
 public:
  static constexpr std::uint64_t kBlock = 4096;

  explicit ArenaBlocks(std::uint64_t bytes);

  /// Where a block of so many bytes begins; nothing if there is no room.
  std::optional<std::uint64_t> take(std::uint64_t bytes);
  /// False for what is not the beginning of a block that was taken.
  bool give_back(std::uint64_t offset);

  /// What lies between the blocks: bytes by offset.
  const std::map<std::uint64_t, std::uint64_t>& free() const { return free_; }
  std::size_t taken() const { return taken_.size(); }
  std::uint64_t taken_bytes() const { return taken_bytes_; }

 private:
  std::map<std::uint64_t, std::uint64_t> free_, taken_;  // bytes by offset
  std::uint64_t taken_bytes_ = 0;
};

}  // namespace trireme::rpc
