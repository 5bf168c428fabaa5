// TLS with a job key: both sides offer a pre-shared key (RFC 8446, 2.2) under the name
// "trireme:" and its fingerprint, always together with a Diffie-Hellman exchange.
#include <algorithm>
#include <string_view>

#include "trireme/net/tls_context.h"

namespace trireme::net {
namespace {

constexpr std::string_view kIdentityPrefix = "trireme:";
constexpr std::size_t kFingerprintDigits = 8;
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

KeyNotes& notes_of(SSL* ssl) {
  return *static_cast<KeyNotes*>(SSL_get_app_data(ssl));
}

// A fresh one for each handshake, because OpenSSL changes it.
SSL_SESSION* new_key_session(SSL* ssl, const JobKey& key) {
  SslSessionPtr session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key.bytes().data(), JobKey::kBytes) !=
          1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set1_id_context(session.get(), kSessionUse, sizeof kSessionUse) !=
          1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

// What the dialer offers. The identity must live as long as the stream.
int offer_job_key(
    SSL* ssl,
    const EVP_MD* hash,
    const unsigned char** identity,
    std::size_t* length,
    SSL_SESSION** session) {
  *session = nullptr;
  if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256)
    return 1;  // the other side has chosen a cipher that the key is not for
  const KeyNotes& notes = notes_of(ssl);
  *session = new_key_session(ssl, *notes.key);
  *identity = reinterpret_cast<const unsigned char*>(notes.identity.data());
  *length = notes.identity.size();
  return *session != nullptr;
}

// Letters of a stranger get into messages only if they are a fingerprint.
std::string fingerprint_in(std::string_view identity) {
  if (identity.size() != kIdentityPrefix.size() + kFingerprintDigits ||
      !identity.starts_with(kIdentityPrefix))
    return "unknown";
  identity.remove_prefix(kIdentityPrefix.size());
  const bool digits = std::all_of(identity.begin(), identity.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return digits ? std::string(identity) : "unknown";
}

// What the acceptor makes of an offer.
int find_job_key(
    SSL* ssl,
    const unsigned char* identity,
    std::size_t length,
    SSL_SESSION** session) {
  *session = nullptr;
  KeyNotes& notes = notes_of(ssl);
  const std::string_view offered(reinterpret_cast<const char*>(identity), length);
  if (offered == notes.identity) {
    *session = new_key_session(ssl, *notes.key);
    return *session != nullptr;
  }
  // Without a key there is no handshake, since there are no certificates either; that
  // ends it with an alert that the other side understands.
  notes.foreign = fingerprint_in(offered);
  return 1;
}

}  // namespace

KeyNotes::KeyNotes(const JobKey& job_key)
    : key(&job_key),
      fingerprint(job_key.fingerprint()),
      identity(std::string(kIdentityPrefix) + fingerprint) {}

void use_job_key(SSL_CTX& context) {
  SSL_CTX_set_psk_use_session_callback(&context, offer_job_key);
  SSL_CTX_set_psk_find_session_callback(&context, find_job_key);
}

}  // namespace trireme::net
