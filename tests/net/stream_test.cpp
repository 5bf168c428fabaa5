#include "trireme/net/stream.h"

#include <climits>
#include <csignal>

#include <gtest/gtest.h>

#include "stream_pair.h"

namespace trireme::net {
namespace {

StreamPair plain_pair(SocketPair sockets = unix_sockets()) {
  return {
      plain_stream(std::move(sockets.first)), plain_stream(std::move(sockets.second))};
}

TEST(PlainStream, NeedsNoHandshake) {
  StreamPair pair = plain_pair();
  EXPECT_TRUE(shake_hands(pair).through());
  pair.dialer->check_name("anybody");
  EXPECT_TRUE(they_talk(pair));
}

TEST(PlainStream, GathersAndScatters) {
  StreamPair pair = plain_pair();
  const std::string first = "head", second = "and", third = "body";
  const std::vector<iovec> out{
      {nullptr, 0}, part_of(first), part_of(second), {nullptr, 0}, part_of(third)};
  EXPECT_EQ(pair.dialer->write(out).bytes, 11U);
  char a[5] = {}, b[20] = {};
  const std::vector<iovec> in{{nullptr, 0}, {a, 4}, {b, sizeof b}};
  const Io io = pair.acceptor->read(in);
  EXPECT_EQ(io.state, Io::State::Done);
  EXPECT_EQ(io.bytes, 11U);
  EXPECT_STREQ(a, "head");
  EXPECT_STREQ(b, "andbody");
}

TEST(PlainStream, TakesMorePartsThanTheSystemDoes) {
  StreamPair pair = plain_pair();
  std::string letter = "x";
  const std::vector<iovec> many(3 * IOV_MAX, part_of(letter));
  std::size_t sent = 0;
  while (sent < many.size())
    sent += pair.dialer->write(std::span(many).subspan(sent)).bytes;
  EXPECT_EQ(take(*pair.acceptor).size(), many.size());
  std::vector<iovec> front_is_empty(2 * IOV_MAX, iovec{nullptr, 0});
  front_is_empty.push_back(part_of(letter));
  EXPECT_EQ(pair.dialer->write(front_is_empty).bytes, 1U);
  EXPECT_EQ(pair.acceptor->read(front_is_empty).bytes, 1U);
}

TEST(PlainStream, IsNotClosedBecauseNothingIsAskedFor) {
  StreamPair pair = plain_pair();
  put(*pair.dialer, "x");
  const Io io = pair.acceptor->read({});
  EXPECT_EQ(io.state, Io::State::Done);
  EXPECT_EQ(io.bytes, 0U);
  EXPECT_EQ(pair.acceptor->write({}).state, Io::State::Done);
}

TEST(PlainStream, BlocksAndGoesOn) {
  StreamPair pair = plain_pair(tcp_sockets());
  char byte = 0;
  const iovec one{&byte, 1};
  EXPECT_EQ(pair.acceptor->read({&one, 1}).state, Io::State::Blocked);
  const std::string bulk(std::size_t{64} << 20, 'b');
  const iovec part = part_of(bulk);
  const Io first = pair.dialer->write({&part, 1});
  EXPECT_EQ(first.state, Io::State::Done);
  EXPECT_LT(first.bytes, bulk.size());
  while (pair.dialer->write({&part, 1}).state == Io::State::Done) {
  }
  EXPECT_EQ(pair.dialer->trouble(), "");
  EXPECT_FALSE(take(*pair.acceptor, std::size_t{64} << 20).empty());
  ASSERT_TRUE(wait_for(pair.dialer->fd(), POLLOUT));
  EXPECT_EQ(pair.dialer->write({&part, 1}).state, Io::State::Done);
}

TEST(PlainStream, EndsWithAGoodbye) {
  StreamPair pair = plain_pair();
  put(*pair.dialer, "last");
  pair.dialer->shut_down();
  EXPECT_EQ(take(*pair.acceptor), "last");
  char byte = 0;
  const iovec one{&byte, 1};
  EXPECT_EQ(pair.acceptor->read({&one, 1}).state, Io::State::Closed);
  EXPECT_EQ(pair.acceptor->trouble(), "");
}

TEST(PlainStream, SaysWhyItIsClosedWithoutASignal) {
  StreamPair pair = plain_pair();
  ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);  // it would kill this test
  pair.acceptor.reset();
  const std::string bytes = "x";
  const iovec part = part_of(bytes);
  EXPECT_EQ(pair.dialer->write({&part, 1}).state, Io::State::Closed);
  EXPECT_EQ(pair.dialer->trouble(), "Broken pipe (errno 32)");
}

}  // namespace
}  // namespace trireme::net
