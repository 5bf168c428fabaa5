#include "trireme/net/certificate_maker.h"

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

// X509_V_OK, or why a certificate is not taken for this purpose.
int verdict(const X509Ptr& certificate, const X509Ptr& authority, int purpose) {
  const std::unique_ptr<X509_STORE, FreeBy<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), authority.get());
  X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  // As strict as can be: all that RFC 5280 wants must be there.
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

TEST(CertificateMaker, MakesWhatIsGoodForBothEnds) {
  const KeyedCertificate authority = new_authority({.to_days = 10});
  const KeyedCertificate worker = new_worker(authority, "w0", {.to_days = 5});
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER})
    EXPECT_EQ(verdict(worker.certificate, authority.certificate, purpose), X509_V_OK);
  EXPECT_NE(
      verdict(worker.certificate, authority.certificate, X509_PURPOSE_SMIME_SIGN),
      X509_V_OK);
  EXPECT_EQ(X509_check_private_key(worker.certificate.get(), worker.key.get()), 1);
  EXPECT_EQ(EVP_PKEY_get_bits(worker.key.get()), 256);
}

TEST(CertificateMaker, MakesAuthoritiesThatDiffer) {
  const KeyedCertificate one = new_authority({.to_days = 10});
  const KeyedCertificate two = new_authority({.to_days = 10});
  EXPECT_NE(
      X509_NAME_cmp(
          X509_get_subject_name(one.certificate.get()),
          X509_get_subject_name(two.certificate.get())),
      0);
  const KeyedCertificate worker = new_worker(one, "w0", {.to_days = 5});
  EXPECT_NE(
      verdict(worker.certificate, two.certificate, X509_PURPOSE_SSL_SERVER), X509_V_OK);
  const KeyedCertificate other = new_worker(one, "w0", {.to_days = 5});
  EXPECT_NE(
      ASN1_INTEGER_cmp(
          X509_get0_serialNumber(worker.certificate.get()),
          X509_get0_serialNumber(other.certificate.get())),
      0);
}

TEST(CertificateMaker, KeepsToTheDays) {
  const KeyedCertificate authority = new_authority({.to_days = 10});
  const auto verdict_of = [&authority](Validity validity) {
    return verdict(
        new_worker(authority, "w0", validity).certificate,
        authority.certificate,
        X509_PURPOSE_SSL_SERVER);
  };
  EXPECT_EQ(verdict_of({.to_days = 1}), X509_V_OK);
  EXPECT_EQ(verdict_of({.from_days = -2, .to_days = -1}), X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(verdict_of({.from_days = 1, .to_days = 2}), X509_V_ERR_CERT_NOT_YET_VALID);
}

TEST(CertificateMaker, EndsAWorkerWithItsAuthority) {
  const KeyedCertificate authority = new_authority({.to_days = 10});
  const KeyedCertificate worker = new_worker(authority, "w0", {.to_days = 500});
  EXPECT_EQ(
      ASN1_TIME_compare(
          X509_get0_notAfter(worker.certificate.get()),
          X509_get0_notAfter(authority.certificate.get())),
      0);
}

}  // namespace
}  // namespace trireme::net
