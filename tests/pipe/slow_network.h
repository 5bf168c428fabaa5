// Threads as ranks of two hosts, with a slow network for the channels in between.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/local/local_world.h"

namespace trireme::pipe {

/// What a network takes for a message: the sender waits as long.
class SlowSendPort : public comm::SendPort {
 public:
  SlowSendPort(std::unique_ptr<comm::SendPort> port, double bytes_per_second)
      : port_(std::move(port)), bytes_per_second_(bytes_per_second) {}
  void send(const comm::Message& message, const Deadline& deadline) override {
    double bytes = 0;
    for (const at::Tensor& tensor : message.tensors)
      bytes += static_cast<double>(tensor.nbytes());
    std::this_thread::sleep_for(
        std::chrono::duration<double>(bytes / bytes_per_second_));
    port_->send(message, deadline);
  }
  bool try_send(const comm::Message& message) override {
    return port_->try_send(message);
  }

 private:
  std::unique_ptr<comm::SendPort> port_;
  double bytes_per_second_;
};

/// An engine between threads, whose channels from one half of the ranks to the other
/// are slow.
class SlowNetwork : public comm::Engine {
 public:
  SlowNetwork(std::shared_ptr<comm::Engine> engine, double bytes_per_second)
      : engine_(std::move(engine)), bytes_per_second_(bytes_per_second) {}

  int rank() const override { return engine_->rank(); }
  int size() const override { return engine_->size(); }
  std::string backend() const override { return engine_->backend(); }
  const std::vector<int>& members() const override { return engine_->members(); }
  void run(const comm::Collective& call, const Deadline& deadline) override {
    engine_->run(call, deadline);
  }
  std::shared_ptr<comm::Engine> split(
      int color, int key, const Deadline& deadline) override {
    return std::make_shared<SlowNetwork>(
        engine_->split(color, key, deadline), bytes_per_second_);
  }
  std::unique_ptr<comm::SendPort> open_send(
      int to, int tag, const comm::ChannelOptions& options) override {
    auto port = engine_->open_send(to, tag, options);
    if (half_of(to) == half_of(rank()))
      return port;
    return std::make_unique<SlowSendPort>(std::move(port), bytes_per_second_);
  }
  std::unique_ptr<comm::ReceivePort> open_receive(int from, int tag) override {
    return engine_->open_receive(from, tag);
  }
  at::Tensor allocate(
      at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return engine_->allocate(sizes, options);
  }
  void abort(const std::string& why) noexcept override { engine_->abort(why); }
  void check() const override { engine_->check(); }
  std::shared_ptr<comm::Engine> renew(const Deadline& deadline) override {
    return engine_->renew(deadline);
  }

 private:
  int half_of(int rank) const { return 2 * rank / size(); }

  std::shared_ptr<comm::Engine> engine_;
  double bytes_per_second_;
};

}  // namespace trireme::pipe
