#include "trireme/net/store_log.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.h"
#include "trireme/net/bytes.h"
#include "trireme/net/checksum.h"

namespace trireme::net {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

Records parsed(StoreLogParser& parser, std::string_view bytes) {
  Records records;
  parser.feed(bytes, [&](std::string key, StoreValue value) {
    records.emplace_back(std::move(key), value ? *value : "(erased)");
  });
  return records;
}

const Records kThree = {{"a", "1"}, {std::string("\0", 1), ""}, {"a", "(erased)"}};

std::string three_records() {
  return encode_store_record("a", store_value("1")) +
         encode_store_record(std::string("\0", 1), store_value("")) +
         encode_store_record("a", nullptr);
}

TEST(StoreLog, GivesBackItsRecords) {
  StoreLogParser parser("log");
  EXPECT_EQ(parsed(parser, three_records()), kThree);
  EXPECT_FALSE(parser.torn());
  EXPECT_EQ(parser.good_bytes(), kStoreStampBytes + three_records().size());
}

TEST(StoreLog, TakesPiecesOfAnySize) {
  const std::string bytes = three_records();
  for (std::size_t cut = 1; cut < 8; ++cut) {
    StoreLogParser parser("log");
    Records records;
    for (std::size_t at = 0; at < bytes.size(); at += cut)
      for (auto& record : parsed(parser, std::string_view(bytes).substr(at, cut)))
        records.push_back(std::move(record));
    EXPECT_EQ(records, kThree);
    EXPECT_FALSE(parser.torn());
  }
}

TEST(StoreLog, ATornEndIsNoDamage) {
  const std::string bytes = three_records();
  const std::string more = encode_store_record("long", store_value("more"));
  for (std::size_t size = 1; size < more.size(); ++size) {
    StoreLogParser parser("log");
    EXPECT_EQ(parsed(parser, bytes + more.substr(0, size)), kThree);
    EXPECT_TRUE(parser.torn());
    EXPECT_EQ(parser.good_bytes(), kStoreStampBytes + bytes.size());
    parser.drop_torn();
    EXPECT_EQ(parsed(parser, more), (Records{{"long", "more"}}));
  }
}

TEST(StoreLog, AFlippedByteNeverPasses) {
  const std::string bytes = three_records();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    StoreLogParser parser("log");
    EXPECT_THROW(parsed(parser, bad), InvalidArgument) << at;
  }
}

TEST(StoreLog, DamageIsNamedWithItsPlace) {
  std::string bad = three_records();
  bad.back() = '!';
  StoreLogParser parser("/tmp/log.1");
  EXPECT_EQ(
      refusal_of([&] { parsed(parser, bad); }),
      "[net] expected an intact record at byte 69 of \"/tmp/log.1\", got a wrong "
      "checksum; the file is damaged: remove the store and start the job again");
}

// A record with good checksums and bad content: written by another program.
std::string record_of(const std::string& payload, std::uint32_t size) {
  ByteWriter head;
  head.u32(size).u32(crc32c(payload));
  head.u32(crc32c(head.bytes()));
  return head.take() + payload;
}

TEST(StoreLog, ContentIsCheckedToo) {
  const auto refused = [](const std::string& payload) {
    const auto size = static_cast<std::uint32_t>(payload.size());
    StoreLogParser parser("log");
    return refusal_of([&] { parsed(parser, record_of(payload, size)); }) !=
           "nothing was thrown";
  };
  EXPECT_FALSE(refused(ByteWriter().u8(2).string("k").take()));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(ByteWriter().u8(3).string("k").take()));
  EXPECT_TRUE(refused(ByteWriter().u8(2).string("k").u8(0).take()));
  EXPECT_TRUE(refused(ByteWriter().u8(1).string("k").u32(7).take()));
  EXPECT_TRUE(refused(ByteWriter().u8(2).string(std::string(2000, 'k')).take()));
  StoreLogParser parser("log");
  EXPECT_THROW(parsed(parser, record_of("", 1u << 30)), InvalidArgument);
}

TEST(StoreLog, StampsTellWhatAFileIs) {
  const std::string stamp = encode_store_stamp(77);
  ASSERT_EQ(stamp.size(), kStoreStampBytes);
  EXPECT_EQ(decode_store_stamp(stamp, "head"), 77u);
  for (std::size_t at = 0; at < stamp.size(); ++at) {
    std::string bad = stamp;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_THROW(decode_store_stamp(bad, "head"), InvalidArgument) << at;
    EXPECT_THROW(decode_store_stamp(stamp.substr(0, at), "head"), InvalidArgument);
  }
  EXPECT_EQ(
      refusal_of([] { decode_store_stamp(std::string(24, 'x'), "a/head"); }),
      "[net] expected the file of a store at \"a/head\", got another kind of file; "
      "give "
      "the store a folder of its own");
}

}  // namespace
}  // namespace trireme::net
