// OpenSSL's objects, owned. Only for sources that are left out where OpenSSL is not
// there.
#pragma once
#include <memory>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace trireme::net {

template <auto kFree>
struct FreeBy {
  template <class Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using BioMethodPtr = std::unique_ptr<BIO_METHOD, FreeBy<BIO_meth_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, FreeBy<SSL_free>>;
using SslSessionPtr = std::unique_ptr<SSL_SESSION, FreeBy<SSL_SESSION_free>>;
using X509Ptr = std::unique_ptr<X509, FreeBy<X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>>;
using GeneralNamesPtr = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;

}  // namespace trireme::net
