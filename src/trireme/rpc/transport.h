// How packets get from worker to worker. State machines see no more of a network than
// this, so that a simulated one can drive them.
#pragma once
#include <string>

#include "trireme/rpc/packet.h"
#include "trireme/rpc/worker.h"

namespace trireme::rpc {

/// The way out. What is sent may be lost, arrive late, twice, or in another order.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Queues a packet; never waits, never throws for what becomes of it on its way.
  virtual void send(WorkerId to, Packet packet) = 0;
  /// Nothing more is wanted from a worker: when it has what was sent to it, it hears
  /// that this one is gone. Never waits.
  virtual void give_up(WorkerId worker) = 0;
};

/// The way in. Calls come from one thread, one at a time, and must not block.
class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;
  virtual void received(WorkerId from, Packet packet) = 0;
  /// What was sent to a worker and not answered may never have arrived: the connection
  /// with it is lost, or could not be made. It may come back.
  virtual void lost(WorkerId worker, const std::string& why) = 0;
  /// A worker has said goodbye, or its process is known to have ended.
  virtual void gone(WorkerId worker, const std::string& why) = 0;
};

}  // namespace trireme::rpc
