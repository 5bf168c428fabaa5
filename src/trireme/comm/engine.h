// The interface that a backend implements. Users meet it only when they write one.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/doorbell.h"
#include "trireme/comm/message.h"
#include "trireme/core/deadline.h"
#include "trireme/core/error.h"

namespace trireme::comm {

/// How much a channel may hold before its sender has to wait.
struct ChannelOptions {
  /// Messages that were sent and not yet received.
  int capacity_messages = 256;
  /// Bytes that the receiver has not given back yet. A larger message passes alone.
  size_t capacity_bytes = size_t{256} << 20;
};

/// The sending end of a channel.
class SendPort {
 public:
  virtual ~SendPort() = default;
  /// Sends if there is room by now or by the deadline; TimeoutError says how full it
  /// is.
  virtual void send(const Message& message, const Deadline& deadline) = 0;
  /// Sends if there is room now.
  virtual bool try_send(const Message& message) = 0;
  /// What rings when there may be room again; null for a backend that has no bell.
  virtual Doorbell* doorbell() { return nullptr; }
};

/// The receiving end of a channel.
class ReceivePort {
 public:
  virtual ~ReceivePort() = default;
  virtual Message receive(const Deadline& deadline) = 0;
  virtual std::optional<Message> try_receive() = 0;
  /// Whether a message is there.
  virtual bool ready() {
    throw NotSupported(
        "[comm] expected a backend whose channels can be waited for together, got one "
        "without; receive from them one by one");
  }
  /// Whether the sender has closed its end and all that it sent has been received. A
  /// backend may not know.
  virtual bool closed() { return false; }
  /// What rings when a message comes or the sender closes its end; null for a backend
  /// that has no bell.
  virtual Doorbell* doorbell() { return nullptr; }
};

/// Why a world stops.
struct Failure {
  /// The rank, counted in the world, where the trouble began.
  int origin = 0;
  std::string why;
  /// Whether everybody is to throw TimeoutError, rather than PeerError.
  bool timed_out = false;
};

/// One rank's hold on a group of ranks. Calls of one engine come from one thread at a
/// time and in the same order on every rank; Group sees to both. Channels are
/// independent of that order, and of one another.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The backend's name, as users give it to init().
  virtual std::string backend() const = 0;
  /// The rank in the world of each member; errors name ranks by it.
  virtual const std::vector<int>& members() const = 0;

  /// Carries out a collective on the calling thread.
  virtual void run(const Collective& call, const Deadline& deadline) = 0;

  /// The ranks with my colour, ordered by key and then by rank; null for a negative
  /// colour.
  virtual std::shared_ptr<Engine> split(
      int color, int key, const Deadline& deadline) = 0;

  virtual std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) = 0;
  virtual std::unique_ptr<ReceivePort> open_receive(int from, int tag) = 0;

  /// A tensor in memory that the peers can read in place; its content is undefined.
  virtual at::Tensor allocate(
      at::IntArrayRef sizes, const at::TensorOptions& options) = 0;

  /// Tells the world that this rank failed; every blocking call there throws PeerError.
  virtual void abort(const std::string& why) noexcept = 0;
  /// The same for a failure that came in from elsewhere, and may be another rank's.
  virtual void stop(const Failure& failure) noexcept { abort(failure.why); }

  /// Leaves a note of what this rank is at, for the errors of those who wait for it; an
  /// empty one takes it back. A backend may do without.
  virtual void set_note(const std::string& /*note*/) noexcept {}

  /// Throws what the world died of, if it did.
  virtual void check() const = 0;

  /// A new generation of the same ranks; NotSupported on a group made by split().
  virtual std::shared_ptr<Engine> renew(const Deadline& deadline) = 0;
};

}  // namespace trireme::comm
