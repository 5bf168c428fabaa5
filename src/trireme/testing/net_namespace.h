// A network of one's own within a process: its devices, addresses and ports.
#pragma once
#include <string>

#include "trireme/core/file_descriptor.h"

namespace trireme::testing {

/// A network namespace without a name: it lives as long as this object, or a thread
/// that is in it, and the kernel takes it away, with all its devices, however that
/// ends. So two tests at once never meet, and nothing is left of one that was killed.
///
///     const NetNamespace host = NetNamespace::make();
///     const InNamespace inside(host);
///     // sockets, and threads that begin here, are the host's
class NetNamespace {
 public:
  /// Why this process cannot make any; empty if it can.
  static std::string missing();
  /// A new one, in which only the loopback device is up. InternalError unless root.
  static NetNamespace make();
  /// The one that this thread is in.
  static NetNamespace current();

  /// This thread, and those that it starts from now on, are in it.
  void enter() const;
  int fd() const { return fd_.get(); }

 private:
  explicit NetNamespace(int fd) : fd_(fd) {}
  FileDescriptor fd_;
};

/// This thread is in a namespace until the end of the scope.
class InNamespace {
 public:
  explicit InNamespace(const NetNamespace& there) : before_(NetNamespace::current()) {
    there.enter();
  }
  ~InNamespace() { before_.enter(); }
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  NetNamespace before_;
};

}  // namespace trireme::testing
