#include "trireme/net/checksum.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trireme::net {
namespace {

// The polynomial with its bits reversed, as the CPU's instruction has it.
constexpr std::uint32_t kPolynomial = 0x82F63B78;

constexpr std::array<std::uint32_t, 256> byte_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto kByteTable = byte_table();

std::uint32_t add_byte(std::uint32_t crc, unsigned char byte) {
  return (crc >> 8) ^ kByteTable[(crc ^ byte) & 0xff];
}

#if defined(__x86_64__)
// The instruction takes three cycles but can start every cycle, so three runs of bytes
// go side by side. Their registers are joined by a table that says what a register
// becomes when a run's length of zeros follows it: that is linear, so a byte at a time.
constexpr std::size_t kRun = 256;
using ShiftTable = std::array<std::array<std::uint32_t, 256>, 4>;

ShiftTable shift_table() {
  ShiftTable table{};
  for (std::size_t byte = 0; byte < 4; ++byte)
    for (std::uint32_t value = 0; value < 256; ++value) {
      std::uint32_t crc = value << (8 * byte);
      for (std::size_t i = 0; i < kRun; ++i)
        crc = add_byte(crc, 0);
      table[byte][value] = crc;
    }
  return table;
}

std::uint32_t shifted(const ShiftTable& table, std::uint64_t crc) {
  return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^
         table[2][(crc >> 16) & 0xff] ^ table[3][(crc >> 24) & 0xff];
}

std::uint64_t word_at(const unsigned char* data) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t add_bytes(
    std::uint32_t start, const unsigned char* data, std::size_t size) {
  static const ShiftTable table = shift_table();
  std::uint64_t crc = start;
  for (; size >= 3 * kRun; size -= 3 * kRun, data += 3 * kRun) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kRun; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(data + i));
      second = _mm_crc32_u64(second, word_at(data + kRun + i));
      third = _mm_crc32_u64(third, word_at(data + 2 * kRun + i));
    }
    crc = shifted(table, crc) ^ second;
    crc = shifted(table, crc) ^ third;
  }
  for (; size >= 8; size -= 8, data += 8)
    crc = _mm_crc32_u64(crc, word_at(data));
  auto last = static_cast<std::uint32_t>(crc);
  for (; size > 0; --size, ++data)
    last = _mm_crc32_u8(last, *data);
  return last;
}

// x to the power of `bits` modulo the polynomial, as the carry-less product wants it.
std::uint64_t power_of_x(int bits) {
  std::uint32_t power = 0x80000000;
  for (int i = 0; i < bits; ++i)
    power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  return std::uint64_t{power} << 1;
}

// Moves a window of 256 bytes over the data: what it leaves behind is folded into what
// comes, by a product that changes no remainder. The window's own checksum is then that
// of everything. Reads one stream, as fast as memory gives it.
constexpr std::size_t kWindow = 256;
__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) std::uint32_t fold_bytes(
    std::uint32_t start, const unsigned char* data, std::size_t size) {
  static const auto low = static_cast<long long>(power_of_x(8 * kWindow + 32));
  static const auto high = static_cast<long long>(power_of_x(8 * kWindow - 32));
  const __m512i factors = _mm512_set_epi64(high, low, high, low, high, low, high, low);
  __m512i window[4];
  for (int i = 0; i < 4; ++i)
    window[i] = _mm512_loadu_si512(data + 64 * i);
  window[0] = _mm512_xor_si512(
      window[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(start))));
  for (data += kWindow, size -= kWindow; size >= kWindow;
       data += kWindow, size -= kWindow)
    for (int i = 0; i < 4; ++i)
      window[i] = _mm512_ternarylogic_epi64(
          _mm512_clmulepi64_epi128(window[i], factors, 0x00),
          _mm512_clmulepi64_epi128(window[i], factors, 0x11),
          _mm512_loadu_si512(data + 64 * i),
          0x96);  // all three xored
  alignas(64) unsigned char last[kWindow];
  for (int i = 0; i < 4; ++i)
    _mm512_store_si512(last + 64 * i, window[i]);
  return add_bytes(add_bytes(0, last, kWindow), data, size);
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes)
    crc = add_byte(crc, static_cast<unsigned char>(byte));
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  static const bool has_fold = has_instruction && __builtin_cpu_supports("avx512f") &&
                               __builtin_cpu_supports("vpclmulqdq");
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (has_fold && bytes.size() >= 4 * kWindow)
    return ~fold_bytes(~before, data, bytes.size());
  if (has_instruction)
    return ~add_bytes(~before, data, bytes.size());
#endif
  return crc32c_by_table(bytes, before);
}

}  // namespace trireme::net
