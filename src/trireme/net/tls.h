// TLS 1.3 over a socket: the settings that all connections of a node share.
#pragma once
#include <memory>
#include <string>

#include "trireme/net/certificates.h"
#include "trireme/net/job_key.h"
#include "trireme/net/stream.h"

namespace trireme::net {

/// Whether this build has TLS. Without it the calls below throw NotSupported.
bool has_tls();

/// What the connections of one node have in common: TLS 1.3 alone, with fresh keys for
/// every connection (X25519 or P-256), AES-128-GCM, no resumption, no early data. Both
/// sides prove themselves, or there is no connection. It does not change after it was
/// made: any number of threads may make streams of it.
///
///     auto context = TlsContext::of_job_key(JobKey::read("job.key"));
///     auto stream = context->stream(std::move(socket), Side::Dialer);
class TlsContext : public std::enable_shared_from_this<TlsContext> {
 public:
  /// Both sides prove that they have this key. It protects the handshake; what is sent
  /// later stays secret even if the key becomes known.
  static std::shared_ptr<const TlsContext> of_job_key(const JobKey& key);
  /// Both sides show a certificate that the authority of the files has signed; no other
  /// authority counts, least of all those of the system. InvalidArgument for files that
  /// cannot be read or do not go together, and for a private key that others may read.
  static std::shared_ptr<const TlsContext> of_certificates(
      const CertificateFiles& files);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// The stream over a connected socket, which is never waited for. Its handshake is
  /// still to come. It keeps this context alive.
  std::unique_ptr<Stream> stream(FileDescriptor socket, Side side) const;

  /// "a job key (fingerprint 1a2b3c4d)" or "certificates of "ca.pem"".
  std::string text() const;

 private:
  friend class TlsStream;
  struct Parts;
  explicit TlsContext(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace trireme::net
