#include "trireme/net/stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <sys/socket.h>

#include "trireme/core/error.h"

namespace trireme::net {
namespace {

class PlainStream : public Stream {
 public:
  PlainStream(FileDescriptor socket, std::function<void(int)> check)
      : socket_(std::move(socket)), check_(std::move(check)) {}

  Io handshake() override {
    if (check_)
      check_(fd());
    return {.state = Io::State::Done};
  }

  Io read(std::span<const iovec> parts) override {
    parts = without_empty_front(parts);
    // Where nothing is asked for, zero bytes do not mean the end.
    if (parts.empty())
      return {.state = Io::State::Done};
    msghdr message = header_of(parts);
    ssize_t got = 0;
    do
      got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    heard_ = heard_ || got > 0;
    return got == 0 ? Io{.state = Io::State::Closed} : outcome(got);
  }

  Io write(std::span<const iovec> parts) override {
    parts = without_empty_front(parts);
    if (parts.empty())
      return {.state = Io::State::Done};
    msghdr message = header_of(parts);
    ssize_t put = 0;
    do
      put = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return outcome(put);
  }

  // The system sees to that.
  bool is_two_way() const override { return true; }
  void shut_down() override { ::shutdown(fd(), SHUT_WR); }

  // Who may connect at all is this user on this machine: see Security.
  void check_name(const std::string&) const override {}

  std::string trouble() const override {
    const int code = trouble_;
    return code == 0 ? "" : errno_text(code);
  }
  bool heard() const override { return heard_; }
  int fd() const override { return socket_.get(); }

 private:
  static std::span<const iovec> without_empty_front(std::span<const iovec> parts) {
    while (!parts.empty() && parts.front().iov_len == 0)
      parts = parts.subspan(1);
    return parts;
  }

  static msghdr header_of(std::span<const iovec> parts) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());  // the system only reads it
    message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
    return message;
  }

  Io outcome(ssize_t moved) {
    if (moved >= 0)
      return {.state = Io::State::Done, .bytes = static_cast<std::size_t>(moved)};
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return {.state = Io::State::Blocked};
    trouble_ = errno;
    return {.state = Io::State::Closed};
  }

  FileDescriptor socket_;
  std::function<void(int)> check_;
  bool heard_ = false;
  std::atomic<int> trouble_ = 0;  // set by either direction
};

}  // namespace

std::unique_ptr<Stream> plain_stream(
    FileDescriptor socket, std::function<void(int)> check) {
  return std::make_unique<PlainStream>(std::move(socket), std::move(check));
}

}  // namespace trireme::net
