// Channel ends over MPI. A message is encoded into one buffer, and received into one,
// of which the tensors are views. Credit comes back as small messages of its own.
#pragma once
#include <atomic>
#include <memory>

#include "trireme/comm/channel_text.h"
#include "trireme/comm/engine.h"
#include "trireme/comm/mpi/mpi_world.h"
#include "trireme/comm/port_gate.h"
#include "trireme/comm/wire/wire_lanes.h"

namespace trireme::comm {

class MpiWire;

/// The sender's account of a channel. It outlives the ends that are opened and closed,
/// so that credit which comes late still meets the channel it is for.
struct MpiSendLane {
  PortGate gate;
  std::atomic<bool> open{false};
  WireCredit sent;
  WireCredit taken;
};

/// The receiver's account of a channel, with the message that is just coming in.
struct MpiReceiveLane {
  ~MpiReceiveLane();
  PortGate gate;
  std::atomic<bool> open{false};
  WireCredit taken;
  Buffer incoming;
  MPI_Request request = MPI_REQUEST_NULL;
  /// Whether all of it is here, and nobody has taken it yet.
  bool arrived = false;
  /// Sees to that message if the channel goes before it is here.
  MpiProgress* progress = nullptr;
};

/// The channels of one group that begin or end at this rank. `wire` is that group's.
class MpiLanes {
 public:
  /// InvalidArgument if this end is open already, or for a tag that MPI cannot have.
  std::unique_ptr<SendPort> open_send(
      std::shared_ptr<MpiWire> wire, int to, int tag, const ChannelOptions& options);
  std::unique_ptr<ReceivePort> open_receive(
      std::shared_ptr<MpiWire> wire, int from, int tag);

 private:
  WireLanes<MpiSendLane> sends_;
  WireLanes<MpiReceiveLane> receives_;
};

}  // namespace trireme::comm
