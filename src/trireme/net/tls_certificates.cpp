// TLS with certificates: what they are loaded from, and whose names they bear.
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/pem.h"
#include "trireme/net/tls_context.h"
#include "trireme/net/tls_trouble.h"

namespace trireme::net {
namespace {

[[noreturn]] void refuse_certificates(
    const std::filesystem::path& path, const std::string& what) {
  const std::string got = take_openssl_error();
  throw InvalidArgument(text(
      "[net] expected ",
      what,
      " in ",
      in_quotes(path.string()),
      ", got \"",
      got,
      "\"; make such files with trireme keys"));
}

// OpenSSL reads the extensions of a certificate when it first needs them. Done here,
// many threads can share it later without one of them writing.
std::vector<X509Ptr> read_all(const std::filesystem::path& path) {
  auto certificates = read_pem_certificates(path);
  for (const X509Ptr& certificate : certificates)
    X509_check_purpose(certificate.get(), -1, 0);
  return certificates;
}

}  // namespace

void use_certificates(SSL_CTX& context, const CertificateFiles& files) {
  X509_STORE* trusted = SSL_CTX_get_cert_store(&context);
  const auto authorities = read_all(files.authority);
  for (const X509Ptr& authority : authorities)
    if (X509_STORE_add_cert(trusted, authority.get()) != 1)
      refuse_certificates(files.authority, "an authority");
  const auto chain = read_all(files.certificate);
  const PrivateKeyPtr key = read_pem_key(files.private_key);
  ERR_clear_error();
  bool taken = SSL_CTX_use_certificate(&context, chain[0].get()) == 1;
  for (std::size_t i = 1; i < chain.size(); ++i)
    taken = taken && SSL_CTX_add1_chain_cert(&context, chain[i].get()) == 1;
  if (!taken)
    refuse_certificates(files.certificate, "a certificate of a worker");
  if (SSL_CTX_use_PrivateKey(&context, key.get()) != 1 ||
      SSL_CTX_check_private_key(&context) != 1)
    refuse_certificates(
        files.private_key,
        text("the private key of ", in_quotes(files.certificate.string())));
}

std::vector<std::string> names_in(const X509& certificate) {
  std::vector<std::string> all;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* one = sk_GENERAL_NAME_value(names.get(), i);
    if (one->type != GEN_DNS)
      continue;
    const ASN1_IA5STRING* dns = one->d.dNSName;
    all.emplace_back(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(dns)),
        static_cast<std::size_t>(ASN1_STRING_length(dns)));
  }
  return all;
}

}  // namespace trireme::net
