// Certificates and private keys as PEM: read from files, written to text.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trireme/net/openssl.h"
#include "trireme/net/secret_file.h"

namespace trireme::net {

/// All certificates of a file, at least one. InvalidArgument if it holds none, or a
/// broken one.
std::vector<X509Ptr> read_pem_certificates(const std::filesystem::path& path);

/// The private key of a file that only its owner may read. InvalidArgument for another
/// file, and for a key under a passphrase, which nobody is there to type.
PrivateKeyPtr read_pem_key(const std::filesystem::path& path);

/// The text of a file. Throws std::bad_alloc where memory has run out.
std::string pem_of(const X509& certificate);
SecretText pem_of(const EVP_PKEY& key);

}  // namespace trireme::net
