#include "trireme/net/checksum.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/mix.h"

namespace trireme::net {
namespace {

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(mix(i + kMixStep));
  return bytes;
}

// RFC 3720, B.4.
TEST(Checksum, KnowsTheVectorsOfItsStandard) {
  EXPECT_EQ(crc32c(std::string_view("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43u);
}

TEST(Checksum, IsTheSameWithAndWithoutTheInstruction) {
  for (const std::size_t size :
       {0, 1, 7, 8, 9, 767, 768, 769, 1023, 1024, 1025, 1280, 1281, 6145, 100003}) {
    const auto bytes = numbered(size);
    EXPECT_EQ(crc32c(bytes), crc32c_by_table(bytes)) << size;
  }
}

TEST(Checksum, GoesOnFromWhatCameBefore) {
  const auto bytes = numbered(30000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 768, 1024, 4095, 29999, 30000})
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
}

}  // namespace
}  // namespace trireme::net
