// A socket that listens.
#pragma once
#include <functional>
#include <memory>

#include "trireme/core/file_descriptor.h"
#include "trireme/net/address.h"
#include "trireme/net/reactor.h"

namespace trireme::net {

/// Accepts whoever connects, and hands the sockets on. Belongs to the I/O thread.
class Listener : public Reactor::Handler,
                 public std::enable_shared_from_this<Listener> {
 public:
  using Take = std::function<void(FileDescriptor)>;
  Listener(Reactor& reactor, FileDescriptor socket, Take take);
  ~Listener() override;

  int fd() const { return socket_.get(); }
  const Address& address() const { return address_; }
  void ready() override;

 private:
  void rest();

  Reactor& reactor_;
  FileDescriptor socket_;
  Take take_;
  Address address_;
  bool resting_ = false;
};

}  // namespace trireme::net
