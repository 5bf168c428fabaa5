#include "trireme/autograd/philox.h"

#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace trireme::autograd {
namespace {

constexpr uint32_t kFactorA = 0xD2511F53, kFactorC = 0xCD9E8D57;
constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;

uint32_t low(uint64_t x) {
  return static_cast<uint32_t>(x);
}
uint32_t high(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}

void group_plain(uint64_t key, uint64_t sample, uint64_t group, uint32_t* numbers) {
  const uint64_t first = 16 * group;
  for (uint32_t i = 0; i < 16; ++i) {
    const PhiloxCounter words = philox(
        {low(first) + i, high(first), low(sample), high(sample)},
        {low(key), high(key)});
    for (size_t word = 0; word < 4; ++word)
      numbers[16 * word + i] = words[word];
  }
}

#ifdef __x86_64__
// A counter's word lies in the lower half of 64 bits. What a product leaves in the
// upper half does no harm, since the next one does not look at it.

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i all4(uint64_t x) {
  return _mm256_set1_epi64x(static_cast<int64_t>(x));
}

[[gnu::target("avx2")]] void group_avx2(
    uint64_t key, uint64_t sample, uint64_t group, uint32_t* numbers) {
  const __m256i even = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
  const uint64_t first = 16 * group;
  for (uint32_t part = 0; part < 16; part += 4) {
    __m256i a = _mm256_add_epi64(all4(first + part), _mm256_set_epi64x(3, 2, 1, 0));
    __m256i b = all4(high(first)), c = all4(sample), d = all4(high(sample));
    uint32_t key0 = low(key), key1 = high(key);
    for (int round = 0; round < 10; ++round, key0 += kStep0, key1 += kStep1) {
      const __m256i left = _mm256_mul_epu32(a, all4(kFactorA));
      const __m256i right = _mm256_mul_epu32(c, all4(kFactorC));
      a = _mm256_srli_epi64(right, 32) ^ b ^ all4(key0);
      c = _mm256_srli_epi64(left, 32) ^ d ^ all4(key1);
      b = right;
      d = left;
    }
    const __m256i words[] = {a, b, c, d};
    for (uint32_t i = 0; i < 4; ++i) {
      const __m256i packed = _mm256_permutevar8x32_epi32(words[i], even);
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(numbers + 16 * i + part),
          _mm256_castsi256_si128(packed));
    }
  }
}
#endif

std::vector<PhiloxGroup> find_groups() {
  std::vector<PhiloxGroup> found;
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2"))
    found.push_back(group_avx2);
#endif
  found.push_back(group_plain);
  return found;
}

}  // namespace

PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{kFactorA} * counter[0];
    const uint64_t right = uint64_t{kFactorC} * counter[2];
    counter = {
        high(right) ^ counter[1] ^ key[0],
        low(right),
        high(left) ^ counter[3] ^ key[1],
        low(left)};
    key = {key[0] + kStep0, key[1] + kStep1};
  }
  return counter;
}

std::span<const PhiloxGroup> philox_groups() {
  static const std::vector<PhiloxGroup> groups = find_groups();
  return groups;
}

}  // namespace trireme::autograd
