#include "trireme/testing/rpc_fabric.h"

#include <algorithm>

namespace trireme::testing {

namespace {

class CallbackCompletion : public rpc::Completion {
 public:
  explicit CallbackCompletion(std::function<void(rpc::Outcome)> done)
      : done_(std::move(done)) {}
  void finish(rpc::Outcome outcome) override { done_(std::move(outcome)); }

 private:
  std::function<void(rpc::Outcome)> done_;
};

// Parts that arrive are the receiver's own.
rpc::Packet copy_of(const rpc::Packet& packet) {
  rpc::Packet copy{.head = packet.head, .parts = {}};
  for (const rpc::Part& part : packet.parts) {
    auto bytes =
        std::make_shared<std::vector<std::byte>>(part.bytes.begin(), part.bytes.end());
    copy.parts.push_back({.bytes = *bytes, .keep = bytes});
  }
  return copy;
}

}  // namespace

Fabric::Fabric(
    std::uint64_t seed, int workers, rpc::ProtocolOptions options, Handler handler)
    : random_(seed), options_(std::move(options)), handler_(std::move(handler)) {
  options_.make_token = [] { return std::make_shared<TestToken>(); };
  options_.make_cargo = [living = living_] {
    return std::make_shared<TestCargo>(living);
  };
  workers_.resize(static_cast<std::size_t>(workers));
  for (rpc::WorkerId worker = 0; worker < workers; ++worker)
    start(worker);
}

void Fabric::start(rpc::WorkerId worker) {
  Worker& started = workers_.at(index(worker));
  started.releases = std::make_shared<rpc::Releases>();
  const auto first = static_cast<std::uint64_t>(now_.time_since_epoch().count());
  started.protocol = std::make_unique<rpc::Protocol>(
      options_, worker, size(), first, started.releases);
  started.tick_at = rpc::Time::max();
  ++started.life;
}

void Fabric::kill(rpc::WorkerId worker) {
  workers_.at(index(worker)).protocol.reset();
  ++workers_.at(index(worker)).life;
}

void Fabric::tell_gone(rpc::WorkerId worker) {
  for (rpc::WorkerId other = 0; other < size(); ++other)
    if (other != worker && alive(other)) {
      protocol(other).gone(worker, "its process has ended", now_);
      settle(other);
    }
}

void Fabric::restart(rpc::WorkerId worker) {
  start(worker);
}

void Fabric::at(std::chrono::microseconds delay, std::function<void()> what) {
  events_.push({now_ + delay, order_++, std::move(what)});
}

void Fabric::carry(rpc::WorkerId from, rpc::WorkerId to, const rpc::Packet& packet) {
  const int copies = chance(faults_.drop) ? 0 : chance(faults_.twice) ? 2 : 1;
  if (copies == 0)
    lose(from, to);
  for (int copy = 0; copy < copies; ++copy) {
    const std::chrono::microseconds delay(
        1 + below(static_cast<int>(faults_.slowest.count())));
    auto shared = std::make_shared<rpc::Packet>(copy_of(packet));
    at(delay, [this, from, to, shared] {
      if (!alive(to) || cuts_.count({from, to}) > 0)
        return lose(from, to);
      protocol(to).receive(from, std::move(*shared), now_);
      settle(to);
    });
  }
}

// Each side notices in its own time that a connection is broken, and once.
void Fabric::lose(rpc::WorkerId from, rpc::WorkerId to) {
  if (!reports_losses_)
    return;
  report_loss(from, to);
  report_loss(to, from);
}

void Fabric::report_loss(rpc::WorkerId who, rpc::WorkerId other) {
  if (!told_.insert({who, other}).second)
    return;
  const std::uint64_t life = workers_.at(index(who)).life;
  at(std::chrono::microseconds(1 + below(100'000)), [this, who, other, life] {
    told_.erase({who, other});
    if (!alive(who) || workers_.at(index(who)).life != life)
      return;
    protocol(who).lost(other, now_);
    settle(who);
  });
}

void Fabric::settle(rpc::WorkerId worker) {
  for (bool more = true; more && alive(worker);) {
    protocol(worker).tick(now_);
    rpc::Effects effects = protocol(worker).take_effects(now_);
    more =
        !effects.finished.empty() || !effects.calls.empty() || !effects.dropped.empty();
    for (const auto& [to, packet] : effects.packets)
      carry(worker, to, packet);
    for (const auto& cancel : effects.cancelled)
      std::static_pointer_cast<TestToken>(cancel.token)->cancelled = true;
    for (auto& [completion, outcome] : effects.finished)
      completion->finish(std::move(outcome));
    for (rpc::Incoming& incoming : effects.calls)
      handler_(worker, std::move(incoming));
  }
  if (alive(worker))
    plan_tick(worker);
}

void Fabric::plan_tick(rpc::WorkerId worker) {
  Worker& planned = workers_.at(index(worker));
  const rpc::Time next = protocol(worker).next();
  if (next >= planned.tick_at)
    return;
  planned.tick_at = std::max(next, now_ + std::chrono::microseconds(1));
  events_.push({planned.tick_at, order_++, [this, worker, life = planned.life] {
                  Worker& ticked = workers_.at(index(worker));
                  if (ticked.life != life)
                    return;
                  if (now_ >= ticked.tick_at)
                    ticked.tick_at = rpc::Time::max();
                  settle(worker);
                }});
}

void Fabric::run_for(std::chrono::milliseconds time) {
  const rpc::Time end = now_ + time;
  while (!events_.empty() && events_.top().time <= end) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    event.what();
  }
  now_ = end;
}

std::uint64_t Fabric::call(
    rpc::WorkerId from,
    rpc::WorkerId to,
    rpc::Request request,
    std::function<void(rpc::Outcome)> done) {
  const std::uint64_t call = protocol(from).call(
      to,
      std::move(request),
      std::make_unique<CallbackCompletion>(std::move(done)),
      now_);
  settle(from);
  return call;
}

void Fabric::respond(
    rpc::WorkerId me,
    const rpc::Incoming& incoming,
    rpc::Status status,
    rpc::Payload payload) {
  protocol(me).respond(incoming, status, std::move(payload), now_);
  settle(me);
}

rpc::Reference Fabric::own(rpc::WorkerId worker) {
  return protocol(worker).own(std::make_shared<TestCargo>(living_));
}

}  // namespace trireme::testing
