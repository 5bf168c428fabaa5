// Workers that speak over a network which loses, delays, doubles and reorders what they
// send, in virtual time: the same seed gives the same story.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/rpc/protocol.h"

namespace trireme::testing {

struct Faults {
  double drop = 0;
  double twice = 0;
  std::chrono::microseconds slowest{2000};
};

/// A value that counts itself.
struct TestCargo {
  std::shared_ptr<int> living;
  explicit TestCargo(std::shared_ptr<int> count) : living(std::move(count)) {
    ++*living;
  }
  ~TestCargo() { --*living; }
  TestCargo(const TestCargo&) = delete;
  TestCargo& operator=(const TestCargo&) = delete;
};

/// Whether a call was cancelled.
struct TestToken {
  bool cancelled = false;
};

class Fabric {
 public:
  using Handler = std::function<void(rpc::WorkerId me, rpc::Incoming incoming)>;

  Fabric(
      std::uint64_t seed, int workers, rpc::ProtocolOptions options, Handler handler);

  rpc::Protocol& protocol(rpc::WorkerId worker) {
    return *workers_.at(index(worker)).protocol;
  }
  bool alive(rpc::WorkerId worker) const {
    return workers_.at(index(worker)).protocol != nullptr;
  }
  int size() const { return static_cast<int>(workers_.size()); }
  rpc::Time now() const { return now_; }
  std::mt19937_64& random() { return random_; }
  bool chance(double probability) {
    return std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }
  int below(int limit) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(limit));
  }

  void set_faults(Faults faults) { faults_ = faults; }
  /// From now on both sides hear of what is lost, as real transports tell them.
  void report_losses() { reports_losses_ = true; }
  /// Nothing passes between the two, or from one to the other, until it is healed.
  void cut(rpc::WorkerId a, rpc::WorkerId b) {
    cut_one_way(a, b);
    cut_one_way(b, a);
  }
  void cut_one_way(rpc::WorkerId from, rpc::WorkerId to) { cuts_.insert({from, to}); }
  void heal() { cuts_.clear(); }
  /// The worker and all that it knew are gone.
  void kill(rpc::WorkerId worker);
  /// All others hear of it.
  void tell_gone(rpc::WorkerId worker);
  /// A worker takes the place of one that was killed.
  void restart(rpc::WorkerId worker);

  /// Sends a call; `done` hears of its end.
  std::uint64_t call(
      rpc::WorkerId from,
      rpc::WorkerId to,
      rpc::Request request,
      std::function<void(rpc::Outcome)> done);
  void respond(
      rpc::WorkerId me,
      const rpc::Incoming& incoming,
      rpc::Status status,
      rpc::Payload payload);
  /// A value of a worker.
  rpc::Reference own(rpc::WorkerId worker);
  std::shared_ptr<int> living() const { return living_; }

  void at(std::chrono::microseconds delay, std::function<void()> what);
  void run_for(std::chrono::milliseconds time);
  /// Does what the protocol of a worker wants done.
  void settle(rpc::WorkerId worker);

 private:
  struct Worker {
    std::shared_ptr<rpc::Releases> releases;
    std::unique_ptr<rpc::Protocol> protocol;
    rpc::Time tick_at = rpc::Time::max();
    std::uint64_t life = 0;
  };
  struct Event {
    rpc::Time time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };
  static std::size_t index(rpc::WorkerId worker) {
    return static_cast<std::size_t>(worker);
  }
  void start(rpc::WorkerId worker);
  void carry(rpc::WorkerId from, rpc::WorkerId to, const rpc::Packet& packet);
  void lose(rpc::WorkerId from, rpc::WorkerId to);
  void report_loss(rpc::WorkerId who, rpc::WorkerId other);
  void plan_tick(rpc::WorkerId worker);

  std::mt19937_64 random_;
  rpc::ProtocolOptions options_;
  Handler handler_;
  Faults faults_;
  bool reports_losses_ = false;
  std::set<std::pair<rpc::WorkerId, rpc::WorkerId>> cuts_;  // from, to
  std::set<std::pair<rpc::WorkerId, rpc::WorkerId>> told_;  // soon, of the second
  std::vector<Worker> workers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  rpc::Time now_{std::chrono::hours(1000)};
  std::shared_ptr<int> living_ = std::make_shared<int>(0);
};

}  // namespace trireme::testing
