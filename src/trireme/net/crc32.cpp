#include "trireme/net/crc32.h"

#include <array>

namespace trireme::net {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
    table[byte] = value;
  }
  return table;
}

constexpr auto kCrcTable = make_crc_table();

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t value = ~0u;
  for (const char byte : bytes)
    value = kCrcTable[(value ^ static_cast<unsigned char>(byte)) & 0xff] ^ (value >> 8);
  return ~value;
}

}  // namespace trireme::net
