// Channel ends over tcp: a message is encoded into one buffer, and received into one,
// of which the tensors are views.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "trireme/comm/engine.h"
#include "trireme/comm/port_gate.h"
#include "trireme/comm/wire/wire_lanes.h"

namespace trireme::comm {

class TcpWire;

/// One end of a channel, with what it has sent or taken.
struct TcpLane {
  PortGate gate;
  std::atomic<bool> open{false};
  uint64_t openings = 0;
  WireCredit account;
};

/// The channels of one group that begin or end at this rank.
class TcpLanes {
 public:
  /// InvalidArgument if this end is open already.
  std::unique_ptr<SendPort> open_send(
      std::shared_ptr<TcpWire> wire, int to, int tag, const ChannelOptions& options);
  std::unique_ptr<ReceivePort> open_receive(
      std::shared_ptr<TcpWire> wire, int from, int tag);

 private:
  WireLanes<TcpLane> sends_, receives_;
};

}  // namespace trireme::comm
