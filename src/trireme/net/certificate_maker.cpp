#include "trireme/net/certificate_maker.h"

#include <array>
#include <cstdio>
#include <openssl/err.h>
#include <openssl/rand.h>

#include "trireme/core/error.h"
#include "trireme/net/tls_trouble.h"

namespace trireme::net {
namespace {

using SerialBytes = std::array<unsigned char, 16>;

// OpenSSL fails here only where memory or randomness has run out.
void check_made(bool made) {
  if (!made)
    throw Error(text(
        "[net] expected OpenSSL to make a certificate, got \"",
        take_openssl_error(),
        "\"; look at this machine's memory and at openssl.cnf"));
}

// Random, positive as a number, and never zero.
SerialBytes new_serial() {
  SerialBytes serial;
  check_made(RAND_bytes(serial.data(), serial.size()) == 1);
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x40);
  return serial;
}

void set_serial(X509* certificate, const SerialBytes& serial) {
  const std::unique_ptr<BIGNUM, FreeBy<BN_free>> number(
      BN_bin2bn(serial.data(), serial.size(), nullptr));
  check_made(
      number != nullptr &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr);
}

void set_validity(X509* certificate, Validity validity) {
  constexpr long kDaySeconds = 86400;
  constexpr long kLeewaySeconds = 600;  // clocks of machines differ
  check_made(
      X509_gmtime_adj(
          X509_getm_notBefore(certificate),
          validity.from_days * kDaySeconds - kLeewaySeconds) != nullptr &&
      X509_gmtime_adj(
          X509_getm_notAfter(certificate), validity.to_days * kDaySeconds) != nullptr);
}

// All but issuer, extensions and signature.
KeyedCertificate start_certificate(
    const std::string& name, const SerialBytes& serial, Validity validity) {
  ERR_clear_error();
  KeyedCertificate made{X509Ptr(X509_new()), PrivateKeyPtr(EVP_EC_gen("P-256"))};
  check_made(made.certificate != nullptr && made.key != nullptr);
  X509* certificate = made.certificate.get();
  set_serial(certificate, serial);
  set_validity(certificate, validity);
  check_made(
      X509_set_version(certificate, X509_VERSION_3) == 1 &&
      X509_NAME_add_entry_by_txt(
          X509_get_subject_name(certificate),
          "CN",
          MBSTRING_ASC,
          reinterpret_cast<const unsigned char*>(name.data()),
          static_cast<int>(name.size()),
          -1,
          0) == 1 &&
      X509_set_pubkey(certificate, made.key.get()) == 1);
  return made;
}

void add_extension(
    X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(
      X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  check_made(
      extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

void sign_certificate(X509* certificate, EVP_PKEY* key) {
  check_made(X509_sign(certificate, key, EVP_sha256()) > 0);
}

}  // namespace

KeyedCertificate new_authority(Validity validity) {
  const SerialBytes serial = new_serial();
  char name[40];
  std::snprintf(
      name,
      sizeof name,
      "Trireme authority %02x%02x%02x%02x",
      serial[1],
      serial[2],
      serial[3],
      serial[4]);
  KeyedCertificate made = start_certificate(name, serial, validity);
  X509* own = made.certificate.get();
  check_made(X509_set_issuer_name(own, X509_get_subject_name(own)) == 1);
  add_extension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(own, own, NID_subject_key_identifier, "hash");
  sign_certificate(own, made.key.get());
  return made;
}

KeyedCertificate new_worker(
    const KeyedCertificate& authority, const std::string& name, Validity validity) {
  KeyedCertificate made = start_certificate(name, new_serial(), validity);
  X509* own = made.certificate.get();
  X509* issuer = authority.certificate.get();
  // Nobody would take it after its authority has expired.
  if (ASN1_TIME_compare(X509_get0_notAfter(own), X509_get0_notAfter(issuer)) > 0)
    check_made(X509_set1_notAfter(own, X509_get0_notAfter(issuer)) == 1);
  check_made(X509_set_issuer_name(own, X509_get_subject_name(issuer)) == 1);
  add_extension(own, issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(own, issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(own, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(own, issuer, NID_subject_alt_name, "DNS:" + name);
  add_extension(own, issuer, NID_subject_key_identifier, "hash");
  add_extension(own, issuer, NID_authority_key_identifier, "keyid:always");
  sign_certificate(own, authority.key.get());
  return made;
}

}  // namespace trireme::net
