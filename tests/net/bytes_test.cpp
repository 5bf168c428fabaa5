#include "trireme/net/bytes.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "refusal.h"
#include "trireme/core/error.h"

namespace trireme::net {
namespace {

std::string sample_bytes() {
  return ByteWriter()
      .u8(0xfe)
      .u16(0xfedc)
      .u32(0xfedcba98)
      .u64(0xfedcba9876543210)
      .i64(std::numeric_limits<std::int64_t>::min())
      .flag(true)
      .string(std::string("a\0b\xff", 4))
      .string("")
      .take();
}

TEST(Bytes, ComeBackAsTheyWere) {
  const std::string bytes = sample_bytes();
  ByteReader reader(bytes, "a sample");
  EXPECT_EQ(reader.left(), 1u + 2 + 4 + 8 + 8 + 1 + 4 + 4 + 4);
  EXPECT_EQ(reader.u8(), 0xfe);
  EXPECT_EQ(reader.u16(), 0xfedc);
  EXPECT_EQ(reader.u32(), 0xfedcba98);
  EXPECT_EQ(reader.u64(), 0xfedcba9876543210);
  EXPECT_EQ(reader.i64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(reader.flag());
  EXPECT_EQ(reader.string(4), std::string("a\0b\xff", 4));
  EXPECT_EQ(reader.view(0), "");
  EXPECT_EQ(reader.left(), 0u);
  reader.expect_end();
}

TEST(Bytes, AreNoTruthValueAboveOne) {
  EXPECT_FALSE(ByteReader(std::string_view("\0", 1), "a sample").flag());
  EXPECT_EQ(
      refusal_of([] { ByteReader("\2", "a sample").flag(); }),
      "[net] expected 0 or 1 in a sample, got 2; the bytes are damaged, or of another "
      "version");
}

TEST(Bytes, AreLittleEndianOnEveryMachine) {
  EXPECT_EQ(ByteWriter().u32(0x04030201).bytes(), "\x01\x02\x03\x04");
  EXPECT_EQ(ByteWriter().string("xy").bytes(), std::string("\2\0\0\0xy", 6));
}

TEST(Bytes, TakeLeavesAnEmptyWriter) {
  ByteWriter writer;
  writer.u8(1);
  EXPECT_EQ(writer.take().size(), 1u);
  EXPECT_EQ(writer.bytes(), "");
}

TEST(Bytes, CutAnywhereAreRefused) {
  const std::string bytes = sample_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader reader(std::string_view(bytes).substr(0, size), "a sample");
    EXPECT_THROW(
        {
          reader.u8();
          reader.u16();
          reader.u32();
          reader.u64();
          reader.i64();
          reader.flag();
          reader.string(100);
          reader.string(100);
        },
        InvalidArgument)
        << size;
  }
}

TEST(Bytes, ErrorsSayWhatAndWhere) {
  EXPECT_EQ(
      refusal_of([] {
        ByteReader reader("abc", "a greeting");
        reader.u8();
        reader.u32();
      }),
      "[net] expected 4 more bytes in a greeting after 1, got 2; the bytes were cut "
      "short");
  EXPECT_EQ(
      refusal_of([] { ByteReader("abc", "a greeting").expect_end(); }),
      "[net] expected the end of a greeting after 0 bytes, got 3 more; the bytes are "
      "damaged, or of another version");
}

TEST(Bytes, AStringAboveItsLimitIsRefusedBeforeItIsTaken) {
  const std::string bytes = ByteWriter().u32(0xffffffff).take();
  EXPECT_EQ(
      refusal_of([&] { ByteReader(bytes, "a greeting").string(16); }),
      "[net] expected at most 16 bytes for a string in a greeting, got 4294967295; the "
      "bytes are damaged, or of another version");
  // A limit above what is there does not help either.
  EXPECT_THROW(
      ByteReader(bytes, "a greeting").string(std::size_t{1} << 40), InvalidArgument);
}

}  // namespace
}  // namespace trireme::net
