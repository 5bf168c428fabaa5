// tcp as a wire: transfers are messages between nodes, told apart by group and number.
#pragma once
#include <memory>
#include <vector>

#include "trireme/comm/tcp/tcp_ports.h"
#include "trireme/comm/tcp/tcp_world.h"
#include "trireme/comm/wire/wire.h"

namespace trireme::comm {

/// A group of ranks over tcp.
class TcpWire : public Wire, public std::enable_shared_from_this<TcpWire> {
 public:
  /// The wire of the whole world; meets all ranks.
  static std::shared_ptr<TcpWire> root(const TcpSetup& setup, const Deadline& deadline);
  TcpWire(WireSeat seat, std::shared_ptr<TcpWorld> world);
  ~TcpWire() override;

  const std::shared_ptr<WireWorld>& share_world() const override { return shared_; }
  TcpWorld& world() const { return *world_; }

  Transfer send(int peer, const std::byte* data, size_t bytes) override;
  Transfer receive(int peer, std::byte* data, size_t bytes) override;
  void wait(const Transfer& transfer) override;
  void finish() override;
  void post(int peer, std::span<const std::byte> bytes) override;

  std::shared_ptr<Wire> split(const Part& part) override;
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override;
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override;
  std::shared_ptr<Wire> renew(const Deadline& deadline) override;

 private:
  int world_rank(int peer) const { return members()[static_cast<size_t>(peer)]; }
  TcpTransferPtr make(int peer, std::byte* data, size_t bytes, bool sends);
  Transfer keep(TcpTransferPtr transfer);
  const TcpTransfer* unreachable_locked() const;
  void await(const TcpTransfer& transfer);
  [[noreturn]] void give_up();

  std::shared_ptr<TcpWorld> world_;
  std::shared_ptr<WireWorld> shared_ = world_;
  std::vector<TcpTransferPtr> transfers_;
  std::vector<uint64_t> sent_, received_;  // by peer: how many transfers there were
  TcpLanes lanes_;
};

}  // namespace trireme::comm
