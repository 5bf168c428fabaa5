// What launchers tell each other arrives as it was meant, or not at all.
#include "trireme/launch/word.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

TEST(Word, GoesThereAndBack) {
  const Word go{
      .kind = Word::Kind::Go,
      .place = {
          .node = 1,
          .nodes = 3,
          .first_rank = 2,
          .ranks_in_all = 7,
          .attempt = 4,
          .max_restarts = 9,
          .master_port = 4711,
          .run_id = "job 7",
          .master_addr = "node0",
          .store = "tcp://node0:4712",
          .log_name = "job 7_a8Fk2Q",
          .job_key = "0123"}};
  EXPECT_EQ(decode_word(encode(go)).place, go.place);
  const Word join{
      .kind = Word::Kind::Join,
      .card = {
          .wish = -1,
          .ranks = 4,
          .least = 2,
          .most = 3,
          .host = "b",
          .run_id = "x",
          .token = "t"}};
  EXPECT_EQ(decode_word(encode(join)).card, join.card);
  const Word failed{
      .kind = Word::Kind::Failed,
      .text = "rank 3",
      .failure = {
          .rank = 3,
          .ending = {.signal = 11, .core_dumped = true},
          .last_lines = "no luck"}};
  const Word read = decode_word(encode(failed));
  EXPECT_EQ(read.text, "rank 3");
  EXPECT_EQ(read.failure.rank, 3);
  EXPECT_EQ(read.failure.ending, failed.failure.ending);
  EXPECT_EQ(read.failure.last_lines, "no luck");
  const Word stop{.kind = Word::Kind::Stopping, .number = 15, .text = "who"};
  EXPECT_EQ(decode_word(encode(stop)).number, 15);
}

TEST(Word, IsToldFromWhatElseAKeeperSends) {
  EXPECT_TRUE(is_word(encode({})));
  EXPECT_FALSE(is_word("outcome 0"));
  EXPECT_FALSE(is_word("[launch] expected"));
  EXPECT_FALSE(is_word(""));
}

TEST(Word, ThatIsLongIsCutSoThatItPasses) {
  const std::string much(100'000, 'x');
  const std::string bytes = encode(
      {.kind = Word::Kind::Failed, .text = much, .failure = {.last_lines = much}});
  EXPECT_LT(bytes.size(), kMostPacket);
  EXPECT_LT(decode_word(bytes).text.size(), much.size());
}

TEST(Word, ThatIsCutOrWrongIsRefused) {
  for (const Word& word :
       {Word{.kind = Word::Kind::Go, .place = {.run_id = "job"}},
        Word{.kind = Word::Kind::Join, .card = {.host = "b"}},
        Word{.kind = Word::Kind::Failed, .failure = {.last_lines = "line"}}}) {
    const std::string bytes = encode(word);
    for (size_t length = 0; length < bytes.size(); ++length)
      EXPECT_THROW(decode_word(bytes.substr(0, length)), InvalidArgument) << length;
    EXPECT_THROW(decode_word(bytes + "x"), InvalidArgument);
  }
  EXPECT_THROW(decode_word(std::string("\1\x7f", 2)), InvalidArgument);
  EXPECT_THROW(
      decode_word(encode({.kind = Word::Kind::Join, .card = {.ranks = 0}})),
      InvalidArgument);
  EXPECT_THROW(
      decode_word(encode({.kind = Word::Kind::Go, .place = {.first_rank = -1}})),
      InvalidArgument);
}

}  // namespace
}  // namespace trireme::launch
