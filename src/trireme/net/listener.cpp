#include "trireme/net/listener.h"

#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace trireme::net {
namespace {

// Enough for one turn; a flood must not keep sessions waiting.
constexpr int kTurn = 64;
constexpr auto kRest = std::chrono::milliseconds(100);

bool is_shortage(int code) {
  return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

}  // namespace

Listener::Listener(Reactor& reactor, FileDescriptor socket, Take take)
    : reactor_(reactor),
      socket_(std::move(socket)),
      take_(std::move(take)),
      address_(local_endpoint(fd()).address()) {}

Listener::~Listener() {
  // A file for its name is ours to remove.
  if (address_.kind == Address::Kind::Unix && address_.host[0] == '/')
    ::unlink(address_.host.c_str());
}

void Listener::ready() {
  for (int i = 0; i < kTurn && !resting_; ++i) {
    FileDescriptor socket(
        ::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int code = errno;
    if (socket.get() >= 0)
      take_(std::move(socket));
    else if (code == EAGAIN || code == EWOULDBLOCK)
      return;
    else if (is_shortage(code))
      return rest();
  }
  if (!resting_)
    reactor_.again(fd());
}

// No event would tell when there is room again. Those who connect meanwhile wake us in
// vain, and must not each bring another timer.
void Listener::rest() {
  resting_ = true;
  reactor_.at(Reactor::Clock::now() + kRest, [this, weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      resting_ = false;
      reactor_.again(fd());
    }
  });
}

}  // namespace trireme::net
