// An engine that notes what it is asked to do: the front end is tested without ranks.
#pragma once
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {

/// A collective as it came, with its pieces kept.
struct NotedCall {
  CollectiveKind kind;
  ReduceOp op;
  c10::ScalarType dtype;
  int root;
  int64_t count;
  std::vector<Piece> give;
  std::vector<Piece> take;
  std::chrono::milliseconds allowed;
};

class FakeSendPort : public SendPort {
 public:
  void send(const Message& message, const Deadline& deadline) override {
    allowed = deadline.allowed();
    sent.push_back(message.header.word);
  }
  bool try_send(const Message& message) override {
    if (busy-- > 0)
      return false;
    sent.push_back(message.header.word);
    return true;
  }
  std::chrono::milliseconds allowed{0};
  /// How many tries find no room.
  int busy = 0;
  std::vector<int64_t> sent;
};

class FakeReceivePort : public ReceivePort {
 public:
  Message receive(const Deadline& deadline) override {
    allowed = deadline.allowed();
    return {.header = {.word = ++received}};
  }
  std::optional<Message> try_receive() override {
    if (busy-- > 0)
      return std::nullopt;
    return Message{.header = {.word = ++received}};
  }
  std::chrono::milliseconds allowed{0};
  int busy = 0;
  int64_t received = 0;
};

class FakeEngine : public Engine {
 public:
  FakeEngine(int rank, int size) : rank_(rank), members_(static_cast<size_t>(size)) {
    std::iota(members_.begin(), members_.end(), 0);
  }
  FakeEngine(int rank, std::vector<int> members)
      : rank_(rank), members_(std::move(members)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string backend() const override { return "fake"; }
  const std::vector<int>& members() const override { return members_; }
  void run(const Collective& call, const Deadline& deadline) override {
    calls.push_back(
        {call.kind,
         call.op,
         call.dtype,
         call.root,
         call.count,
         {call.give.begin(), call.give.end()},
         {call.take.begin(), call.take.end()},
         deadline.allowed()});
    if (on_run)
      on_run(call);
  }
  std::shared_ptr<Engine> split(int color, int key, const Deadline& deadline) override {
    splits.emplace_back(color, key);
    split_allowed = deadline.allowed();
    return color < 0 ? nullptr : std::make_shared<FakeEngine>(0, 1);
  }
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override {
    opened.emplace_back(to, tag);
    capacity = options.capacity_messages;
    auto port = std::make_unique<FakeSendPort>();
    sender = port.get();
    return port;
  }
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override {
    opened.emplace_back(from, tag);
    auto port = std::make_unique<FakeReceivePort>();
    receiver = port.get();
    return port;
  }
  at::Tensor allocate(at::IntArrayRef, const at::TensorOptions&) override { return {}; }
  void abort(const std::string& why) noexcept override { aborts.push_back(why); }
  void check() const override {}
  std::shared_ptr<Engine> renew(const Deadline& deadline) override {
    split_allowed = deadline.allowed();
    return std::make_shared<FakeEngine>(rank_, members_);
  }

  std::function<void(const Collective&)> on_run;
  std::vector<NotedCall> calls;
  std::vector<std::pair<int, int>> splits;
  std::chrono::milliseconds split_allowed{0};
  std::vector<std::pair<int, int>> opened;
  int capacity = 0;
  FakeSendPort* sender = nullptr;
  FakeReceivePort* receiver = nullptr;
  std::vector<std::string> aborts;

 private:
  int rank_;
  std::vector<int> members_;
};

}  // namespace trireme::comm
