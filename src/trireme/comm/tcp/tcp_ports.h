// Channel ends over tcp: a message is encoded into one buffer, and received into one,
// of which the tensors are views.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "trireme/comm/engine.h"

namespace trireme::comm {

class TcpWire;

/// The channels of one group that begin or end at this rank.
class TcpLanes {
 public:
  /// InvalidArgument if this end is open already.
  std::unique_ptr<SendPort> open_send(
      std::shared_ptr<TcpWire> wire, int to, int tag, const ChannelOptions& options);
  std::unique_ptr<ReceivePort> open_receive(
      std::shared_ptr<TcpWire> wire, int from, int tag);

  /// What stays of a channel's end between two openings.
  struct SendLane;
  struct ReceiveLane;

 private:
  template <class Lane>
  using LaneMap = std::map<std::pair<int, int>, std::shared_ptr<Lane>>;
  template <class Lane>
  std::shared_ptr<Lane> open(LaneMap<Lane>& lanes, int peer, int tag);

  std::mutex mutex_;
  LaneMap<SendLane> sends_;
  LaneMap<ReceiveLane> receives_;
};

}  // namespace trireme::comm
