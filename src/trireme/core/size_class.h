// Which sizes of blocks there are. A request gets the smallest that holds it, so that a
// block serves many requests and the waste is bounded.
#pragma once
#include <bit>
#include <cstddef>

namespace trireme {

/// The smallest block, of which all are multiples: a cache line.
inline constexpr std::size_t kSizeClassStep = 64;

/// The largest request, far above any machine's memory: more is a wrong size, as a
/// negative number that became unsigned.
inline constexpr std::size_t kLargestRequest = std::size_t{1} << 46;

/// Up to 256 bytes a class for each 64, then four for each power of two.
inline constexpr std::size_t kSizeClasses = 4 + (46 - 8) * 4;

/// The class of a request of 1 to kLargestRequest bytes.
///
///     class_capacity(size_class_of(1000)) == 1024
constexpr std::size_t size_class_of(std::size_t bytes) noexcept {
  const std::size_t last = bytes - 1;
  if (last < 256) {
    return last / kSizeClassStep;
  }
  const auto log2 = static_cast<std::size_t>(std::bit_width(last)) - 1;
  return (log2 - 7) * 4 + ((last >> (log2 - 2)) & 3);
}

/// The bytes that a block of this class holds: 64, 128, 192, 256, 320, 384, 448, 512,
/// 640 and so on; all are multiples of the smallest.
constexpr std::size_t class_capacity(std::size_t size_class) noexcept {
  if (size_class < 4) {
    return (size_class + 1) * kSizeClassStep;
  }
  const std::size_t log2 = size_class / 4 + 7;
  return (std::size_t{5} + size_class % 4) << (log2 - 2);
}

}  // namespace trireme
