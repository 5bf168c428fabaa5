#include "trireme/net/crc32.h"

#include <string>

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

TEST(Crc32, IsTheOneOfZlib) {
  EXPECT_EQ(crc32(""), 0u);
  EXPECT_EQ(crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(crc32("The quick brown fox jumps over the lazy dog"), 0x414FA339u);
}

TEST(Crc32, FindsEveryFlippedBit) {
  const std::string good = "a record of the store";
  for (std::size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << i % 8));
    EXPECT_NE(crc32(bad), crc32(good));
  }
}

}  // namespace
}  // namespace trireme::net
