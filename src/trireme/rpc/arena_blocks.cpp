#include "trireme/rpc/arena_blocks.h"

#include <algorithm>
#include <iterator>

namespace trireme::rpc {

ArenaBlocks::ArenaBlocks(std::uint64_t bytes) {
  if (bytes >= kBlock)
    free_[0] = bytes / kBlock * kBlock;
}

std::optional<std::uint64_t> ArenaBlocks::take(std::uint64_t bytes) {
  if (bytes > std::uint64_t{1} << 62)
    return std::nullopt;
  const std::uint64_t size = std::max(kBlock, (bytes + kBlock - 1) / kBlock * kBlock);
  const auto found = std::find_if(
      free_.begin(), free_.end(), [&](const auto& one) { return one.second >= size; });
  if (found == free_.end())
    return std::nullopt;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > size)
    free_[offset + size] = room - size;
  taken_[offset] = size;
  taken_bytes_ += size;
  return offset;
}

bool ArenaBlocks::give_back(std::uint64_t offset) {
  const auto found = taken_.find(offset);
  if (found == taken_.end())
    return false;
  const std::uint64_t size = found->second;
  taken_.erase(found);
  taken_bytes_ -= size;
  auto here = free_.emplace(offset, size).first;
  if (const auto next = std::next(here);
      next != free_.end() && here->first + here->second == next->first) {
    here->second += next->second;
    free_.erase(next);
  }
  if (here != free_.begin()) {
    const auto before = std::prev(here);
    if (before->first + before->second == here->first) {
      before->second += here->second;
      free_.erase(here);
    }
  }
  return true;
}

}  // namespace trireme::rpc
