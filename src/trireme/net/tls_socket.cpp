#include "trireme/net/tls_socket.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <sys/socket.h>

#include "trireme/core/error.h"

namespace trireme::net {
namespace {

// A batch, the record that went over its edge, and whatever a handshake says at once.
constexpr std::size_t kGatherCapacity = TlsSocket::kBatch + (std::size_t{32} << 10);

}  // namespace

struct TlsSocketCalls {
  static TlsSocket& of(BIO* bio) { return *static_cast<TlsSocket*>(BIO_get_data(bio)); }

  static int write(
      BIO* bio, const char* data, std::size_t bytes, std::size_t* written) {
    BIO_clear_retry_flags(bio);
    if (!of(bio).take(data, bytes))
      return 0;
    *written = bytes;
    return 1;
  }

  static int read(BIO* bio, char* into, std::size_t most, std::size_t* got) {
    BIO_clear_retry_flags(bio);
    return of(bio).receive(bio, into, most, got) ? 1 : 0;
  }

  static long control(BIO* bio, int what, long, void*) {
    if (what == BIO_CTRL_FLUSH)
      return 1;  // the stream does it, when it has a batch
    if (what == BIO_CTRL_EOF)
      return of(bio).ended_ ? 1 : 0;
    return 0;
  }
};

TlsSocket::TlsSocket(FileDescriptor socket)
    : socket_(std::move(socket)),
      gathered_(std::make_unique_for_overwrite<char[]>(kGatherCapacity)) {}

BioMethodPtr TlsSocket::make_method() {
  BioMethodPtr method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "trireme socket"));
  if (method == nullptr)
    throw std::bad_alloc();
  BIO_meth_set_write_ex(method.get(), TlsSocketCalls::write);
  BIO_meth_set_read_ex(method.get(), TlsSocketCalls::read);
  BIO_meth_set_ctrl(method.get(), TlsSocketCalls::control);
  return method;
}

BioPtr TlsSocket::make_bio(const BIO_METHOD* method) {
  BioPtr bio(BIO_new(method));
  if (bio == nullptr)
    throw std::bad_alloc();
  BIO_set_data(bio.get(), this);
  BIO_set_init(bio.get(), 1);
  return bio;
}

bool TlsSocket::flush() {
  begin_ += send_some(gathered_.get() + begin_, end_ - begin_);
  if (begin_ < end_)
    return false;
  begin_ = end_ = 0;
  return true;
}

// As far as the socket takes it.
std::size_t TlsSocket::send_some(const char* data, std::size_t bytes) {
  std::size_t sent = 0;
  while (sent < bytes) {
    const ssize_t put =
        ::send(fd(), data + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        error_ = errno;
      break;
    }
    sent += static_cast<std::size_t>(put);
  }
  return sent;
}

bool TlsSocket::take(const char* data, std::size_t bytes) {
  if (at_once_ && begin_ == end_) {
    const std::size_t sent = send_some(data, bytes);
    data += sent;
    bytes -= sent;
  }
  if (bytes > kGatherCapacity - end_ && begin_ > 0) {
    std::memmove(gathered_.get(), gathered_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  // Streams write no more before all is sent; only a peer that asks for new keys again
  // and again, and never reads the answers, gets here.
  if (bytes > kGatherCapacity - end_) {
    error_ = ENOBUFS;
    return false;
  }
  std::memcpy(gathered_.get() + end_, data, bytes);
  end_ += bytes;
  return true;
}

bool TlsSocket::receive(BIO* bio, char* into, std::size_t most, std::size_t* got) {
  ssize_t count = 0;
  do
    count = ::recv(fd(), into, most, MSG_DONTWAIT);
  while (count < 0 && errno == EINTR);
  if (count > 0) {
    *got = static_cast<std::size_t>(count);
    heard_ = true;
    return true;
  }
  if (count == 0)
    ended_ = true;
  else if (errno == EAGAIN || errno == EWOULDBLOCK)
    BIO_set_retry_read(bio);
  else
    error_ = errno;
  return false;
}

void TlsSocket::show_tls() {
  // The fatal alert protocol_version (RFC 8446, 6.2).
  constexpr char kAlert[] = {0x15, 0x03, 0x03, 0, 2, 2, 70};
  send_some(kAlert, sizeof kAlert);
  // Closing over bytes that nobody has read would take it back.
  char unread[4096];
  (void)!::recv(fd(), unread, sizeof unread, MSG_DONTWAIT);
}

std::string TlsSocket::trouble() const {
  // What breaks afterwards, when the other side is told, is no news.
  if (ended_)
    return "the other side closed without a goodbye";
  return error_ != 0 ? errno_text(error_) : "";
}

}  // namespace trireme::net
