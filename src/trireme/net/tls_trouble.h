// What OpenSSL has against a peer, in words that help.
#pragma once
#include <openssl/err.h>
#include <string>

#include "trireme/net/openssl.h"

namespace trireme::net {

struct KeyNotes;

/// What came in place of a good peer, and what to do about it: an error says "got " and
/// "; " before them.
struct TlsTrouble {
  std::string got;
  std::string remedy;
  /// Whether the other side speaks no TLS at all; OpenSSL tells it nothing.
  bool no_tls = false;
};

/// The first of the errors that wait in this thread's queue, in OpenSSL's own words.
/// The queue is empty afterwards: what is left there would be taken for a later call's.
std::string take_openssl_error();

/// The same of a stream that failed, in ours; `notes` are null where there is no job
/// key.
TlsTrouble take_tls_trouble(const SSL& ssl, const KeyNotes* notes);

}  // namespace trireme::net
