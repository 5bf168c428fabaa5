// One connection under TLS.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "trireme/net/tls_context.h"
#include "trireme/net/tls_socket.h"
#include "trireme/net/tls_trouble.h"

namespace trireme::net {

/// See TlsContext::stream(). When it says Blocked, nothing that has arrived is left
/// inside: the next edge of the socket is enough to go on.
class TlsStream final : public Stream {
 public:
  /// AES-GCM may encrypt 2^24.5 records with one key (RFC 8446, 5.5); long before, each
  /// side takes a new one for what it sends: after 64 GiB.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

  TlsStream(
      std::shared_ptr<const TlsContext> context, FileDescriptor socket, Side side);

  Io handshake() override;
  Io read(std::span<const iovec> parts) override;
  Io write(std::span<const iovec> parts) override;
  void shut_down() override;
  void check_name(const std::string& name) const override;
  std::string trouble() const override { return trouble_; }
  bool heard() const override { return socket_.heard(); }
  int fd() const override { return socket_.fd(); }

  /// For tests, which cannot send 64 GiB.
  void set_records_per_key(std::uint64_t records) { records_per_key_ = records; }
  SSL* ssl_for_tests() { return ssl_.get(); }

 private:
  Io failed_handshake(int result);
  Io failed_reading();
  Io stopped_sending();
  Io closed(std::string why);
  [[noreturn]] void refuse(const TlsTrouble& why);
  void check_agreement();
  bool write_record(std::span<const char> record);

  std::shared_ptr<const TlsContext> context_;
  std::optional<KeyNotes> notes_;
  TlsSocket socket_;
  SslPtr ssl_;
  std::vector<char> scratch_;
  std::string trouble_;
  std::uint64_t records_ = 0;
  std::uint64_t records_per_key_ = kRecordsPerKey;
  bool through_ = false;
  /// Whether TLS has found something wrong: nothing more is read or written.
  bool failed_ = false;
  /// Whether the last byte that was encrypted has not been counted as taken yet.
  bool owes_byte_ = false;
};

}  // namespace trireme::net
