// The engine of ranks that talk over a wire.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/wire/wire_steps.h"

namespace trireme::comm {

/// One rank's engine of one group.
class WireEngine : public Engine {
 public:
  explicit WireEngine(std::shared_ptr<Wire> wire) : steps_(std::move(wire)) {}

  int rank() const override { return steps_.rank(); }
  int size() const override { return steps_.size(); }
  std::string backend() const override { return steps_.world().backend(); }
  const std::vector<int>& members() const override { return wire().members(); }
  Wire& wire() const { return steps_.wire(); }
  const std::shared_ptr<Wire>& share_wire() const { return steps_.share_wire(); }
  void run(const Collective& call, const Deadline& deadline) override;
  std::shared_ptr<Engine> split(int color, int key, const Deadline& deadline) override;
  /// The same, as what it is.
  std::shared_ptr<WireEngine> split_wire(int color, int key, const Deadline& deadline);
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override;
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override;
  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) override;
  void abort(const std::string& why) noexcept override;
  void stop(const Failure& failure) noexcept override { steps_.world().stop(failure); }
  void check() const override { steps_.world().check(); }
  std::shared_ptr<Engine> renew(const Deadline& deadline) override;

 private:
  WireSteps steps_;
  uint32_t calls_ = 0;
  bool renewed_ = false;
};

}  // namespace trireme::comm
