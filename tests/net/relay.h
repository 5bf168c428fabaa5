// A wire in the middle that can be cut, held, or made to lie.
#pragma once
#include <atomic>
#include <climits>
#include <list>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "trireme/net/address.h"

namespace trireme::net {

/// Listens on loopback and passes bytes on to `target`, one thread for all connections.
class Relay {
 public:
  explicit Relay(const Address& target)
      : target_(resolve(target).front()),
        socket_(listen_at(resolve(Address::tcp("127.0.0.1", 0)).front(), 16)),
        address_(local_endpoint(socket_.get()).address()),
        thread_([this] { run(); }) {}
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  const Address& address() const { return address_; }
  /// Closes all connections; new ones may come.
  void cut() { cut_ = true; }
  /// Passes nothing on until it is released; connections stay open.
  void hold(bool held) { held_ = held; }
  /// Accepts nobody.
  void refuse(bool refused) { refused_ = refused; }
  /// Accepts nobody after so many.
  void accept_only(int connections) { most_connections_ = connections; }
  /// Flips one bit of the byte at this place of the stream towards the target, of the
  /// first connection that comes so far.
  void flip(std::int64_t at) { flip_at_ = at; }
  /// The same of the stream back from it.
  void flip_back(std::int64_t at) { flip_back_at_ = at; }
  /// How many bits it has flipped.
  int flips() const { return flips_; }
  /// Of each connection passes only so much towards the target, then nothing, as where
  /// short packets pass and long ones do not.
  void starve_after(std::int64_t bytes) { most_ = bytes; }
  /// Bytes towards the target, of the connection that was last to send any.
  std::int64_t passed() const { return passed_; }
  /// The same of those back from it.
  std::int64_t passed_back() const { return passed_back_; }
  int connections() const { return connections_; }
  /// Whether there was one, and none is left.
  bool over() const { return connections_ > 0 && open_ == 0; }
  /// Passes at most so many bytes a look, to cut frames in pieces.
  void set_step(std::size_t bytes) { step_ = bytes; }

 private:
  struct Pipe {
    FileDescriptor from, to;
    std::int64_t passed = 0, passed_back = 0;
  };
  bool pass(
      int from, int to, std::atomic<std::int64_t>& flip_at, std::int64_t& passed) {
    std::vector<char> bytes(step_);
    const auto count = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN))
      return false;
    if (count < 0)
      return true;
    if (const auto at = flip_at.load(); at >= passed && at < passed + count) {
      bytes[static_cast<std::size_t>(at - passed)] ^= 4;
      flip_at = -1;
      ++flips_;
    }
    passed += count;
    for (std::size_t at = 0; at < static_cast<std::size_t>(count);) {
      const auto sent = ::send(
          to, bytes.data() + at, static_cast<std::size_t>(count) - at, MSG_NOSIGNAL);
      if (sent <= 0)
        return false;
      at += static_cast<std::size_t>(sent);
    }
    return true;
  }
  void accept() {
    FileDescriptor from(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (from.get() < 0 || refused_ || connections_ >= most_connections_)
      return;
    FileDescriptor to(::socket(target_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(
            to.get(),
            reinterpret_cast<const sockaddr*>(&target_.storage),
            target_.length) != 0)
      return;
    // Pieces of frames shall not wait for one another.
    const int one = 1;
    for (const FileDescriptor* end : {&from, &to})
      ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    ++open_;
    ++connections_;
    pipes_.push_back({std::move(from), std::move(to)});
  }
  void run() {
    while (!stop_) {
      std::vector<pollfd> fds{{socket_.get(), POLLIN, 0}};
      for (const Pipe& pipe : pipes_) {
        const short events = held_ ? 0 : POLLIN;
        fds.push_back({pipe.from.get(), pipe.passed < most_ ? events : short{0}, 0});
        fds.push_back({pipe.to.get(), events, 0});
      }
      ::poll(fds.data(), fds.size(), 2);
      if (cut_.exchange(false))
        pipes_.clear();
      pipes_.remove_if([this](Pipe& pipe) {
        const std::int64_t before = pipe.passed, before_back = pipe.passed_back;
        const bool starved = pipe.passed >= most_;
        const bool over =
            !held_ &&
            ((!starved &&
              !pass(pipe.from.get(), pipe.to.get(), flip_at_, pipe.passed)) ||
             !pass(pipe.to.get(), pipe.from.get(), flip_back_at_, pipe.passed_back));
        if (pipe.passed > before)
          passed_ = pipe.passed;
        if (pipe.passed_back > before_back)
          passed_back_ = pipe.passed_back;
        return over;
      });
      open_ = pipes_.size();
      if ((fds[0].revents & POLLIN) != 0)
        accept();
    }
  }

  Endpoint target_;
  FileDescriptor socket_;
  Address address_;
  std::list<Pipe> pipes_;
  std::atomic<bool> stop_{false}, cut_{false}, held_{false}, refused_{false};
  std::atomic<std::int64_t> flip_at_{-1}, flip_back_at_{-1};
  std::atomic<std::int64_t> most_{INT64_MAX}, passed_{0}, passed_back_{0};
  std::atomic<int> connections_{0}, most_connections_{INT_MAX}, flips_{0};
  std::atomic<std::size_t> open_{0};
  std::atomic<std::size_t> step_{65536};
  std::thread thread_;
};

}  // namespace trireme::net
