// How a node knows its peers, and what it refuses to do without.
#pragma once
#include <memory>
#include <string>

#include "trireme/core/environment.h"
#include "trireme/net/address.h"
#include "trireme/net/certificates.h"
#include "trireme/net/job_key.h"
#include "trireme/net/stream.h"

namespace trireme::net {

class TlsContext;

/// What protects a node's connections. One of three: a key that all of the job share, a
/// certificate for each worker, or nothing, which only stays on this machine and only
/// where somebody asked for it by name.
///
///     auto security = Security::job_key(JobKey::read("job.key"));
///     auto security = Security::from_environment(Environment::of_process());
class Security {
 public:
  /// Nothing chosen yet: it refuses everything, and says what to choose.
  Security() = default;
  /// TLS 1.3 with a shared key and forward secrecy.
  static Security job_key(const JobKey& key);
  /// TLS 1.3 where both sides show a certificate of the same authority.
  static Security certificates(const CertificateFiles& files);
  /// Plain bytes, on loopback and Unix sockets alone.
  static Security insecure_loopback();
  /// TRIREME_SECURITY=insecure-loopback; else TRIREME_JOB_KEY or TRIREME_JOB_KEY_FILE;
  /// else TRIREME_CA_FILE, TRIREME_CERTIFICATE_FILE and TRIREME_PRIVATE_KEY_FILE.
  /// InvalidArgument with what to set if none of them is there, or two that contradict.
  static Security from_environment(const Environment& env);

  /// Throws InvalidArgument where bytes would leave this machine unprotected, and where
  /// nothing was chosen.
  void check_allowed(const Endpoint& endpoint) const;
  /// The protected stream over a connected socket. Where nothing protects it, throws
  /// InvalidArgument unless the other end is on this machine, and Error if it is a Unix
  /// socket of another user than this one or root.
  std::unique_ptr<Stream> protect(FileDescriptor socket, Side side) const;
  /// "a job key (fingerprint 1a2b3c4d)", "certificates of …", "nothing
  /// (insecure-loopback)" or "nothing chosen".
  std::string text() const;
  bool encrypted() const { return context_ != nullptr; }

 private:
  std::shared_ptr<const TlsContext> context_;
  bool insecure_loopback_ = false;
};

}  // namespace trireme::net
