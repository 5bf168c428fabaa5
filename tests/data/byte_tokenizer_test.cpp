#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/data/tokenizer.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;

TEST(ByteTokenizer, EachByteIsAToken) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->kind(), "bytes");
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
  EXPECT_EQ(tokenizer->encode("aé"), (std::vector<int64_t>{97, 0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->encode(""), std::vector<int64_t>{});
}

TEST(ByteTokenizer, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 10000; ++i)
    bytes += static_cast<char>(i * 37 % 256);
  const auto tokenizer = byte_tokenizer();
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes);
}

TEST(ByteTokenizer, RefusesWhatIsNoByte) {
  for (const int64_t token : {int64_t{-1}, int64_t{256}})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          byte_tokenizer()->decode(std::vector<int64_t>{65, token});
        }),
        text("expected bytes, tokens from 0 to 255, got ", token)));
}

TEST(ByteTokenizer, IsAlsoATokenizerFile) {
  const auto file = nlohmann::json::parse(byte_tokenizer()->to_json());
  EXPECT_EQ(file["model"]["type"], "BPE");
  EXPECT_EQ(file["model"]["vocab"].size(), 256U);
  EXPECT_EQ(file["model"]["vocab"]["Ġ"], 32);
}

}  // namespace
}  // namespace trireme::data
