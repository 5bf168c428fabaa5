#include "trireme/net/sha256.h"

#include <algorithm>
#include <bit>
#include <string.h>  // explicit_bzero

namespace trireme::net {
namespace {

constexpr std::size_t kBlock = 64;

constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

// What is known of the bytes so far, wiped at the end.
struct Sha256State {
  std::array<std::uint32_t, 8> hash = {
      0x6a09e667,
      0xbb67ae85,
      0x3c6ef372,
      0xa54ff53a,
      0x510e527f,
      0x9b05688c,
      0x1f83d9ab,
      0x5be0cd19};
  std::array<std::uint32_t, 64> words = {};
  std::array<std::uint32_t, 8> work = {};
  std::array<std::byte, kBlock> tail = {};

  ~Sha256State() { ::explicit_bzero(this, sizeof *this); }

  void expand(const std::byte* block) {
    for (std::size_t i = 0; i < 16; ++i) {
      words[i] = 0;
      for (std::size_t j = 0; j < 4; ++j)
        words[i] = words[i] << 8 | std::to_integer<std::uint32_t>(block[4 * i + j]);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] +
                 (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
                 (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
  }

  void take(const std::byte* block) {
    expand(block);
    work = hash;
    auto& [a, b, c, d, e, f, g, h] = work;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t first =
          h + kRounds[i] + words[i] + ((e & f) ^ (~e & g)) +
          (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25));
      const std::uint32_t second =
          ((a & b) ^ (a & c) ^ (b & c)) +
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    for (std::size_t i = 0; i < 8; ++i)
      hash[i] += work[i];
  }
};

}  // namespace

std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes) {
  Sha256State state;
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock))
    state.take(bytes.data());
  // The end: a bit that is set, zeros, and the length in the last eight bytes.
  std::copy(bytes.begin(), bytes.end(), state.tail.begin());
  state.tail[bytes.size()] = std::byte{0x80};
  if (bytes.size() >= kBlock - 8) {
    state.take(state.tail.data());
    state.tail.fill(std::byte{0});
  }
  for (std::size_t i = 0; i < 8; ++i)
    state.tail[kBlock - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  state.take(state.tail.data());
  std::array<std::uint8_t, 32> digest;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state.hash[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

}  // namespace trireme::net
