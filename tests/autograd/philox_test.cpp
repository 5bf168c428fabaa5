#include "trireme/autograd/philox.h"

#include <vector>

#include <gtest/gtest.h>

namespace trireme::autograd {
namespace {

TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(
      philox({0, 0, 0, 0}, {0, 0}),
      (PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(
      philox(
          {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF}),
      (PhiloxCounter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(
      philox(
          {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
      (PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, GivesTheSameOnEveryKindOfMachine) {
  const uint64_t key = 0xFEDCBA9876543210;
  for (const PhiloxGroup draw : philox_groups())
    for (const uint64_t sample : {0UL, 7UL, 0x123456789AUL, ~0UL})
      for (const uint64_t group :
           {0UL, 1UL, 0x0FFFFFFFUL, 0x10000000UL, 0x1FFFFFFFFUL}) {
        std::vector<uint32_t> numbers(64);
        draw(key, sample, group, numbers.data());
        for (uint32_t i = 0; i < 64; ++i) {
          const uint64_t counter = 16 * group + i % 16;
          const PhiloxCounter words = philox(
              {static_cast<uint32_t>(counter),
               static_cast<uint32_t>(counter >> 32),
               static_cast<uint32_t>(sample),
               static_cast<uint32_t>(sample >> 32)},
              {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
          ASSERT_EQ(numbers[i], words[i / 16]) << sample << ", " << group << ", " << i;
        }
      }
}

}  // namespace
}  // namespace trireme::autograd
