#include "trireme/net/tls_trouble.h"

#include <algorithm>
#include <array>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/tls_context.h"

namespace trireme::net {
namespace {

struct KnownTrouble {
  long code;
  const char* got;
  const char* remedy;
};

constexpr const char* kSameKind = "protect all workers of a job in the same way";
constexpr const char* kSameAuthority = "give all workers certificates of one authority";
constexpr const char* kNewCertificate =
    "make a new certificate (trireme keys worker), and look at the clocks";
constexpr const char* kNoTls = "one that speaks no TLS";
constexpr const char* kOldTls = "one without TLS 1.3";
constexpr const char* kChanged = "bytes that were made without the right keys";
constexpr const char* kWhoIsThat =
    "find out who changes what is sent, or what broke it";

// By SSL_R_, those of alerts from the other side included.
constexpr std::array kHandshakeTroubles = {
    KnownTrouble{SSL_R_WRONG_VERSION_NUMBER, kNoTls, kSameKind},
    KnownTrouble{SSL_R_HTTP_REQUEST, kNoTls, kSameKind},
    KnownTrouble{SSL_R_HTTPS_PROXY_REQUEST, kNoTls, kSameKind},
    KnownTrouble{SSL_R_BAD_RECORD_TYPE, kNoTls, kSameKind},
    KnownTrouble{SSL_R_PACKET_LENGTH_TOO_LONG, kNoTls, kSameKind},
    KnownTrouble{SSL_R_UNSUPPORTED_PROTOCOL, kOldTls, "update what runs there"},
    KnownTrouble{SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, kOldTls, "update what runs there"},
    KnownTrouble{
        SSL_R_BINDER_DOES_NOT_VERIFY,
        "one that does not have the job key whose fingerprint it shows",
        "find out who that is"},
    KnownTrouble{
        SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE,
        "one without a certificate",
        kSameKind},
    KnownTrouble{
        SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
        "the answer that it must have a certificate of ours",
        kSameKind},
    KnownTrouble{
        SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
        "the answer that nothing of what we offer will do",
        kSameKind},
    KnownTrouble{
        SSL_R_TLSV1_ALERT_UNKNOWN_CA,
        "the answer that our authority is not known there",
        kSameAuthority},
    KnownTrouble{
        SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
        "the answer that our certificate has expired",
        kNewCertificate},
    KnownTrouble{
        SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
        "the answer that our certificate is not valid",
        kNewCertificate},
    KnownTrouble{SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, kChanged, kWhoIsThat},
    KnownTrouble{SSL_R_BAD_SIGNATURE, kChanged, kWhoIsThat},
    KnownTrouble{SSL_R_DIGEST_CHECK_FAILED, kChanged, kWhoIsThat},
    KnownTrouble{SSL_R_SSLV3_ALERT_BAD_RECORD_MAC, kChanged, kWhoIsThat},
    KnownTrouble{SSL_R_TLSV1_ALERT_DECRYPT_ERROR, kChanged, kWhoIsThat},
};

// By X509_V_ERR_.
constexpr std::array kCertificateTroubles = {
    KnownTrouble{
        X509_V_ERR_CERT_HAS_EXPIRED, "a certificate that has expired", kNewCertificate},
    KnownTrouble{
        X509_V_ERR_CERT_NOT_YET_VALID,
        "a certificate that is not valid yet",
        kNewCertificate},
    KnownTrouble{
        X509_V_ERR_INVALID_PURPOSE,
        "a certificate that is not made for this",
        kNewCertificate},
};

template <std::size_t kCount>
const KnownTrouble* find_trouble(
    const std::array<KnownTrouble, kCount>& all, long code) {
  const auto found = std::find_if(
      all.begin(), all.end(), [code](const auto& one) { return one.code == code; });
  return found == all.end() ? nullptr : &*found;
}

TlsTrouble certificate_trouble(const SSL& ssl, bool by_key) {
  if (by_key)
    return {"one that shows a certificate in place of the job key", kSameKind};
  const long code = SSL_get_verify_result(&ssl);
  if (const KnownTrouble* known = find_trouble(kCertificateTroubles, code))
    return {known->got, known->remedy};
  switch (code) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
      return {"a certificate of an authority that we do not know", kSameAuthority};
    default:
      return {
          text("a bad certificate (", X509_verify_cert_error_string(code), ")"),
          kNewCertificate};
  }
}

// What it comes to that there is no key on which both agree. OpenSSL says that there is
// no certificate, because it would go on with one.
TlsTrouble key_trouble(const KeyNotes& notes) {
  if (notes.foreign.empty())
    return {"one without a job key", kSameKind};
  return {
      text(
          "one with another job key (fingerprint ",
          notes.foreign,
          ", ours is ",
          notes.fingerprint,
          ")"),
      "start all workers of a job with the same key"};
}

}  // namespace

std::string take_openssl_error() {
  const unsigned long first = ERR_peek_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(first))
    return errno_text(ERR_GET_REASON(first));
  const char* reason = ERR_reason_error_string(first);
  return reason == nullptr ? "an unknown error" : reason;
}

TlsTrouble take_tls_trouble(const SSL& ssl, const KeyNotes* notes) {
  const unsigned long first = ERR_peek_error();
  const int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
  const std::string words = take_openssl_error();
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return certificate_trouble(ssl, notes != nullptr);
  if (notes != nullptr && (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM ||
                           reason == SSL_R_NO_SHARED_CIPHER))
    return key_trouble(*notes);
  if (notes != nullptr && reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
    return {
        text(
            "the answer that our job key (fingerprint ",
            notes->fingerprint,
            ") is not the one in use there"),
        "start all workers of a job with the same key"};
  if (const KnownTrouble* known = find_trouble(kHandshakeTroubles, reason))
    return {known->got, known->remedy, known->got == kNoTls};
  return {
      text(
          reason > SSL_AD_REASON_OFFSET ? "the answer " : "what TLS does not allow, ",
          in_quotes(words)),
      kWhoIsThat};
}

}  // namespace trireme::net
