// Connections under a job key: who gets in, and who does not.
#include <array>

#include "certificate_files.h"
#include "openssl_peer.h"
#include "stream_pair.h"
#include "trireme/testing/message.h"
#include "wire.h"

namespace trireme::net {
namespace {

// What a stranger offers in place of the right key.
struct Offer {
  std::string identity;
  std::array<unsigned char, 32> key = {};
};
Offer g_offer;

int offer_any_key(
    SSL* ssl,
    const EVP_MD*,
    const unsigned char** identity,
    std::size_t* length,
    SSL_SESSION** session) {
  const unsigned char cipher[] = {0x13, 0x01};
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, g_offer.key.data(), g_offer.key.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, cipher));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *identity = reinterpret_cast<const unsigned char*>(g_offer.identity.data());
  *length = g_offer.identity.size();
  return 1;
}

// How the handshake with a dialer of OpenSSL's ends for the acceptor.
HandshakeEnd shake_with_openssl(const Security& acceptor, const Offer* offer) {
  SocketPair sockets = unix_sockets();
  auto stream = acceptor.protect(std::move(sockets.second), Side::Acceptor);
  OpenSslPeer peer(std::move(sockets.first), Side::Dialer, [offer](SSL_CTX* context) {
    if (offer == nullptr)
      return;
    g_offer = *offer;
    SSL_CTX_set_psk_use_session_callback(context, offer_any_key);
  });
  HandshakeEnd end;
  for (int round = 0; round < 5; ++round) {
    peer.handshake();
    go_on(stream, end);
  }
  return end;
}

TEST(TlsJobKey, LetsTheSameKeyIn) {
  const Security security = Security::job_key(JobKey::random());
  EXPECT_TRUE(security.encrypted());
  StreamPair pair = connected_streams(security);
  EXPECT_TRUE(they_talk(pair));
  pair.dialer->check_name("anybody");
  pair.acceptor->check_name("at all");
  // A copy of the key, read from a file or a variable, is the same.
  const JobKey key = JobKey::random();
  StreamPair other = make_streams(
      Security::job_key(key), Security::job_key(JobKey::parse(key.text())));
  EXPECT_TRUE(shake_hands(other).through());
}

TEST(TlsJobKey, TellsBothSidesThatTheirKeysDiffer) {
  const JobKey here = JobKey::random(), there = JobKey::random();
  StreamPair pair = make_streams(Security::job_key(here), Security::job_key(there));
  const HandshakeEnds ends = shake_hands(pair);
  EXPECT_EQ(
      ends.acceptor.why,
      text(
          "[net] expected a peer with a job key (fingerprint ",
          there.fingerprint(),
          "), got one with another job key (fingerprint ",
          here.fingerprint(),
          ", ours is ",
          there.fingerprint(),
          "); start all workers of a job with the same key"));
  EXPECT_TRUE(ends.dialer.refused());
  EXPECT_TRUE(testing::contains(ends.dialer.why, "is not the one in use there"));
  for (const std::string& why : {ends.dialer.why, ends.acceptor.why})
    for (const JobKey& key : {here, there})
      for (std::size_t i = 0; i + 8 <= 64; ++i)
        EXPECT_FALSE(testing::contains(why, key.text().substr(i, 8)));
}

TEST(TlsJobKey, RefusesThoseWhoOnlyKnowTheFingerprint) {
  const JobKey key = JobKey::random();
  const Security security = Security::job_key(key);
  Offer offer{.identity = "trireme:" + key.fingerprint()};
  const HandshakeEnd wrong = shake_with_openssl(security, &offer);
  EXPECT_TRUE(wrong.refused());
  EXPECT_TRUE(testing::contains(wrong.why, "does not have the job key whose"));
  // The same with the right key is let in, so it was the key that was missing.
  std::copy(key.bytes().begin(), key.bytes().end(), offer.key.begin());
  EXPECT_TRUE(shake_with_openssl(security, &offer).through());
}

TEST(TlsJobKey, RefusesStrangers) {
  const Security security = Security::job_key(JobKey::random());
  const HandshakeEnd none = shake_with_openssl(security, nullptr);
  EXPECT_TRUE(none.refused());
  EXPECT_TRUE(testing::contains(none.why, "got one without a job key")) << none.why;
  // What a stranger calls its key gets into no message.
  for (const char* identity :
       {"x",
        "trireme:",
        "trireme:12345678\n",
        "trireme:ABCDEF01",
        "trireme:\x1b[2J1234"}) {
    const Offer offer{.identity = identity};
    const HandshakeEnd end = shake_with_openssl(security, &offer);
    EXPECT_TRUE(end.refused());
    EXPECT_TRUE(testing::contains(end.why, "(fingerprint unknown,")) << end.why;
  }
}

TEST(TlsJobKey, DoesNotGoWithCertificates) {
  TestAuthority authority;
  const Security by_key = Security::job_key(JobKey::random());
  const Security by_certificate = authority.worker("w0");
  StreamPair key_dials = make_streams(by_key, by_certificate);
  const HandshakeEnds first = shake_hands(key_dials);
  EXPECT_TRUE(first.dialer.refused());
  EXPECT_TRUE(testing::contains(first.dialer.why, "in place of the job key"));
  EXPECT_TRUE(first.acceptor.refused());
  StreamPair certificate_dials = make_streams(by_certificate, by_key);
  const HandshakeEnds second = shake_hands(certificate_dials);
  EXPECT_TRUE(second.dialer.refused());
  EXPECT_TRUE(second.acceptor.refused());
  EXPECT_TRUE(testing::contains(second.acceptor.why, "without a job key"));
}

// The mode byte of the extension psk_key_exchange_modes (45): from psk_dhe_ke to
// psk_ke. The acceptor must not even look at the key then; it would say so if it did,
// because the binder covers the byte.
TEST(TlsJobKey, IsNeverUsedWithoutAFreshExchange) {
  const Security security = Security::job_key(JobKey::random());
  Wire wire;
  bool found = false;
  wire.change_to_acceptor([&found](std::string& bytes, std::size_t from) {
    const std::string modes("\x00\x2d\x00\x02\x01\x01", 6);
    const std::size_t at = bytes.find(modes);
    if (from == 0 && at != std::string::npos) {
      bytes[at + 5] = 0;
      found = true;
    }
  });
  StreamPair pair = make_streams(security, security, wire.ends());
  const HandshakeEnds ends = shake_hands(pair, [&wire] { return wire.carry(); });
  EXPECT_TRUE(found);
  EXPECT_TRUE(ends.acceptor.refused());
  EXPECT_TRUE(testing::contains(ends.acceptor.why, "without a job key"))
      << ends.acceptor.why;
  EXPECT_FALSE(ends.dialer.through());
}

// Who has recorded a whole connection and sends it again gets nothing.
TEST(TlsJobKey, CannotBeReplayed) {
  const Security security = Security::job_key(JobKey::random());
  Wire wire;
  StreamPair pair = make_streams(security, security, wire.ends());
  const auto carry = [&wire] { return wire.carry(); };
  ASSERT_TRUE(shake_hands(pair, carry).through());
  put(*pair.dialer, "pay 100");
  wire.carry();
  ASSERT_EQ(take(*pair.acceptor), "pay 100");
  const std::string recorded = wire.sent_to_acceptor();
  ASSERT_EQ(recorded[0], 22);  // a handshake record
  const std::size_t hello = 5 + static_cast<unsigned char>(recorded[3]) * 256U +
                            static_cast<unsigned char>(recorded[4]);

  SocketPair sockets = unix_sockets();
  auto acceptor = security.protect(std::move(sockets.second), Side::Acceptor);
  HandshakeEnd end;
  const auto send = [&](std::size_t from, std::size_t bytes) {
    ASSERT_GT(::send(sockets.first.get(), recorded.data() + from, bytes, 0), 0);
    go_on(acceptor, end);
  };
  send(0, hello);
  EXPECT_EQ(end.how, HandshakeEnd::How::Waiting) << end.why;
  send(hello, recorded.size() - hello);
  EXPECT_TRUE(end.refused());
  EXPECT_TRUE(testing::contains(end.why, "without the right keys")) << end.why;
}

}  // namespace
}  // namespace trireme::net
