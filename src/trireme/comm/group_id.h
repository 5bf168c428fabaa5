// Numbers that tell the groups of a world apart.
#pragma once
#include <cstdint>

namespace trireme::comm {

/// The id of the group that split number `split` of group `parent` gives to `color`:
/// all members compute the same, and different groups almost surely different ones. 0
/// is the world itself.
constexpr uint32_t child_group_id(uint32_t parent, uint32_t split, int color) {
  uint64_t x = (uint64_t{parent} << 32 | split) * 0x9e3779b97f4a7c15ULL;
  x ^= static_cast<uint64_t>(color) + 0x7f4a7c15ULL + (x >> 29);
  x *= 0xbf58476d1ce4e5b9ULL;
  return static_cast<uint32_t>(x >> 32) | 1;
}

}  // namespace trireme::comm
