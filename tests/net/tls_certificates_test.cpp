// Connections under certificates: who gets in, and who does not.
#include <fstream>

#include "certificate_files.h"
#include "openssl_peer.h"
#include "store_helpers.h"
#include "stream_pair.h"
#include "trireme/net/certificate_maker.h"
#include "trireme/net/pem.h"
#include "trireme/net/rendezvous.h"
#include "trireme/net/store_server.h"
#include "trireme/net/tls_context.h"
#include "trireme/testing/message.h"

namespace trireme::net {
namespace {

namespace fs = std::filesystem;

// Shakes hands and lets the dialer read once: it is through before the acceptor has
// seen its certificate, and learns then what was thought of it.
HandshakeEnds shake_and_read(StreamPair& pair) {
  HandshakeEnds ends = shake_hands(pair);
  if (!ends.dialer.through() || ends.acceptor.through())
    return ends;
  char byte = 0;
  const iovec part{&byte, 1};
  const Io io = pair.dialer->read({&part, 1});
  EXPECT_EQ(io.state, Io::State::Closed);
  ends.dialer = {HandshakeEnd::How::Closed, pair.dialer->trouble()};
  return ends;
}

TEST(TlsCertificates, LetWorkersOfOneAuthorityIn) {
  TestAuthority authority;
  const Security dialer = authority.worker("w0"), acceptor = authority.worker("w1");
  EXPECT_TRUE(testing::contains(dialer.text(), "certificates of \"/"));
  StreamPair pair = make_streams(dialer, acceptor);
  ASSERT_TRUE(shake_hands(pair).through());
  EXPECT_TRUE(they_talk(pair));
  pair.dialer->check_name("w1");
  pair.acceptor->check_name("w0");
}

TEST(TlsCertificates, ProveANameLetterByLetter) {
  TestAuthority authority;
  StreamPair pair =
      make_streams(authority.worker("w0.example"), authority.worker("w1"));
  ASSERT_TRUE(shake_hands(pair).through());
  pair.acceptor->check_name("w0.example");
  for (const char* name :
       {"w1",
        "",
        "W0.example",
        ".example",
        "*.example",
        "w0",
        "w0.example.",
        "w0.exampl"}) {
    const std::string message =
        testing::message_of<Error>([&] { pair.acceptor->check_name(name); });
    EXPECT_TRUE(testing::contains(message, "got one for \"w0.example\"")) << message;
  }
  const std::string with_zero("w0.example\0x", 12);
  EXPECT_THROW(pair.acceptor->check_name(with_zero), Error);
}

TEST(TlsCertificates, OfAnotherAuthorityAreRefusedByBothSides) {
  TestAuthority ours, theirs;
  StreamPair pair = make_streams(ours.worker("w0"), theirs.worker("w1"));
  const HandshakeEnds ends = shake_hands(pair);
  EXPECT_TRUE(ends.dialer.refused());
  EXPECT_TRUE(testing::contains(ends.dialer.why, "an authority that we do not know"));
  EXPECT_TRUE(ends.acceptor.refused());
  EXPECT_TRUE(testing::contains(ends.acceptor.why, "our authority is not known there"));

  // The dialer would take the acceptor's certificate, but not the other way round.
  CertificateFiles mixed = theirs.files("w2");
  const Security stranger = Security::certificates(
      {.authority = ours.files("w3").authority,
       .certificate = mixed.certificate,
       .private_key = mixed.private_key});
  StreamPair other = make_streams(stranger, ours.worker("w4"));
  const HandshakeEnds then = shake_and_read(other);
  EXPECT_TRUE(then.acceptor.refused());
  EXPECT_TRUE(testing::contains(then.acceptor.why, "an authority that we do not know"));
  EXPECT_TRUE(testing::contains(then.dialer.why, "our authority is not known there"));
}

TEST(TlsCertificates, ThatHaveExpiredAreRefused) {
  TestAuthority authority;
  const Security good = authority.worker("w0");
  const Security old = authority.worker("w1", {.from_days = -3, .to_days = -1});
  StreamPair dials = make_streams(old, good);
  const HandshakeEnds ends = shake_and_read(dials);
  EXPECT_TRUE(testing::contains(ends.acceptor.why, "a certificate that has expired"));
  EXPECT_TRUE(testing::contains(ends.dialer.why, "our certificate has expired"));
  StreamPair accepts = make_streams(good, old);
  EXPECT_TRUE(testing::contains(
      shake_hands(accepts).dialer.why, "a certificate that has expired"));
}

TEST(TlsCertificates, ThatAreNotValidYetAreRefused) {
  TestAuthority authority;
  const Security good = authority.worker("w0");
  const Security early = authority.worker("w1", {.from_days = 1, .to_days = 2});
  StreamPair dials = make_streams(early, good);
  const HandshakeEnds ends = shake_and_read(dials);
  EXPECT_TRUE(testing::contains(ends.acceptor.why, "is not valid yet"));
  EXPECT_TRUE(testing::contains(ends.dialer.why, "our certificate is not valid"));
  StreamPair accepts = make_streams(good, early);
  EXPECT_TRUE(testing::contains(shake_hands(accepts).dialer.why, "is not valid yet"));
}

TEST(TlsCertificates, MustBeShown) {
  TestAuthority authority;
  SocketPair sockets = unix_sockets();
  auto acceptor =
      authority.worker("w0").protect(std::move(sockets.second), Side::Acceptor);
  OpenSslPeer peer(std::move(sockets.first), Side::Dialer, [](SSL_CTX*) {});
  HandshakeEnd end;
  for (int round = 0; round < 5; ++round) {
    peer.handshake();
    go_on(acceptor, end);
  }
  EXPECT_TRUE(end.refused());
  EXPECT_TRUE(testing::contains(end.why, "got one without a certificate")) << end.why;
}

// A worker must not sign others, be its certificate ever so good.
TEST(TlsCertificates, OfAWorkerSignNothing) {
  const testing::ScratchFolder folder;
  const KeyedCertificate authority = new_authority({.to_days = 9});
  const KeyedCertificate worker = new_worker(authority, "w0", {.to_days = 9});
  const KeyedCertificate forged = new_worker(worker, "w1", {.to_days = 9});
  const auto write = [&folder](const char* name, const std::string& content) {
    const auto path = folder.write(name, content);
    fs::permissions(path, fs::perms(0600));
    return path;
  };
  const auto files =
      [&](const char* name, const KeyedCertificate& one, std::string chain) {
        return CertificateFiles{
            .authority = folder.path() / "ca.pem",
            .certificate = write(
                (std::string(name) + ".pem").c_str(), pem_of(*one.certificate) + chain),
            .private_key = write(
                (std::string(name) + ".key").c_str(),
                std::string(pem_of(*one.key).view()))};
      };
  write("ca.pem", pem_of(*authority.certificate));
  const auto good = Security::certificates(files("good", worker, ""));
  const auto bad =
      Security::certificates(files("bad", forged, pem_of(*worker.certificate)));
  StreamPair pair = make_streams(good, bad);
  const HandshakeEnds ends = shake_hands(pair);
  EXPECT_TRUE(ends.dialer.refused());
  EXPECT_TRUE(testing::contains(ends.dialer.why, "certificate")) << ends.dialer.why;
}

TEST(TlsCertificates, AreLoadedFromFilesThatGoTogether) {
  TestAuthority authority;
  const CertificateFiles one = authority.files("w0"), two = authority.files("w1");
  const auto refusal = [](const CertificateFiles& files) {
    return testing::message_of<InvalidArgument>(
        [&files] { (void)Security::certificates(files); });
  };
  CertificateFiles mixed = one;
  mixed.private_key = two.private_key;
  EXPECT_TRUE(testing::contains(refusal(mixed), "key values mismatch"));
  mixed = one;
  mixed.certificate = one.private_key;
  EXPECT_TRUE(testing::contains(refusal(mixed), "got none"));
  mixed = one;
  mixed.authority = "/nowhere/ca.pem";
  EXPECT_TRUE(testing::contains(refusal(mixed), "/nowhere/ca.pem"));
  fs::permissions(one.private_key, fs::perms(0644));
  EXPECT_TRUE(testing::contains(refusal(one), "mode 0644"));
}

Environment env_of_rank(int rank, int port, const CertificateFiles& files) {
  return Environment(Environment::Variables{
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", "3"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"TRIREME_CA_FILE", files.authority.string()},
      {"TRIREME_CERTIFICATE_FILE", files.certificate.string()},
      {"TRIREME_PRIVATE_KEY_FILE", files.private_key.string()},
      {"TRIREME_TIMEOUT", "20"}});
}

// As docs/store.md says: rank 0 hosts it, and each is called as its rank.
TEST(TlsCertificates, LetRanksMeetInAStore) {
  TestAuthority authority;
  const int port =
      StoreServer({.security = Security::insecure_loopback()}).addresses()[0].port;
  const auto open = [&](int rank, const CertificateFiles& files) {
    return open_store("env://", {.env = env_of_rank(rank, port, files)});
  };
  const auto host = open(0, authority.files("rank-0"));
  const CertificateFiles second = authority.files("rank-1");
  open(1, second)->set("key", "of rank 1");
  EXPECT_EQ(host->get("key", store_patience()), "of rank 1");
  EXPECT_TRUE(testing::contains(
      testing::message_of<Error>(
          [&] { open(2, second)->get("key", store_patience()); }),
      "expected the certificate of \"rank-2\", got one for \"rank-1\""));
}

TEST(TlsCertificates, HaveTheirAlternativeNamesAlone) {
  const KeyedCertificate authority = new_authority({.to_days = 9});
  const KeyedCertificate worker = new_worker(authority, "w0", {.to_days = 9});
  EXPECT_EQ(names_in(*worker.certificate), std::vector<std::string>{"w0"});
  // It has a common name, which does not count.
  EXPECT_TRUE(names_in(*authority.certificate).empty());
}

}  // namespace
}  // namespace trireme::net
