// One end of a connection between two processes, however its bytes travel.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "trireme/core/deadline.h"
#include "trireme/core/file_descriptor.h"
#include "trireme/net/job_key.h"
#include "trireme/net/stream.h"

namespace trireme::bench {

/// What a measurement needs of a connection. One side asks, the other serves.
///
///     end->ask(question, answer);          // rank 0, under the clock
///     end->serve(100, question, answer);   // rank 1
class NetEnd {
 public:
  virtual ~NetEnd() = default;
  /// Sends the message, and waits until a reply has filled `reply`.
  virtual void ask(std::span<const std::byte> message, std::span<std::byte> reply) = 0;
  /// Answers so many messages, each as long as `message`, which they fill.
  virtual void serve(
      int count, std::span<std::byte> message, std::span<const std::byte> reply) = 0;
};

/// One that moves bytes and knows nothing of messages: both sides know how long they
/// are.
class ByteEnd : public NetEnd {
 public:
  void ask(std::span<const std::byte> message, std::span<std::byte> reply) final;
  void serve(
      int count, std::span<std::byte> message, std::span<const std::byte> reply) final;

 private:
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void read(std::span<std::byte> bytes) = 0;
};

/// A connected socket of 127.0.0.1 that blocks and does not wait for more to send: the
/// acceptor listens at that port, the dialer tries until somebody does.
FileDescriptor meet_at(int port, net::Side side, const Deadline& deadline);

/// The limit without protection: send() and recv() on the socket, and nothing else.
std::unique_ptr<NetEnd> raw_end(FileDescriptor socket);

/// The limit of TLS: SSL_write and SSL_read on the socket, with the cipher and the kind
/// of key that Trireme has. NotSupported in a build without OpenSSL.
std::unique_ptr<NetEnd> ssl_end(
    FileDescriptor socket, net::Side side, const net::JobKey& key);

}  // namespace trireme::bench
