// The bare loop of OpenSSL; left out where OpenSSL is not there.
#include <algorithm>

#include "trireme/bench/net_end.h"
#include "trireme/core/error.h"
#include "trireme/net/tls_context.h"

namespace trireme::bench {
namespace {

class SslEnd : public ByteEnd {
 public:
  SslEnd(FileDescriptor socket, net::Side side, const net::JobKey& key)
      : socket_(std::move(socket)),
        key_(key),
        notes_(key_),
        context_(SSL_CTX_new(TLS_method())) {
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_session_id_context(
        context_.get(), net::kSessionUse, sizeof net::kSessionUse);
    net::use_job_key(*context_);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_app_data(ssl_.get(), &notes_);
    SSL_set_fd(ssl_.get(), socket_.get());
    check(side == net::Side::Dialer ? SSL_connect(ssl_.get()) : SSL_accept(ssl_.get()));
  }

 private:
  void check(int result) {
    if (result <= 0)
      throw Error(text(
          "[bench] expected OpenSSL to go on, got error ",
          SSL_get_error(ssl_.get(), result),
          "; look at the other worker"));
  }

  void write(std::span<const std::byte> bytes) override {
    size_t put = 0;
    check(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &put));
  }

  void read(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      size_t got = 0;
      check(SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &got));
      bytes = bytes.subspan(got);
    }
  }

  FileDescriptor socket_;
  net::JobKey key_;
  net::KeyNotes notes_;
  net::SslContextPtr context_;
  net::SslPtr ssl_;
};

}  // namespace

std::unique_ptr<NetEnd> ssl_end(
    FileDescriptor socket, net::Side side, const net::JobKey& key) {
  return std::make_unique<SslEnd>(std::move(socket), side, key);
}

}  // namespace trireme::bench
