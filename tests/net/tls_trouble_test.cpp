#include "trireme/net/tls_trouble.h"

#include <gtest/gtest.h>

#include "trireme/net/tls_context.h"
#include "trireme/testing/message.h"

namespace trireme::net {
namespace {

class TlsTroubles : public ::testing::Test {
 protected:
  // What is said of a reason that OpenSSL gives.
  TlsTrouble said(int reason, const KeyNotes* notes = nullptr) {
    ERR_raise(ERR_LIB_SSL, reason);
    const TlsTrouble trouble = take_tls_trouble(*ssl_, notes);
    EXPECT_EQ(ERR_peek_error(), 0U);
    EXPECT_FALSE(trouble.got.empty());
    EXPECT_FALSE(trouble.remedy.empty());
    return trouble;
  }

  SslContextPtr context_{SSL_CTX_new(TLS_method())};
  SslPtr ssl_{SSL_new(context_.get())};
  JobKey key_ = JobKey::random();
  KeyNotes notes_{key_};
};

TEST_F(TlsTroubles, AreOpenSslsFirstAndLeaveNothing) {
  ERR_clear_error();
  EXPECT_EQ(take_openssl_error(), "an unknown error");
  ERR_raise(ERR_LIB_SSL, SSL_R_BAD_PACKET);
  ERR_raise(ERR_LIB_SSL, SSL_R_BAD_VALUE);
  EXPECT_EQ(take_openssl_error(), "bad packet");
  EXPECT_EQ(ERR_peek_error(), 0U);
  ERR_raise(ERR_LIB_SYS, ENOENT);
  EXPECT_EQ(take_openssl_error(), "No such file or directory (errno 2)");
}

TEST_F(TlsTroubles, AreSaidInOurWords) {
  EXPECT_EQ(said(SSL_R_WRONG_VERSION_NUMBER).got, "one that speaks no TLS");
  EXPECT_EQ(said(SSL_R_UNSUPPORTED_PROTOCOL).got, "one without TLS 1.3");
  EXPECT_EQ(
      said(SSL_R_TLSV1_ALERT_UNKNOWN_CA).got,
      "the answer that our authority is not known there");
  EXPECT_EQ(
      said(SSL_R_BAD_EXTENSION).got, "what TLS does not allow, \"bad extension\"");
  EXPECT_EQ(
      said(SSL_R_TLSV1_ALERT_INTERNAL_ERROR).got,
      "the answer \"tlsv1 alert internal error\"");
}

TEST_F(TlsTroubles, KnowWhyACertificateIsBad) {
  const auto of = [this](long verdict) {
    SSL_set_verify_result(ssl_.get(), verdict);
    return said(SSL_R_CERTIFICATE_VERIFY_FAILED).got;
  };
  EXPECT_EQ(of(X509_V_ERR_CERT_HAS_EXPIRED), "a certificate that has expired");
  EXPECT_EQ(of(X509_V_ERR_CERT_NOT_YET_VALID), "a certificate that is not valid yet");
  EXPECT_EQ(
      of(X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY),
      "a certificate of an authority that we do not know");
  EXPECT_EQ(of(X509_V_ERR_CERT_REVOKED), "a bad certificate (certificate revoked)");
}

TEST_F(TlsTroubles, KnowWhatBecameOfTheKey) {
  EXPECT_EQ(
      said(SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, &notes_).got,
      "one without a job key");
  notes_.foreign = "12345678";
  EXPECT_TRUE(testing::contains(
      said(SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, &notes_).got,
      "(fingerprint 12345678, ours is " + key_.fingerprint() + ")"));
  EXPECT_TRUE(testing::contains(
      said(SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, &notes_).got,
      "our job key (fingerprint " + key_.fingerprint()));
  EXPECT_TRUE(testing::contains(
      said(SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE).got, "nothing of what we offer"));
}

}  // namespace
}  // namespace trireme::net
