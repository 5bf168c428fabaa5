#include "trireme/net/tls.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/tls_context.h"
#include "trireme/net/tls_socket.h"
#include "trireme/net/tls_stream.h"
#include "trireme/net/tls_trouble.h"

namespace trireme::net {
namespace {

// More than one record at a time: a system call for each costs more than its
// decryption.
constexpr std::size_t kReadAhead = std::size_t{64} << 10;

// An openssl.cnf of the machine may have switched any of these the other way.
void forbid_what_is_old(SSL_CTX* context) {
  SSL_CTX_set_options(
      context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_clear_options(
      context,
      SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_IGNORE_UNEXPECTED_EOF |
          SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ENABLE_KTLS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_security_level(context, 2);
}

void tune(SSL_CTX* context) {
  SSL_CTX_set_mode(
      context,
      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
          SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAhead);
}

SslContextPtr make_ssl_context() {
  // OpenSSL would tidy up at exit(), while I/O threads may still use it.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ERR_clear_error();
  SslContextPtr context(SSL_CTX_new(TLS_method()));
  if (context == nullptr ||
      SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context.get(), "X25519:P-256") != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1 ||
      SSL_CTX_set_max_early_data(context.get(), 0) != 1 ||
      SSL_CTX_set_recv_max_early_data(context.get(), 0) != 1 ||
      SSL_CTX_set_session_id_context(context.get(), kSessionUse, sizeof kSessionUse) !=
          1)
    throw NotSupported(text(
        "[net] expected OpenSSL with TLS 1.3, X25519 and AES-128-GCM, got ",
        take_openssl_error(),
        "; install libssl3, and see what openssl.cnf forbids"));
  forbid_what_is_old(context.get());
  tune(context.get());
  // In the way of a job key nobody shows certificates, and none is trusted: should the
  // other side answer with one in place of the key, it is refused.
  SSL_CTX_set_verify(
      context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

}  // namespace

bool has_tls() {
  return true;
}

TlsContext::TlsContext(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
TlsContext::~TlsContext() = default;

std::shared_ptr<const TlsContext> TlsContext::of_job_key(const JobKey& key) {
  auto parts = std::make_unique<Parts>(Parts{
      .context = make_ssl_context(),
      .socket_method = TlsSocket::make_method(),
      .key = key,
      .text = trireme::text("a job key (fingerprint ", key.fingerprint(), ")")});
  use_job_key(*parts->context);
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(parts)));
}

std::shared_ptr<const TlsContext> TlsContext::of_certificates(
    const CertificateFiles& files) {
  auto parts = std::make_unique<Parts>(Parts{
      .context = make_ssl_context(),
      .socket_method = TlsSocket::make_method(),
      .key = std::nullopt,
      .text = trireme::text("certificates of ", in_quotes(files.authority.string()))});
  use_certificates(*parts->context, files);
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(parts)));
}

std::unique_ptr<Stream> TlsContext::stream(FileDescriptor socket, Side side) const {
  return std::make_unique<TlsStream>(shared_from_this(), std::move(socket), side);
}

std::string TlsContext::text() const {
  return parts_->text;
}

}  // namespace trireme::net
