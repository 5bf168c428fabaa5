#include "trireme/net/pem.h"

#include <algorithm>
#include <new>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string_view>

#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/tls_trouble.h"

namespace trireme::net {
namespace {

constexpr std::size_t kMostPem = std::size_t{1} << 20;

[[noreturn]] void refuse_pem(
    const std::filesystem::path& path, const char* what, const std::string& got) {
  throw InvalidArgument(text(
      "[net] expected ",
      what,
      " as PEM in ",
      in_quotes(path.string()),
      ", got ",
      got,
      "; make such files with trireme keys"));
}

// OpenSSL would ask for a passphrase on the terminal.
int refuse_passphrase(char*, int, int, void*) {
  return -1;
}

BioPtr bio_of(std::string_view bytes) {
  BioPtr bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  if (bio == nullptr)
    throw std::bad_alloc();
  return bio;
}

std::string_view view_of(BIO* bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(bytes)};
}

}  // namespace

std::vector<X509Ptr> read_pem_certificates(const std::filesystem::path& path) {
  const std::string pem = read_file(path, kMostPem);
  const BioPtr bio = bio_of(pem);
  std::vector<X509Ptr> certificates;
  ERR_clear_error();
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, refuse_passphrase, nullptr))
    certificates.emplace_back(one);
  // Its way to say that nothing more comes.
  const unsigned long error = ERR_peek_last_error();
  const bool ended =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  const std::string reason = take_openssl_error();
  if (!ended)
    refuse_pem(path, "certificates", reason);
  if (certificates.empty())
    refuse_pem(path, "a certificate", "none");
  return certificates;
}

PrivateKeyPtr read_pem_key(const std::filesystem::path& path) {
  const SecretText pem = read_secret(path, "a private key", kMostPem);
  const BioPtr bio = bio_of(pem.view());
  ERR_clear_error();
  PrivateKeyPtr key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_passphrase, nullptr));
  const std::string reason = take_openssl_error();
  if (key == nullptr)
    refuse_pem(path, "a private key without passphrase", reason);
  return key;
}

std::string pem_of(const X509& certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), &certificate) != 1)
    throw std::bad_alloc();
  return std::string(view_of(bio.get()));
}

SecretText pem_of(const EVP_PKEY& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));  // it wipes what it frees
  if (bio == nullptr ||
      PEM_write_bio_PrivateKey(
          bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    throw std::bad_alloc();
  const std::string_view bytes = view_of(bio.get());
  SecretText pem(bytes.size());
  std::copy(bytes.begin(), bytes.end(), pem.data());
  return pem;
}

}  // namespace trireme::net
