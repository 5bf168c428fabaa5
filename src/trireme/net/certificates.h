// A small authority of one's own: certificates for the workers of a job.
#pragma once
#include <filesystem>
#include <string>

namespace trireme::net {

/// The certificate of one worker, its key and the authority that it trusts, as PEM
/// files.
struct CertificateFiles {
  std::filesystem::path authority;
  std::filesystem::path certificate;
  std::filesystem::path private_key;
};

/// When a certificate is valid, in days from now: up to 100 years.
struct Validity {
  int from_days = 0;
  int to_days = 365;
};

/// Makes a new authority in a folder, which is made if it is not there: `ca.pem`, which
/// every worker gets, and `ca.key`, which nobody gets. InvalidArgument if there is one
/// already. NotSupported in a build without OpenSSL, as below.
///
///     make_authority("keys", {.to_days = 3650});
///     make_certificate("keys", "trainer0", {.to_days = 365}, "keys/trainer0");
void make_authority(const std::filesystem::path& folder, Validity validity);

/// Makes a key (P-256) and a certificate for one worker, signed by the authority in a
/// folder: `NAME.key`, `NAME.pem` and a copy of `ca.pem` in the folder `output`, all
/// that this worker needs. The certificate is good for both ends of a connection, bears
/// the name and ends with its authority at the latest. InvalidArgument for a name that
/// is not 1 to 63 letters, digits, '.', '-' or '_', begins or ends with a dot, or has a
/// certificate there already.
CertificateFiles make_certificate(
    const std::filesystem::path& authority,
    const std::string& name,
    Validity validity,
    const std::filesystem::path& output);

}  // namespace trireme::net
