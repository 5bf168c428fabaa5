#include "trireme/data/file_bytes.h"

#include <array>

#include <gtest/gtest.h>

#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

constexpr std::array kBytes{
    std::byte{1}, std::byte{2}, std::byte{0}, std::byte{0}, std::byte{9}};

TEST(FileBytes, ReadsNumbersFromAnyPlace) {
  EXPECT_EQ(number_at<uint16_t>(kBytes, 0), 0x201);
  EXPECT_EQ(number_at<int32_t>(kBytes, 1), 0x09000002);
  EXPECT_THROW(number_at<int32_t>(kBytes, 2), InternalError);
  EXPECT_THROW(number_at<int64_t>(kBytes, 0), InternalError);
}

TEST(FileBytes, KnowsABeginning) {
  EXPECT_TRUE(begins_with(kBytes, "\x01\x02"));
  EXPECT_FALSE(begins_with(kBytes, "\x02"));
  EXPECT_FALSE(begins_with({}, "\x01"));
}

TEST(FileBytes, RefusesWithTheNameOfTheFile) {
  EXPECT_EQ(
      testing::message_of<InvalidArgument>([] { refuse_file("a\nb", "4, got ", 3); }),
      "[data] \"a\\nb\": expected 4, got 3; it is damaged, cut off, or of another "
      "format");
}

}  // namespace
}  // namespace trireme::data
