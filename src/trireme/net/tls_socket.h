// The socket under a TLS stream, as OpenSSL sees it.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "trireme/core/file_descriptor.h"
#include "trireme/net/openssl.h"

namespace trireme::net {

/// Gathers what OpenSSL writes and sends several records at a time; reads straight from
/// the socket. OpenSSL's own BIO for sockets makes a system call for each record, and
/// raises SIGPIPE. Since it takes all that OpenSSL writes, a record is never half
/// written from there: what has been encrypted is on its way, and the stream can count
/// it.
class TlsSocket {
 public:
  /// From so many bytes on it is time to send.
  static constexpr std::size_t kBatch = std::size_t{64} << 10;

  explicit TlsSocket(FileDescriptor socket);

  /// What OpenSSL needs to know of this class; it must outlive all BIOs.
  static BioMethodPtr make_method();
  /// This socket for an SSL; it must outlive the BIO.
  BioPtr make_bio(const BIO_METHOD* method);

  /// Sends what was gathered, as far as the socket takes it. True if nothing is left.
  bool flush();
  /// Says in plain bytes that this side speaks TLS alone: a peer that speaks none would
  /// take a connection that only closes for a break, and try again and again.
  void show_tls();
  /// Whether what OpenSSL writes is sent at once where nothing was gathered, which
  /// saves a copy: worth it for a record that comes alone.
  void send_at_once(bool whether) { at_once_ = whether; }
  std::size_t gathered() const { return end_ - begin_; }

  /// Whether anything has come yet.
  bool heard() const { return heard_; }
  /// Whether the system says that the connection is gone.
  bool broken() const { return error_ != 0; }
  /// Whether the other side sends no more; that alone does not stop us from sending.
  bool ended() const { return ended_; }
  /// Why one of both is so, for messages; an end counts as trouble, because TLS says
  /// goodbye before it.
  std::string trouble() const;
  int fd() const { return socket_.get(); }

 private:
  friend struct TlsSocketCalls;
  std::size_t send_some(const char* data, std::size_t bytes);
  bool take(const char* data, std::size_t bytes);
  bool receive(BIO* bio, char* into, std::size_t most, std::size_t* got);

  FileDescriptor socket_;
  std::unique_ptr<char[]> gathered_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  int error_ = 0;
  bool heard_ = false;
  bool ended_ = false;
  bool at_once_ = false;
};

}  // namespace trireme::net
