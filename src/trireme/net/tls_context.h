// What is inside a TlsContext.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/net/openssl.h"
#include "trireme/net/tls.h"

namespace trireme::net {

/// What sessions are for: OpenSSL wants it to be the same in the context and in a
/// session that a job key makes.
inline constexpr unsigned char kSessionUse[] = {'t', 'r', 'i', 'r', 'e', 'm', 'e'};

struct TlsContext::Parts {
  SslContextPtr context;
  BioMethodPtr socket_method;
  /// Of a job key; else certificates prove who somebody is.
  std::optional<JobKey> key;
  /// What errors call it.
  std::string text;
};

/// The job key of a stream while it shakes hands, and what the other side has instead.
struct KeyNotes {
  explicit KeyNotes(const JobKey& job_key);

  const JobKey* key;
  std::string fingerprint;
  /// The name under which it is offered.
  std::string identity;
  /// Of the last other key that was offered; empty if none was.
  std::string foreign;
};

/// Makes the context offer and take a job key alone. Streams must have their KeyNotes
/// as app data.
void use_job_key(SSL_CTX& context);

/// Loads the three files, and demands a certificate of the same authority of the other
/// side.
void use_certificates(SSL_CTX& context, const CertificateFiles& files);

/// The alternative names (DNS) of a certificate, as they are.
std::vector<std::string> names_in(const X509& certificate);

}  // namespace trireme::net
