// What TLS and certificates say in a build without OpenSSL.
#include "trireme/core/error.h"
#include "trireme/net/certificates.h"
#include "trireme/net/tls.h"

namespace trireme::net {
namespace {

[[noreturn]] void refuse_without_openssl(const char* what) {
  throw NotSupported(text(
      "[net] expected a build with OpenSSL for ",
      what,
      ", got one without; install libssl-dev, configure again with TRIREME_TLS=ON, and "
      "build"));
}

}  // namespace

struct TlsContext::Parts {};

bool has_tls() {
  return false;
}

std::shared_ptr<const TlsContext> TlsContext::of_job_key(const JobKey&) {
  refuse_without_openssl("connections under a job key");
}

std::shared_ptr<const TlsContext> TlsContext::of_certificates(const CertificateFiles&) {
  refuse_without_openssl("connections under certificates");
}

TlsContext::~TlsContext() = default;

std::unique_ptr<Stream> TlsContext::stream(FileDescriptor, Side) const {
  refuse_without_openssl("TLS");
}

std::string TlsContext::text() const {
  return "nothing";
}

void make_authority(const std::filesystem::path&, Validity) {
  refuse_without_openssl("an authority");
}

CertificateFiles make_certificate(
    const std::filesystem::path&,
    const std::string&,
    Validity,
    const std::filesystem::path&) {
  refuse_without_openssl("certificates");
}

}  // namespace trireme::net
