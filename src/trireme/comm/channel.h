// Channel: a directed edge between two ranks, for messages of any shape.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/engine.h"
#include "trireme/comm/group.h"
#include "trireme/comm/message.h"

namespace trireme::comm {

/// From which rank of a group to which, and which of several channels between them.
struct Edge {
  int from = 0;
  int to = 0;
  int tag = 0;
};

/// One end of an edge, or both if a rank sends to itself. Messages of one channel keep
/// their order; channels never wait for one another. A cheap handle; thread-safe.
///
///     Channel edge(group, {.from = 0, .to = 1});
///     if (group.rank() == 0) edge.send({.tensors = {activation}});
///     if (group.rank() == 1) at::Tensor activation = edge.receive().tensors[0];
///
/// A received tensor is the memory that it came in (no second copy): between processes
/// a view of shared memory, whose place is given back when the tensor dies; between
/// threads the sender's own tensor, so the sender must not write to it any more. A
/// tensor that requires grad arrives as a leaf that requires grad.
class Channel {
 public:
  /// Opens this rank's end; InvalidArgument on a rank that is neither. Neither side
  /// waits for the other here. An edge can be opened again
  /// when both ends are closed, all its messages have been received, and (between
  /// processes) the received tensors are gone.
  Channel(const Group& group, const Edge& edge, const ChannelOptions& options = {});

  const Edge& edge() const;

  /// Sends. Waits while the channel is full, until the timeout (zero: the group's).
  void send(const Message& message, std::chrono::milliseconds timeout = {}) const;
  /// Sends if there is room now.
  bool try_send(const Message& message) const;

  /// The next message; waits for it until the timeout (zero: the group's).
  Message receive(std::chrono::milliseconds timeout = {}) const;
  /// The next message if it is there.
  std::optional<Message> try_receive() const;
  /// Whether the sender has closed its end, and all that it sent has been received. For
  /// the receiver; always false on backends that cannot know (mpi).
  bool closed() const;

 private:
  struct Impl;
  friend std::vector<Message> exchange(
      const std::vector<struct Sending>& sends,
      const std::vector<Channel>& receives,
      std::chrono::milliseconds timeout);
  friend size_t wait_any(
      const std::vector<Channel>& receives, std::chrono::milliseconds timeout);
  SendPort& sender() const;
  ReceivePort& receiver() const;
  std::shared_ptr<Impl> impl_;
};

/// Waits until one of these channels, which end here, has a message or was closed by
/// its sender, and gives its place in the list: the first, if there are several. The
/// timeout is the longest of the channels' groups, if it is zero.
///
///     const size_t i = comm::wait_any(inboxes);
///     if (inboxes[i].closed()) inboxes.erase(inboxes.begin() + i);
///     else handle(inboxes[i].receive());
size_t wait_any(
    const std::vector<Channel>& receives, std::chrono::milliseconds timeout = {});

/// A message and where it goes, for exchange().
struct Sending {
  Channel channel;
  Message message;
};

/// Sends and receives all of these, in whatever order they can go: no order of calls on
/// the ranks can make it wait for ever, as single sends over full channels could.
/// Messages of one channel still keep their order. The timeout is the
/// longest of the channels' groups, if it is zero. Gives the received messages in the
/// order of `receives`.
std::vector<Message> exchange(
    const std::vector<Sending>& sends,
    const std::vector<Channel>& receives,
    std::chrono::milliseconds timeout = {});

}  // namespace trireme::comm
