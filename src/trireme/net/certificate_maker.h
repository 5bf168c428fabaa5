// Certificates in memory: keys, contents and signatures. Files are certificates.h's.
#pragma once
#include <string>

#include "trireme/net/certificates.h"
#include "trireme/net/openssl.h"

namespace trireme::net {

struct KeyedCertificate {
  X509Ptr certificate;
  PrivateKeyPtr key;
};

/// A new authority, with a name that no other has. It may sign workers, not
/// authorities.
KeyedCertificate new_authority(Validity validity);

/// A new certificate with its key, signed by `authority`. The name is not checked here.
KeyedCertificate new_worker(
    const KeyedCertificate& authority, const std::string& name, Validity validity);

}  // namespace trireme::net
