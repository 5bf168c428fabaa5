// Certificates for tests, made once a folder.
#pragma once
#include <string>

#include "trireme/net/certificates.h"
#include "trireme/net/security.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::net {

/// An authority with as many workers as a test wants.
class TestAuthority {
 public:
  TestAuthority() { make_authority(folder_.path() / "ca", {.to_days = 10}); }

  CertificateFiles files(const std::string& name, Validity validity = {.to_days = 5}) {
    return make_certificate(
        folder_.path() / "ca",
        name,
        validity,
        folder_.path() / std::to_string(++made_));
  }
  Security worker(const std::string& name, Validity validity = {.to_days = 5}) {
    return Security::certificates(files(name, validity));
  }

 private:
  testing::ScratchFolder folder_;
  int made_ = 0;
};

}  // namespace trireme::net
