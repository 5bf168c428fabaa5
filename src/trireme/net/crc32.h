// The checksum of what lies in files: finds torn and flipped bytes, not forgeries.
#pragma once
#include <cstdint>
#include <string_view>

namespace trireme::net {

/// The CRC-32 of IEEE 802.3, as zlib and gzip have it.
std::uint32_t crc32(std::string_view bytes);

}  // namespace trireme::net
