#include "trireme/net/certificates.h"

#include <algorithm>
#include <cerrno>
#include <openssl/err.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/certificate_maker.h"
#include "trireme/net/pem.h"
#include "trireme/net/secret_file.h"

namespace trireme::net {
namespace {

constexpr const char* kAuthorityFile = "ca.pem";
constexpr const char* kAuthorityKeyFile = "ca.key";

void check_validity(Validity validity) {
  constexpr int kMostDays = 36500;
  if (validity.to_days <= validity.from_days || validity.to_days > kMostDays ||
      validity.from_days < -kMostDays)
    throw InvalidArgument(text(
        "[net] expected a certificate to be valid for 1 to 36500 days, got day ",
        validity.from_days,
        " to day ",
        validity.to_days,
        "; choose the days anew"));
}

void check_worker_name(const std::string& name) {
  constexpr std::size_t kMostBytes = 63;
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '.' || c == '-' || c == '_';
  });
  // Its files shall be plain to see, and not be taken for an option or the authority.
  const bool edges = !name.empty() && name.front() != '.' && name.front() != '-' &&
                     name.back() != '.' && name != "ca";
  if (!letters || !edges || name.size() > kMostBytes)
    throw InvalidArgument(text(
        "[net] expected the name of a worker as 1 to 63 letters, digits, '.', '-' or "
        "'_' "
        "(no dot at either end, no dash in front, and not ca), got ",
        in_quotes(name),
        "; choose another name"));
}

// The folders above are as the user's others; the last one, if it is new, is private.
void make_private_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const auto full = std::filesystem::absolute(folder).lexically_normal();
  std::filesystem::create_directories(full.parent_path(), error);
  if (::mkdir(full.c_str(), 0700) != 0 &&
      (errno != EEXIST || !std::filesystem::is_directory(full, error)))
    throw InvalidArgument(text(
        "[net] expected to make the folder ",
        in_quotes(folder.string()),
        ", got ",
        errno_text(errno),
        "; check the path and its permissions"));
}

// Both files or none.
void write_pair(
    const KeyedCertificate& made,
    const std::filesystem::path& certificate,
    const std::filesystem::path& key) {
  write_new_file(key, pem_of(*made.key).view(), 0600);
  try {
    write_new_file(certificate, pem_of(*made.certificate), 0644);
  } catch (...) {
    ::unlink(key.c_str());
    throw;
  }
  sync_folder(key.parent_path());
}

KeyedCertificate read_authority(const std::filesystem::path& folder) {
  KeyedCertificate authority{
      std::move(read_pem_certificates(folder / kAuthorityFile).front()),
      read_pem_key(folder / kAuthorityKeyFile)};
  const bool pair =
      X509_check_private_key(authority.certificate.get(), authority.key.get()) == 1;
  ERR_clear_error();
  if (!pair)
    throw InvalidArgument(text(
        "[net] expected the private key of ca.pem in ",
        in_quotes((folder / kAuthorityKeyFile).string()),
        ", got another; take both files from where the authority was made"));
  return authority;
}

// Several workers may share a folder, but not with another authority's.
void copy_authority(const X509& authority, const std::filesystem::path& to) {
  const std::string pem = pem_of(authority);
  std::error_code ignored;
  if (!std::filesystem::exists(to, ignored))
    return write_new_file(to, pem, 0644);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;
  if (read_file(to, kMostBytes) != pem)
    throw InvalidArgument(text(
        "[net] expected the certificate of this authority in ",
        in_quotes(to.string()),
        ", got another; choose another folder"));
}

}  // namespace

void make_authority(const std::filesystem::path& folder, Validity validity) {
  check_validity(validity);
  make_private_folder(folder);
  write_pair(
      new_authority(validity), folder / kAuthorityFile, folder / kAuthorityKeyFile);
}

CertificateFiles make_certificate(
    const std::filesystem::path& authority,
    const std::string& name,
    Validity validity,
    const std::filesystem::path& output) {
  check_validity(validity);
  check_worker_name(name);
  const KeyedCertificate issuer = read_authority(authority);
  CertificateFiles files{
      .authority = output / kAuthorityFile,
      .certificate = output / (name + ".pem"),
      .private_key = output / (name + ".key")};
  make_private_folder(output);
  copy_authority(*issuer.certificate, files.authority);
  write_pair(new_worker(issuer, name, validity), files.certificate, files.private_key);
  return files;
}

}  // namespace trireme::net
