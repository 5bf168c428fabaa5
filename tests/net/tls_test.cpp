#include "trireme/net/tls.h"

#include <thread>

#include "certificate_files.h"
#include "openssl_peer.h"
#include "stream_pair.h"
#include "trireme/testing/message.h"
#include "wire.h"

namespace trireme::net {
namespace {

// Both ways to protect a connection, for what must hold for both.
class TlsWays : public ::testing::TestWithParam<const char*> {
 protected:
  TlsWays() {
    if (std::string(GetParam()) == "key") {
      dialer_ = acceptor_ = Security::job_key(JobKey::random());
      return;
    }
    authority_.emplace();
    dialer_ = authority_->worker("w0");
    acceptor_ = authority_->worker("w1");
  }

  // A handshake over a wire; what one side may take for done is done only if bytes get
  // through as well.
  struct Outcome {
    HandshakeEnds ends;
    bool talked = false;
    /// How long its flights were: signatures differ by a byte or two.
    std::size_t to_acceptor = 0;
    std::size_t to_dialer = 0;
  };
  Outcome try_over(Wire& wire) const {
    StreamPair pair = make_streams(dialer_, acceptor_, wire.ends());
    Outcome outcome;
    const auto carry = [&wire] { return wire.carry(); };
    outcome.ends = shake_hands(pair, carry);
    outcome.to_acceptor = wire.sent_to_acceptor().size();
    outcome.to_dialer = wire.sent_to_dialer().size();
    if (outcome.ends.through()) {
      put(*pair.dialer, "ping");
      wire.carry();
      outcome.talked = take(*pair.acceptor) == "ping";
    }
    // Whoever waits for more must notice that nothing comes.
    wire.cut();
    if (!outcome.ends.through()) {
      go_on(pair.dialer, outcome.ends.dialer);
      go_on(pair.acceptor, outcome.ends.acceptor);
      EXPECT_NE(outcome.ends.dialer.how, HandshakeEnd::How::Waiting);
      EXPECT_NE(outcome.ends.acceptor.how, HandshakeEnd::How::Waiting);
    }
    return outcome;
  }

  // How many bytes a good handshake sends each way.
  std::pair<std::string, std::string> flights() const {
    Wire wire;
    StreamPair pair = make_streams(dialer_, acceptor_, wire.ends());
    EXPECT_TRUE(shake_hands(pair, [&wire] { return wire.carry(); }).through());
    return {wire.sent_to_acceptor(), wire.sent_to_dialer()};
  }

  std::optional<TestAuthority> authority_;
  Security dialer_, acceptor_;
};
INSTANTIATE_TEST_SUITE_P(
    Tls, TlsWays, ::testing::Values("key", "certificates"), [](const auto& way) {
      return std::string(way.param);
    });

TEST_P(TlsWays, ShakeHandsAndTalk) {
  for (auto* sockets : {&unix_sockets, &tcp_sockets}) {
    StreamPair pair = make_streams(dialer_, acceptor_, sockets());
    HandshakeEnds ends;
    for (int i = 0; i < 1000 && !ends.through(); ++i) {
      go_on(pair.dialer, ends.dialer);
      go_on(pair.acceptor, ends.acceptor);
      std::this_thread::yield();
    }
    ASSERT_TRUE(ends.through()) << ends.dialer.why << ends.acceptor.why;
    put(*pair.dialer, "ping");
    ASSERT_TRUE(wait_for(pair.acceptor->fd(), POLLIN));
    EXPECT_EQ(take(*pair.acceptor), "ping");
  }
}

TEST_P(TlsWays, GoThroughASocketThatTakesFewBytes) {
  SocketPair sockets = unix_sockets();
  const int least = 1;
  for (const auto* socket : {&sockets.first, &sockets.second})
    ::setsockopt(socket->get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  StreamPair pair = make_streams(dialer_, acceptor_, std::move(sockets));
  ASSERT_TRUE(shake_hands(pair).through());
  EXPECT_TRUE(they_talk(pair));
}

TEST_P(TlsWays, GoThroughAWireThatSplitsEveryByte) {
  SocketPair left = unix_sockets(), right = unix_sockets();
  StreamPair pair =
      make_streams(dialer_, acceptor_, {std::move(left.first), std::move(right.first)});
  const auto one_byte = [](int from, int to) {
    char byte = 0;
    return ::recv(from, &byte, 1, MSG_DONTWAIT) == 1 && ::send(to, &byte, 1, 0) == 1;
  };
  const HandshakeEnds ends = shake_hands(pair, [&] {
    const bool there = one_byte(left.second.get(), right.second.get());
    return one_byte(right.second.get(), left.second.get()) || there;
  });
  EXPECT_TRUE(ends.through()) << ends.dialer.why << ends.acceptor.why;
}

class TlsWaysRanks : public TlsWays {};
INSTANTIATE_TEST_SUITE_P(
    Tls, TlsWaysRanks, ::testing::Values("key", "certificates"), [](const auto& way) {
      return std::string(way.param);
    });

// One thread a side, and many connections of one context at the same time.
TEST_P(TlsWaysRanks, ShakeHandsInThreads) {
  constexpr int kPairs = 4;
  const auto drive = [](Stream& stream, const std::string& say) {
    Io io;
    while ((io = stream.handshake()).state == Io::State::Blocked)
      ASSERT_TRUE(wait_for(stream.fd(), POLLIN));
    ASSERT_EQ(io.state, Io::State::Done) << stream.trouble();
    put(stream, say);
    std::string heard;
    // Reads before it waits: the bytes may have come along with the handshake.
    while ((heard += take(stream, say.size() - heard.size())).size() < say.size())
      ASSERT_TRUE(wait_for(stream.fd(), POLLIN));
    EXPECT_EQ(heard, std::string(say.rbegin(), say.rend()));
  };
  std::vector<StreamPair> pairs;
  std::vector<std::thread> threads;
  for (int i = 0; i < kPairs; ++i)
    pairs.push_back(make_streams(dialer_, acceptor_, tcp_sockets()));
  for (StreamPair& pair : pairs) {
    threads.emplace_back([&] { drive(*pair.dialer, "abc"); });
    threads.emplace_back([&] { drive(*pair.acceptor, "cba"); });
  }
  for (std::thread& thread : threads)
    thread.join();
}

// The version in the header of a first record is ignored (RFC 8446, 5.1); OpenSSL looks
// at its first byte alone. All others count.
bool is_ignored(const std::string& flight, std::size_t at) {
  return flight[0] == 22 && at == 2;
}

TEST_P(TlsWays, RefuseFlightsWithAFlippedByte) {
  const auto [there, back] = flights();
  ASSERT_GT(there.size(), 150U);
  ASSERT_GT(back.size(), 150U);
  for (std::size_t at = 0; at < there.size() + back.size(); ++at) {
    Wire wire;
    const bool to_acceptor = at < there.size();
    const std::size_t place = to_acceptor ? at : at - there.size();
    if (to_acceptor)
      wire.change_to_acceptor(flip_byte(place));
    else
      wire.change_to_dialer(flip_byte(place));
    const Outcome outcome = try_over(wire);
    const std::size_t sent = to_acceptor ? outcome.to_acceptor : outcome.to_dialer;
    EXPECT_TRUE(
        !outcome.talked || place >= sent ||
        is_ignored(to_acceptor ? there : back, place))
        << "byte " << place << (to_acceptor ? " to the acceptor" : " to the dialer");
  }
}

TEST_P(TlsWays, EndWithAFlightThatIsCut) {
  const auto [there, back] = flights();
  for (std::size_t length = 0; length < there.size(); ++length) {
    Wire wire;
    wire.change_to_acceptor(cut_after(length));
    const Outcome outcome = try_over(wire);
    EXPECT_FALSE(outcome.talked) << length;
    EXPECT_TRUE(!outcome.ends.acceptor.through() || length >= outcome.to_acceptor)
        << length;
  }
  for (std::size_t length = 0; length < back.size(); ++length) {
    Wire wire;
    wire.change_to_dialer(cut_after(length));
    const Outcome outcome = try_over(wire);
    EXPECT_TRUE(!outcome.ends.dialer.through() || length >= outcome.to_dialer)
        << length;
  }
}

TEST_P(TlsWays, RefuseThoseWhoSpeakNoTls) {
  for (const char* words :
       {"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        "TRIREME\1\2\3\4 some frame of bytes that is no TLS at all",
        "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"})
    for (const bool accepts : {true, false}) {
      SocketPair sockets = unix_sockets();
      ASSERT_GT(::send(sockets.first.get(), words, std::strlen(words), 0), 0);
      auto stream = accepts
                        ? acceptor_.protect(std::move(sockets.second), Side::Acceptor)
                        : dialer_.protect(std::move(sockets.second), Side::Dialer);
      HandshakeEnd end;
      go_on(stream, end);
      EXPECT_TRUE(end.refused()) << words;
      EXPECT_TRUE(testing::contains(end.why, "got one that speaks no TLS")) << end.why;
    }
}

TEST_P(TlsWays, NoticeThatThePeerLeaves) {
  SocketPair sockets = unix_sockets();
  auto stream = acceptor_.protect(std::move(sockets.second), Side::Acceptor);
  EXPECT_EQ(stream->handshake().state, Io::State::Blocked);
  ::shutdown(sockets.first.get(), SHUT_WR);
  EXPECT_EQ(stream->handshake().state, Io::State::Closed);
  EXPECT_EQ(stream->trouble(), "the other side closed in the handshake");
  EXPECT_EQ(stream->handshake().state, Io::State::Closed);
}

TEST_P(TlsWays, RefuseTlsBefore13) {
  for (const int newest : {TLS1_2_VERSION, TLS1_1_VERSION}) {
    for (const Side side : {Side::Dialer, Side::Acceptor}) {
      SocketPair sockets = unix_sockets();
      auto stream = side == Side::Dialer
                        ? acceptor_.protect(std::move(sockets.second), Side::Acceptor)
                        : dialer_.protect(std::move(sockets.second), Side::Dialer);
      OpenSslPeer peer(std::move(sockets.first), side, [newest](SSL_CTX* context) {
        SSL_CTX_set_security_level(context, 0);
        SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(context, newest);
      });
      HandshakeEnd end;
      for (int round = 0; round < 5; ++round) {
        EXPECT_FALSE(peer.handshake());
        go_on(stream, end);
      }
      EXPECT_TRUE(end.refused());
      EXPECT_TRUE(testing::contains(end.why, "got one without TLS 1.3")) << end.why;
    }
  }
}

TEST(Tls, IsBuiltIn) {
  EXPECT_TRUE(has_tls());
}

TEST(Tls, ContextLivesAsLongAsItsStreams) {
  StreamPair pair;
  {
    const auto context = TlsContext::of_job_key(JobKey::random());
    SocketPair sockets = unix_sockets();
    pair = {
        context->stream(std::move(sockets.first), Side::Dialer),
        context->stream(std::move(sockets.second), Side::Acceptor)};
  }
  EXPECT_TRUE(shake_hands(pair).through());
  EXPECT_TRUE(they_talk(pair));
}

// What the other side sees of our settings.
TEST(Tls, SettlesOnTheNewestAlone) {
  TestAuthority authority;
  SocketPair sockets = unix_sockets();
  const CertificateFiles files = authority.files("w1");
  auto stream =
      authority.worker("w0").protect(std::move(sockets.second), Side::Acceptor);
  OpenSslPeer peer(std::move(sockets.first), Side::Dialer, [&](SSL_CTX* context) {
    SSL_CTX_use_certificate_file(context, files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context, files.private_key.c_str(), SSL_FILETYPE_PEM);
  });
  HandshakeEnd end;
  for (int round = 0; round < 5; ++round) {
    peer.handshake();
    go_on(stream, end);
  }
  ASSERT_TRUE(end.through()) << end.why;
  put(*stream, "hello");
  EXPECT_EQ(peer.read(), "hello");
  EXPECT_STREQ(SSL_get_version(peer.ssl()), "TLSv1.3");
  EXPECT_STREQ(SSL_get_cipher_name(peer.ssl()), "TLS_AES_128_GCM_SHA256");
  EXPECT_EQ(SSL_get_negotiated_group(peer.ssl()), NID_X25519);
  // No ticket to come back with.
  EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get_session(peer.ssl())), 0);
}

}  // namespace
}  // namespace trireme::net
