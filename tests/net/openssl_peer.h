// A peer made straight from OpenSSL, which does what Trireme's own never would.
#pragma once
#include <functional>
#include <openssl/err.h>
#include <string>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "trireme/core/file_descriptor.h"
#include "trireme/net/openssl.h"
#include "trireme/net/stream.h"

namespace trireme::net {

/// One side of a connection, driven in turns with a Stream.
class OpenSslPeer {
 public:
  using Configure = std::function<void(SSL_CTX*)>;

  OpenSslPeer(FileDescriptor socket, Side side, const Configure& configure)
      : socket_(std::move(socket)), context_(SSL_CTX_new(TLS_method())) {
    configure(context_.get());
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (side == Side::Dialer)
      SSL_set_connect_state(ssl_.get());
    else
      SSL_set_accept_state(ssl_.get());
  }

  SSL* ssl() { return ssl_.get(); }

  /// Goes on with the handshake; true when it is through. `error()` says if it never
  /// will be.
  bool handshake() {
    receive();
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    note(result);
    send();
    return result == 1;
  }

  std::string read() {
    receive();
    ERR_clear_error();
    char bytes[70'000];
    const int got = SSL_read(ssl_.get(), bytes, sizeof bytes);
    note(got);
    send();
    return got > 0 ? std::string(bytes, static_cast<std::size_t>(got)) : "";
  }

  void write(const std::string& bytes) {
    SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    send();
  }

  /// What OpenSSL said to the last failure.
  const std::string& error() const { return error_; }

 private:
  void receive() {
    char bytes[70'000];
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0)
      BIO_write(SSL_get_rbio(ssl_.get()), bytes, static_cast<int>(got));
  }

  void send() {
    char bytes[70'000];
    const int some = BIO_read(SSL_get_wbio(ssl_.get()), bytes, sizeof bytes);
    if (some > 0)  // the other side may be gone
      (void)::send(socket_.get(), bytes, static_cast<std::size_t>(some), MSG_NOSIGNAL);
  }

  void note(int result) {
    if (result <= 0 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_SSL)
      error_ = ERR_reason_error_string(ERR_peek_error());
  }

  FileDescriptor socket_;
  SslContextPtr context_;
  SslPtr ssl_;
  std::string error_;
};

}  // namespace trireme::net
