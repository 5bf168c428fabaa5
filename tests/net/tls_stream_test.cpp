// What a TLS stream does with bytes, once it is through its handshake.
#include "trireme/net/tls_stream.h"

#include <csignal>
#include <random>
#include <thread>

#include "openssl_peer.h"
#include "stream_pair.h"
#include "trireme/net/record_cutter.h"
#include "trireme/testing/message.h"
#include "wire.h"

namespace trireme::net {
namespace {

const Security& any_security() {
  static const Security security = Security::job_key(JobKey::random());
  return security;
}

std::string random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

// As few bytes in the kernel as it allows.
SocketPair narrow_sockets() {
  SocketPair sockets = unix_sockets();
  const int least = 1;
  for (const auto* socket : {&sockets.first, &sockets.second})
    for (const int which : {SO_SNDBUF, SO_RCVBUF})
      ::setsockopt(socket->get(), SOL_SOCKET, which, &least, sizeof least);
  return sockets;
}

// What is left of some parts behind their first `bytes`.
std::vector<iovec> rest_behind(std::vector<iovec> parts, std::size_t bytes) {
  while (!parts.empty() && bytes >= parts.front().iov_len) {
    bytes -= parts.front().iov_len;
    parts.erase(parts.begin());
  }
  if (!parts.empty()) {
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + bytes;
    parts.front().iov_len -= bytes;
  }
  return parts;
}

// How many records a way has had, by their headers.
std::vector<std::size_t> record_sizes(const std::string& bytes) {
  std::vector<std::size_t> sizes;
  for (std::size_t at = 0; at + 5 <= bytes.size(); at += 5 + sizes.back())
    sizes.push_back(
        static_cast<unsigned char>(bytes[at + 3]) * 256U +
        static_cast<unsigned char>(bytes[at + 4]));
  return sizes;
}

TEST(TlsStream, ScattersWhatItReads) {
  StreamPair pair = connected_streams(any_security());
  put(*pair.dialer, "headbody");
  put(*pair.dialer, "tail");
  char a[5] = {}, b[3] = {}, c[20] = {};
  const std::vector<iovec> parts{{a, 4}, {nullptr, 0}, {b, 2}, {c, sizeof c}};
  const Io io = pair.acceptor->read(parts);
  EXPECT_EQ(io.state, Io::State::Done);
  EXPECT_EQ(io.bytes, 12U);
  EXPECT_STREQ(a, "head");
  EXPECT_STREQ(b, "bo");
  EXPECT_STREQ(c, "dytail");
  EXPECT_EQ(pair.acceptor->read(parts).state, Io::State::Blocked);
}

TEST(TlsStream, PutsSmallPartsIntoOneRecord) {
  Wire wire;
  StreamPair pair = make_streams(any_security(), any_security(), wire.ends());
  ASSERT_TRUE(shake_hands(pair, [&wire] { return wire.carry(); }).through());
  const std::size_t before = wire.sent_to_acceptor().size();
  const std::string head(64, 'h'), typed(100, 't'), body(std::size_t{64} << 10, 'b');
  const std::vector<iovec> parts{part_of(head), part_of(typed), part_of(body)};
  EXPECT_EQ(pair.dialer->write(parts).bytes, 164 + body.size());
  while (wire.carry()) {
  }
  // Each has a type of one byte and a tag of 16 bytes.
  EXPECT_EQ(
      record_sizes(wire.sent_to_acceptor().substr(before)),
      (std::vector<std::size_t>{164 + 17, 16401, 16401, 16401, 16401}));
  EXPECT_TRUE(take(*pair.acceptor) == head + typed + body);
}

// Each frame is written until the socket blocks, then from where it stopped; in between
// the other side reads a little.
TEST(TlsStream, WritesInPiecesOfAnySize) {
  std::mt19937 random(3);
  StreamPair pair = connected_streams(any_security(), narrow_sockets());
  std::string sent, received;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> frame(1 + random() % 5);
    for (std::string& part : frame)
      part = random_bytes(
          1 + (random() % 3 == 0 ? random() % 50'000 : random() % 200), random());
    std::vector<iovec> parts;
    std::size_t left = 0;
    for (const std::string& part : frame) {
      parts.push_back(part_of(part));
      left += part.size();
      sent += part;
    }
    for (int tries = 0; left > 0; ++tries) {
      ASSERT_LT(tries, 10'000);
      const Io io = pair.dialer->write(parts);
      ASSERT_NE(io.state, Io::State::Closed) << pair.dialer->trouble();
      ASSERT_LE(io.bytes, left);
      parts = rest_behind(parts, io.bytes);
      left -= io.bytes;
      received += take(*pair.acceptor, 1 + random() % 20'000);
    }
  }
  for (int tries = 0; received.size() < sent.size() && tries < 1000; ++tries)
    received += take(*pair.acceptor);
  EXPECT_TRUE(received == sent);
}

// A frame that has not been begun may be put back behind another one, as lanes do: no
// byte of it may have been encrypted.
TEST(TlsStream, LetsOtherFramesOvertakeWhereNoneHasBegun) {
  std::mt19937 random(4);
  StreamPair pair = connected_streams(any_security(), narrow_sockets());
  std::vector<std::string> waiting;
  for (int i = 0; i < 300; ++i)
    waiting.push_back(random_bytes(2 + random() % 9000, random()));
  std::string sent, received;
  std::size_t done_of_first = 0;
  for (int tries = 0; !waiting.empty(); ++tries) {
    ASSERT_LT(tries, 100'000);
    // All but the one that was begun change their order.
    std::shuffle(waiting.begin() + (done_of_first > 0 ? 1 : 0), waiting.end(), random);
    std::vector<iovec> parts;
    for (const std::string& frame : waiting)
      parts.push_back(part_of(frame));
    const Io io = pair.dialer->write(rest_behind(parts, done_of_first));
    ASSERT_NE(io.state, Io::State::Closed) << pair.dialer->trouble();
    done_of_first += io.bytes;
    while (!waiting.empty() && done_of_first >= waiting.front().size()) {
      sent += waiting.front();
      done_of_first -= waiting.front().size();
      waiting.erase(waiting.begin());
    }
    received += take(*pair.acceptor, 1 + random() % 9000);
  }
  received += take(*pair.acceptor, sent.size());
  EXPECT_TRUE(received == sent);
}

// Moves `out` there and reads until `expected` bytes have come, as an event loop would:
// after Blocked it waits for the socket and does nothing else.
std::string exchange(Stream& stream, const std::string& out, std::size_t expected) {
  std::string in(expected, '\0');
  std::size_t written = 0, filled = 0;
  while (written < out.size() || filled < expected) {
    bool moved = false;
    if (written < out.size()) {
      const iovec part{const_cast<char*>(out.data()) + written, out.size() - written};
      const Io io = stream.write({&part, 1});
      EXPECT_NE(io.state, Io::State::Closed) << stream.trouble();
      written += io.bytes;
      moved = io.state == Io::State::Done;
    }
    if (filled < expected) {
      const iovec part{in.data() + filled, expected - filled};
      const Io io = stream.read({&part, 1});
      EXPECT_NE(io.state, Io::State::Closed) << stream.trouble();
      filled += io.bytes;
      moved = moved || io.state == Io::State::Done;
    }
    const auto events = static_cast<short>(
        (written < out.size() ? POLLOUT : 0) | (filled < expected ? POLLIN : 0));
    if (!moved && !wait_for(stream.fd(), events)) {
      ADD_FAILURE() << "stuck at " << written << " and " << filled;
      break;
    }
  }
  return in;
}

TEST(TlsStreamRanks, MovesBulkBothWaysAtOnce) {
  StreamPair pair = connected_streams(any_security(), tcp_sockets());
  const std::string there = random_bytes(std::size_t{8} << 20, 1);
  const std::string back = random_bytes(std::size_t{8} << 20, 2);
  std::string arrived;
  std::thread other([&] { arrived = exchange(*pair.acceptor, back, there.size()); });
  EXPECT_TRUE(exchange(*pair.dialer, there, back.size()) == back);
  other.join();
  EXPECT_TRUE(arrived == there);
}

TEST(TlsStream, LeavesNothingInsideWhenItIsBlocked) {
  StreamPair pair = connected_streams(any_security());
  // Many records arrive at once; small reads must find them all without a new event.
  std::string sent;
  for (int i = 0; i < 60; ++i) {
    const std::string some = random_bytes(700, static_cast<unsigned>(i));
    put(*pair.dialer, some);
    sent += some;
  }
  std::string received;
  for (;;) {
    char bytes[111];
    const iovec part{bytes, sizeof bytes};
    const Io io = pair.acceptor->read({&part, 1});
    if (io.state != Io::State::Done)
      break;
    received.append(bytes, io.bytes);
  }
  EXPECT_TRUE(received == sent);
}

TEST(TlsStream, TakesNewKeysInTime) {
  StreamPair pair = connected_streams(any_security());
  for (Stream* stream : {pair.dialer.get(), pair.acceptor.get()})
    dynamic_cast<TlsStream&>(*stream).set_records_per_key(3);
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(they_talk(pair)) << i;
}

TEST(TlsStream, ReallyTakesNewKeys) {
  Wire wire;
  StreamPair pair = make_streams(any_security(), any_security(), wire.ends());
  ASSERT_TRUE(shake_hands(pair, [&wire] { return wire.carry(); }).through());
  dynamic_cast<TlsStream&>(*pair.dialer).set_records_per_key(2);
  const std::size_t before = wire.sent_to_acceptor().size();
  for (int i = 0; i < 4; ++i)
    put(*pair.dialer, "12345678");
  wire.carry();
  // A record that tells of it (5 bytes) before the second and the fourth.
  EXPECT_EQ(
      record_sizes(wire.sent_to_acceptor().substr(before)),
      (std::vector<std::size_t>{25, 22, 25, 25, 22, 25}));
  EXPECT_EQ(take(*pair.acceptor).size(), 32U);
}

// A peer that asks for answers again and again, and reads none of them.
TEST(TlsStream, EndsWithAPeerThatFloodsItWithNewKeys) {
  const JobKey key = JobKey::random();
  const Security security = Security::job_key(key);
  StreamPair pair = connected_streams(security, narrow_sockets());
  // The dialer's own SSL, made to do what it never does by itself.
  struct Flood {
    static void ask(Stream& stream) {
      auto& tls = dynamic_cast<TlsStream&>(stream);
      SSL_key_update(tls.ssl_for_tests(), SSL_KEY_UPDATE_REQUESTED);
      SSL_do_handshake(tls.ssl_for_tests());
    }
  };
  const std::string nothing;
  bool closed = false;
  for (int i = 0; i < 20'000 && !closed; ++i) {
    Flood::ask(*pair.dialer);
    (void)pair.dialer->write({});
    char byte = 0;
    const iovec part{&byte, 1};
    closed = pair.acceptor->read({&part, 1}).state == Io::State::Closed;
  }
  EXPECT_TRUE(closed);
  EXPECT_NE(pair.acceptor->trouble(), "");
}

TEST(TlsStream, TellsAGoodbyeFromACut) {
  char byte = 0;
  const iovec part{&byte, 1};
  StreamPair polite = connected_streams(any_security());
  put(*polite.dialer, "x");
  polite.dialer->shut_down();
  EXPECT_EQ(take(*polite.acceptor), "x");
  EXPECT_EQ(polite.acceptor->read({&part, 1}).state, Io::State::Closed);
  EXPECT_EQ(polite.acceptor->trouble(), "");
  // The other way is still open.
  put(*polite.acceptor, "late");
  EXPECT_EQ(take(*polite.dialer), "late");

  StreamPair rude = connected_streams(any_security());
  put(*rude.dialer, "x");
  rude.dialer.reset();
  EXPECT_EQ(take(*rude.acceptor), "x");
  EXPECT_EQ(rude.acceptor->read({&part, 1}).state, Io::State::Closed);
  EXPECT_EQ(rude.acceptor->trouble(), "the other side closed without a goodbye");
}

TEST(TlsStream, ClosesWithoutASignal) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);  // it would kill this test
  StreamPair pair = connected_streams(any_security());
  pair.acceptor.reset();
  const std::string bytes = "x";
  const iovec part = part_of(bytes);
  Io io;
  for (int i = 0; i < 3; ++i)
    io = pair.dialer->write({&part, 1});
  EXPECT_EQ(io.state, Io::State::Closed);
  EXPECT_EQ(pair.dialer->trouble(), "Broken pipe (errno 32)");
  pair.dialer->shut_down();
}

TEST(TlsStream, NoticesEveryChangedByte) {
  for (std::size_t at = 0; at < 5 + 4 + 17; ++at) {
    Wire wire;
    StreamPair pair = make_streams(any_security(), any_security(), wire.ends());
    ASSERT_TRUE(shake_hands(pair, [&wire] { return wire.carry(); }).through());
    wire.change_to_acceptor(flip_byte(wire.sent_to_acceptor().size() + at));
    put(*pair.dialer, "ping");
    wire.carry();
    EXPECT_EQ(take(*pair.acceptor), "") << at;
    wire.cut();  // where a length was changed, it waits for more
    EXPECT_EQ(take(*pair.acceptor), "") << at;
    EXPECT_NE(pair.acceptor->trouble(), "") << at;
  }
}

TEST(TlsStream, LeavesNoErrorsBehind) {
  ERR_raise(ERR_LIB_SSL, SSL_R_BAD_PACKET);  // somebody else's
  StreamPair pair = connected_streams(any_security());
  EXPECT_TRUE(they_talk(pair));
  ERR_raise(ERR_LIB_SSL, SSL_R_BAD_PACKET);
  EXPECT_EQ(take(*pair.dialer), "");
  EXPECT_EQ(pair.dialer->trouble(), "");
  pair.acceptor.reset();
  EXPECT_EQ(take(*pair.dialer), "");
  EXPECT_EQ(ERR_peek_error(), 0U);
}

}  // namespace
}  // namespace trireme::net
