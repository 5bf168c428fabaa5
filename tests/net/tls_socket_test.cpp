#include "trireme/net/tls_socket.h"

#include <csignal>

#include <gtest/gtest.h>

#include "stream_pair.h"

namespace trireme::net {
namespace {

class TlsSockets : public ::testing::Test {
 protected:
  std::string arrived(std::size_t most = std::size_t{1} << 20) const {
    std::string bytes(most, '\0');
    const ssize_t got = ::recv(other_.get(), bytes.data(), most, MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

  SocketPair pair_ = unix_sockets();
  FileDescriptor other_{pair_.second.release()};
  TlsSocket socket_{std::move(pair_.first)};
  BioMethodPtr method_ = TlsSocket::make_method();
  BioPtr bio_ = socket_.make_bio(method_.get());
};

TEST_F(TlsSockets, GatherAndSend) {
  EXPECT_EQ(BIO_write(bio_.get(), "one", 3), 3);
  EXPECT_EQ(BIO_write(bio_.get(), "two", 3), 3);
  EXPECT_EQ(BIO_flush(bio_.get()), 1);
  EXPECT_EQ(socket_.gathered(), 6U);
  EXPECT_EQ(arrived(), "");
  EXPECT_TRUE(socket_.flush());
  EXPECT_EQ(socket_.gathered(), 0U);
  EXPECT_EQ(arrived(), "onetwo");
  EXPECT_TRUE(socket_.flush());
}

TEST_F(TlsSockets, KeepWhatTheSocketDoesNotTake) {
  const int small = 1;
  ::setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  const std::string bytes(60'000, 'x');
  ASSERT_EQ(BIO_write(bio_.get(), bytes.data(), 60'000), 60'000);
  EXPECT_FALSE(socket_.flush());
  EXPECT_FALSE(socket_.broken());
  const std::size_t left = socket_.gathered();
  EXPECT_GT(left, 0U);
  // There is room behind it: what was sent makes way.
  EXPECT_EQ(BIO_write(bio_.get(), bytes.data(), 30'000), 30'000);
  std::size_t all = 0;
  while (socket_.gathered() > 0) {
    socket_.flush();
    all += arrived().size();
  }
  all += arrived().size();
  EXPECT_EQ(all, 90'000U);
}

// OpenSSL may be made to answer over and over by a peer that never reads.
TEST_F(TlsSockets, HoldNoMoreThanABatch) {
  const std::string bytes(16'000, 'x');
  int writes = 0;
  while (BIO_write(bio_.get(), bytes.data(), 16'000) == 16'000)
    ASSERT_LT(++writes, 20);
  EXPECT_TRUE(socket_.broken());
  EXPECT_NE(socket_.trouble(), "");
}

TEST_F(TlsSockets, ReadWhatIsThere) {
  char bytes[10];
  EXPECT_LE(BIO_read(bio_.get(), bytes, sizeof bytes), 0);
  EXPECT_TRUE(BIO_should_retry(bio_.get()));
  ASSERT_EQ(::send(other_.get(), "hello", 5, 0), 5);
  EXPECT_EQ(BIO_read(bio_.get(), bytes, 2), 2);
  EXPECT_EQ(BIO_read(bio_.get(), bytes, sizeof bytes), 3);
  ::shutdown(other_.get(), SHUT_WR);
  EXPECT_FALSE(BIO_eof(bio_.get()));
  EXPECT_LE(BIO_read(bio_.get(), bytes, sizeof bytes), 0);
  EXPECT_FALSE(BIO_should_retry(bio_.get()));
  EXPECT_TRUE(BIO_eof(bio_.get()));
  EXPECT_TRUE(socket_.ended());
  EXPECT_FALSE(socket_.broken());
  // The other way still goes.
  EXPECT_EQ(BIO_write(bio_.get(), "bye", 3), 3);
  EXPECT_TRUE(socket_.flush());
}

TEST_F(TlsSockets, BreakWithoutASignal) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);  // it would kill this test
  ::shutdown(other_.get(), SHUT_RDWR);
  EXPECT_EQ(BIO_write(bio_.get(), "one", 3), 3);
  EXPECT_FALSE(socket_.flush());
  EXPECT_TRUE(socket_.broken());
  EXPECT_EQ(socket_.trouble(), "Broken pipe (errno 32)");
}

}  // namespace
}  // namespace trireme::net
