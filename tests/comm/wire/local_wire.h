// A wire between threads of one process, so that everything above wires is tested with
// ordinary tests: sends meet receives in a table under one lock.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "trireme/comm/local/local_world.h"
#include "trireme/comm/wire/wire_engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {

/// What all ranks of one generation share.
class LocalNet {
 public:
  /// One end of a transfer that waits for its other end.
  struct Op {
    std::byte* data = nullptr;
    size_t bytes = 0;
    int peer = 0;  // in the group
    bool sends = false;
    bool done = false;
    Deadline::Clock::time_point arrives{};  // on a link that takes its time
    std::vector<std::byte> copy;            // of a last word, for which nobody waits
  };
  using OpPointer = std::shared_ptr<Op>;
  /// The group, who sends, and to whom, counted there.
  using Lane = std::tuple<uint32_t, int, int>;

  void start(const Lane& lane, const OpPointer& op) {
    std::lock_guard lock(mutex_);
    auto& [sends, receives] = lanes_[lane];
    (op->sends ? sends : receives).push_back(op);
    while (!sends.empty() && !receives.empty()) {
      Op& from = *sends.front();
      Op& to = *receives.front();
      if (from.bytes > to.bytes)
        throw InternalError("[comm] expected a transfer that fits, got a longer one");
      std::memcpy(to.data, from.data, from.bytes);
      from.done = to.done = true;
      from.arrives = to.arrives = cross(lane, from.bytes);
      sends.pop_front();
      receives.pop_front();
    }
    changed_.notify_all();
  }
  /// Forgets what is not done: its memory goes.
  void withdraw(const Lane& lane, const OpPointer& op) {
    auto& [sends, receives] = lanes_[lane];
    std::erase(sends, op);
    std::erase(receives, op);
  }

  /// When so many bytes that leave now have crossed a link, after those before them.
  Deadline::Clock::time_point cross(const Lane& lane, size_t bytes) {
    if (bytes_per_second_ <= 0)
      return {};
    auto& busy = busy_until_[lane];
    busy = std::max(busy, Deadline::Clock::now()) +
           std::chrono::duration_cast<Deadline::Clock::duration>(
               std::chrono::duration<double>(
                   static_cast<double>(bytes) / bytes_per_second_));
    return busy;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  /// Of every link, in each direction; zero: without limit.
  double bytes_per_second_ = 0;
  std::map<Lane, Deadline::Clock::time_point> busy_until_;
  std::map<Lane, std::pair<std::deque<OpPointer>, std::deque<OpPointer>>> lanes_;
  std::set<std::pair<uint32_t, int>> left_;  // group and member
  std::optional<Failure> failure_;
  std::vector<std::weak_ptr<class LocalWireWorld>> ranks_;
};

/// A rank's hold on a world of threads.
class LocalWireWorld : public WireWorld,
                       public std::enable_shared_from_this<LocalWireWorld> {
 public:
  LocalWireWorld(Setup setup, std::shared_ptr<LocalNet> net)
      : WireWorld(std::move(setup)),
        net_(std::move(net)),
        exceptions_at_start_(std::uncaught_exceptions()) {}
  ~LocalWireWorld() override {
    if (std::uncaught_exceptions() > exceptions_at_start_)
      stop(
          {.origin = rank(),
           .why = text(
               "[comm] rank ",
               rank(),
               " left its world by an exception; see its own output")});
  }
  /// Hears of failures from now on; `channels` is another world to stop.
  void join(const std::shared_ptr<Engine>& channels) {
    channels_ = channels;
    std::lock_guard lock(net_->mutex_);
    net_->ranks_.push_back(weak_from_this());
  }
  LocalNet& net() const { return *net_; }
  BufferPool& pool() override { return pool_; }
  void stop(const Failure& failure) noexcept override {
    std::vector<std::shared_ptr<LocalWireWorld>> ranks;
    {
      std::lock_guard lock(net_->mutex_);
      if (net_->failure_)
        return;
      net_->failure_ = failure;
      net_->changed_.notify_all();
      for (const auto& rank : net_->ranks_)
        ranks.push_back(rank.lock());
    }
    for (const auto& rank : ranks)
      if (rank)
        rank->hear(failure);
  }
  void check() const override {
    std::optional<Failure> failure;
    {
      std::lock_guard lock(net_->mutex_);
      failure = net_->failure_;
    }
    if (!failure)
      return;
    tell_failure(*failure);  // nobody sees it before the other world has heard
    if (failure->timed_out)
      throw TimeoutError(failure->why);
    throw PeerError(failure->origin, failure->why);
  }

 private:
  void hear(const Failure& failure) {
    if (const auto channels = channels_.lock())
      channels->stop(failure);
    tell_failure(failure);
  }
  std::shared_ptr<LocalNet> net_;
  int exceptions_at_start_;
  BufferPool pool_;
  std::weak_ptr<Engine> channels_;
};

/// All generations of a world of threads.
struct LocalNets {
  explicit LocalNets(int ranks) : channels(ranks) {}
  LocalWorld channels;
  std::mutex mutex;
  std::map<int, std::shared_ptr<LocalNet>> generations;
  double bytes_per_second = 0;
  std::shared_ptr<LocalNet> generation(int number) {
    std::lock_guard lock(mutex);
    auto& net = generations[number];
    if (!net) {
      net = std::make_shared<LocalNet>();
      net->bytes_per_second_ = bytes_per_second;
    }
    return net;
  }
};

/// A group's wire between threads. Channels are those of an engine of shared memory.
class LocalWire : public Wire {
 public:
  static std::shared_ptr<LocalWire> root(
      std::shared_ptr<LocalNets> nets,
      int rank,
      int ranks,
      const WireTuning& tuning,
      const Deadline& deadline) {
    auto channels = nets->channels.join(rank, deadline);
    return generation(std::move(nets), 0, std::move(channels), ranks, tuning);
  }

  LocalWire(
      WireSeat seat,
      std::shared_ptr<LocalNets> nets,
      int number,
      std::shared_ptr<LocalWireWorld> world,
      std::shared_ptr<Engine> channels)
      : Wire(std::move(seat)),
        nets_(std::move(nets)),
        number_(number),
        world_(std::move(world)),
        shared_(world_),
        channels_(std::move(channels)) {}
  ~LocalWire() override {
    std::lock_guard lock(net().mutex_);
    withdraw_all();
    net().left_.emplace(id(), rank());
    net().changed_.notify_all();
  }

  const std::shared_ptr<WireWorld>& share_world() const override { return shared_; }
  Transfer send(int peer, const std::byte* data, size_t bytes) override {
    return start(peer, const_cast<std::byte*>(data), bytes, true);
  }
  Transfer receive(int peer, std::byte* data, size_t bytes) override {
    return start(peer, data, bytes, false);
  }
  void wait(const Transfer& transfer) override {
    std::unique_lock lock(net().mutex_);
    for (size_t i = transfer.first; i < transfer.first + transfer.count; ++i)
      await(lock, *ops_[i]);
  }
  void finish() override {
    wait({.first = 0, .count = ops_.size()});
    ops_.clear();
  }
  void post(int peer, std::span<const std::byte> bytes) override {
    auto op = std::make_shared<LocalNet::Op>();
    op->sends = true;
    op->copy.assign(bytes.begin(), bytes.end());
    op->data = op->copy.data();
    op->bytes = bytes.size();
    net().start({id(), rank(), peer}, op);
  }

  std::shared_ptr<Wire> split(const Part& part) override {
    auto channels = channels_->split(
        part.color, part.key, Deadline::after(std::chrono::seconds(30)));
    if (part.color < 0)
      return nullptr;
    return std::make_shared<LocalWire>(
        part.seat, nets_, number_, world_, std::move(channels));
  }
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override {
    return channels_->open_send(to, tag, options);
  }
  std::unique_ptr<ReceivePort> open_receive(int from, int tag) override {
    return channels_->open_receive(from, tag);
  }
  std::shared_ptr<Wire> renew(const Deadline& deadline) override {
    auto channels = channels_->renew(deadline);  // meets all ranks
    world_->stop(
        {.origin = world_->rank(),
         .why = "[comm] expected the renewed group, got the old one; use what renew() "
                "gave"});
    return generation(
        nets_, number_ + 1, std::move(channels), world_->size(), world_->tuning());
  }

 private:
  static std::shared_ptr<LocalWire> generation(
      std::shared_ptr<LocalNets> nets,
      int number,
      std::shared_ptr<Engine> channels,
      int ranks,
      const WireTuning& tuning) {
    const int rank = channels->rank();
    const auto rings =
        std::make_shared<std::vector<std::byte>>(kFlightRingBytes * (ranks + 1));
    auto* aligned = reinterpret_cast<std::byte*>(
        (reinterpret_cast<uintptr_t>(rings->data()) + 63) / 64 * 64);
    auto world = std::make_shared<LocalWireWorld>(
        WireWorld::Setup{
            .backend = "thread_wire",
            .rank = rank,
            .size = ranks,
            .tuning = tuning,
            .recorder =
                std::make_shared<FlightRecorder>(aligned, rank, ranks, "", rings)},
        nets->generation(number));
    world->join(channels);
    WireSeat seat{
        .members = std::vector<int>(static_cast<size_t>(ranks)), .rank = rank};
    std::iota(seat.members.begin(), seat.members.end(), 0);
    return std::make_shared<LocalWire>(
        std::move(seat),
        std::move(nets),
        number,
        std::move(world),
        std::move(channels));
  }

  LocalNet& net() const { return world_->net(); }
  LocalNet::Lane lane(const LocalNet::Op& op) const {
    return op.sends ? LocalNet::Lane{id(), rank(), op.peer}
                    : LocalNet::Lane{id(), op.peer, rank()};
  }
  Transfer start(int peer, std::byte* data, size_t bytes, bool sends) {
    if (bytes == 0)
      return {};
    auto op = std::make_shared<LocalNet::Op>();
    op->data = data;
    op->bytes = bytes;
    op->peer = peer;
    op->sends = sends;
    if (sends && bytes <= entry_bytes()) {
      post(peer, {data, bytes});
      return {};
    }
    ops_.push_back(op);
    net().start(lane(*op), op);
    return {.first = ops_.size() - 1, .count = 1};
  }
  void withdraw_all() {
    for (const auto& op : ops_)
      net().withdraw(lane(*op), op);
    ops_.clear();
  }
  void await(std::unique_lock<std::mutex>& lock, const LocalNet::Op& op) {
    // Of all that is under way: who waits for the one who left may have left us, too.
    const auto gone = [&]() -> const LocalNet::Op* {
      for (const auto& each : ops_)
        if (!each->done && net().left_.contains({id(), each->peer}))
          return each.get();
      return nullptr;
    };
    const auto over = [&] { return op.done || net().failure_ || gone() != nullptr; };
    const bool in_time = net().changed_.wait_for(lock, deadline().remaining(), over);
    if (op.done) {
      const auto arrives = op.arrives;
      lock.unlock();
      std::this_thread::sleep_until(arrives);
      return lock.lock();
    }
    const LocalNet::Op* left = gone();
    const int member =
        members()[static_cast<size_t>(left != nullptr ? left->peer : op.peer)];
    std::vector<int> waited_for;
    for (const auto& each : ops_)
      if (!each->done && !each->sends)
        waited_for.push_back(each->peer);
    withdraw_all();
    lock.unlock();
    world_->check();
    if (left != nullptr)
      throw PeerError(
          member,
          text(
              "[comm] expected rank ",
              member,
              " to take part, but it has left this group; make every rank call the "
              "same operations before it closes the group"));
    TRIREME_ASSERT(!in_time);
    const std::string what = late_text(waited_for);
    world_->stop({.origin = world_->rank(), .why = what, .timed_out = true});
    world_->check();
  }

  std::shared_ptr<LocalNets> nets_;
  int number_;
  std::shared_ptr<LocalWireWorld> world_;
  std::shared_ptr<WireWorld> shared_;
  std::shared_ptr<Engine> channels_;
  std::vector<LocalNet::OpPointer> ops_;
};

/// A world of threads over a wire alone.
class LocalWireNet {
 public:
  explicit LocalWireNet(int ranks, const WireTuning& tuning = {})
      : ranks_(ranks), tuning_(tuning), nets_(std::make_shared<LocalNets>(ranks)) {}
  /// Makes every link as slow as this; for before the ranks join.
  void limit(double bytes_per_second) { nets_->bytes_per_second = bytes_per_second; }
  std::shared_ptr<WireEngine> join(int rank, const Deadline& deadline) const {
    return std::make_shared<WireEngine>(
        LocalWire::root(nets_, rank, ranks_, tuning_, deadline));
  }

 private:
  int ranks_;
  WireTuning tuning_;
  std::shared_ptr<LocalNets> nets_;
};

}  // namespace trireme::comm
