// Five hundred stories of workers that call each other and pass references around while
// the network and they themselves fail. Whatever happens: no call runs twice, no wait
// outlasts its deadline, no value goes while somebody can reach it, and none stays when
// nobody can.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "trireme/net/bytes.h"
#include "trireme/testing/rpc_fabric.h"

namespace trireme::rpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What happens in a story beside the network's faults.
struct Plot {
  const char* name;
  testing::Faults faults;
  bool cuts = false;
  bool kills = false;
  bool restarts = false;
};
void PrintTo(const Plot& plot, std::ostream* out) {
  *out << plot.name;
}

constexpr int kWorkers = 5;
constexpr int kSteps = 150;
constexpr milliseconds kLease{3000};

class Story {
 public:
  Story(std::uint64_t seed, const Plot& plot)
      : plot_(plot),
        fabric_(
            seed,
            kWorkers,
            {.link = {.lease = kLease, .resend = milliseconds(100)},
             .make_token = {},
             .make_cargo = {}},
            [this](WorkerId me, Incoming incoming) {
              serve(me, std::move(incoming));
            }) {
    fabric_.set_faults(plot.faults);
    bags_.resize(kWorkers);
  }

  void play() {
    for (int step = 0; step < kSteps; ++step) {
      disturb();
      act();
      fabric_.run_for(milliseconds(fabric_.below(40)));
      if (calm())
        check_reach();
    }
    check_end();
  }

 private:
  enum Function : std::uint8_t { Echo, Keep, Give, Make, Pass, Count };

  bool calm() const { return !plot_.cuts && !plot_.kills; }

  WorkerId some_worker() { return fabric_.below(kWorkers); }
  WorkerId living_worker() {
    WorkerId worker = some_worker();
    while (!fabric_.alive(worker))
      worker = (worker + 1) % kWorkers;
    return worker;
  }

  void disturb() {
    if (plot_.cuts && fabric_.chance(0.05))
      fabric_.cut(some_worker(), some_worker());
    if (plot_.cuts && fabric_.chance(0.03))
      fabric_.heal();
    if (plot_.cuts && fabric_.chance(0.01))
      fabric_.run_for(kLease + seconds(1));
    if (plot_.kills && fabric_.chance(0.015) && killed_ < 2)
      kill(living_worker());
  }

  void kill(WorkerId worker) {
    ++killed_;
    ++lives_[worker];
    fabric_.kill(worker);
    bags_[static_cast<std::size_t>(worker)].clear();
    if (plot_.restarts)
      fabric_.at(milliseconds(fabric_.below(6000)), [this, worker] {
        fabric_.restart(worker);
      });
    else if (fabric_.chance(0.5))
      fabric_.at(milliseconds(fabric_.below(50)), [this, worker] {
        fabric_.tell_gone(worker);
      });
  }

  std::vector<Reference>& bag(WorkerId worker) {
    return bags_.at(static_cast<std::size_t>(worker));
  }

  // Some of what a worker holds.
  std::vector<Reference> handful(WorkerId worker) {
    std::vector<Reference> some;
    for (const Reference& reference : bag(worker))
      if (some.size() < 3 && fabric_.chance(0.4))
        some.push_back(reference);
    return some;
  }

  void put(WorkerId worker, std::vector<Reference> references) {
    if (fabric_.alive(worker))
      for (Reference& reference : references)
        bag(worker).push_back(std::move(reference));
  }

  void act() {
    const WorkerId me = living_worker();
    const int what = fabric_.below(10);
    if (what == 0)
      put(me, {fabric_.own(me)});
    else if (what <= 2 && !bag(me).empty())
      bag(me).erase(bag(me).begin() + fabric_.below(static_cast<int>(bag(me).size())));
    else
      call(me, static_cast<Function>(fabric_.below(Count)), 0);
    fabric_.settle(me);
  }

  void call(WorkerId me, Function function, int depth) {
    const WorkerId to = (me + 1 + fabric_.below(kWorkers - 1)) % kWorkers;
    const std::uint64_t number = ++calls_;
    Request request;
    request.idempotent = fabric_.chance(0.3);
    idempotent_[number] = request.idempotent;
    request.payload.bytes = net::ByteWriter()
                                .u64(number)
                                .u8(function)
                                .u8(static_cast<std::uint8_t>(depth))
                                .take();
    request.payload.references = handful(me);
    if (function == Make) {
      request.idempotent = idempotent_[number] = false;
      request.creates = fabric_.protocol(me).name(to);
      put(me, {request.creates});
    }
    const ObjectId made = request.creates ? request.creates->id() : ObjectId{};
    const Time deadline = fabric_.now() + milliseconds(1 + fabric_.below(8000));
    if (fabric_.chance(0.9))
      request.deadline = deadline;
    const bool limited = request.deadline != Time::max();
    const std::uint64_t life = lives_[me];
    const std::uint64_t sent = fabric_.call(
        me,
        to,
        std::move(request),
        [this, me, deadline, limited, life, made](Outcome outcome) {
          // It may not have left, since it waited for another name.
          if (outcome.status == Status::Late || outcome.status == Status::Cancelled)
            unmade_.insert(made);
          if (limited) {
            EXPECT_LE(fabric_.now(), deadline) << "a wait has outlasted its deadline";
          }
          if (lives_[me] == life && fabric_.chance(0.7))
            put(me, std::move(outcome.payload.references));
        });
    if (fabric_.chance(0.1))
      fabric_.at(microseconds(fabric_.below(5000)), [this, me, sent] {
        if (fabric_.alive(me)) {
          fabric_.protocol(me).cancel(sent, fabric_.now());
          fabric_.settle(me);
        }
      });
  }

  void serve(WorkerId me, Incoming incoming) {
    net::ByteReader bytes(incoming.payload.bytes, "a test's call");
    const std::uint64_t number = bytes.u64();
    const auto function = static_cast<Function>(bytes.u8());
    const int depth = bytes.u8();
    if (++runs_[number] > 1) {
      EXPECT_TRUE(idempotent_[number]) << "call " << number << " ran twice";
    }
    Payload reply;
    switch (function) {
      case Echo:
        reply.references = incoming.payload.references;
        break;
      case Keep:
        put(me, incoming.payload.references);
        break;
      case Give:
        reply.references = handful(me);
        break;
      case Make:
        if (fabric_.chance(0.5))
          reply.references = {incoming.creates};
        break;
      case Pass:
        if (depth < 3)
          call(me, fabric_.chance(0.5) ? Pass : Keep, depth + 1);
        break;
      case Count:
        break;
    }
    auto shared = std::make_shared<Incoming>(std::move(incoming));
    shared->payload.references.clear();
    auto answer =
        [this, me, shared, reply = std::make_shared<Payload>(std::move(reply))] {
          shared->creates = {};
          if (fabric_.alive(me))
            fabric_.respond(me, *shared, Status::Value, std::move(*reply));
          reply->references.clear();
        };
    fabric_.at(microseconds(fabric_.chance(0.8) ? 0 : fabric_.below(500000)), answer);
  }

  // Whoever believes that it can reach a value can.
  void check_reach() {
    for (WorkerId worker = 0; worker < kWorkers; ++worker)
      for (const Reference& reference : bag(worker)) {
        const Hold& hold = *reference.hold();
        if (hold.loss().happened() || hold.owner() == worker)
          continue;
        // A value may still have to be made; who has its name has it listed, or asks.
        const auto& references = fabric_.protocol(worker).references();
        if (!references.must_wait(reference)) {
          EXPECT_TRUE(fabric_.protocol(hold.owner()).references().has(hold.id()))
              << "worker " << worker << " holds " << to_string(hold.id())
              << ", which is gone";
        }
      }
  }

  void check_end() {
    fabric_.heal();
    fabric_.set_faults({});
    fabric_.run_for(seconds(15) + 3 * kLease);
    for (WorkerId worker = 0; worker < kWorkers; ++worker)
      if (fabric_.alive(worker))
        fabric_.settle(worker);
    // What a worker has been told to have lost is lost, all the rest is there.
    check_losses();
    for (WorkerId worker = 0; worker < kWorkers; ++worker) {
      bag(worker).clear();
      if (fabric_.alive(worker))
        fabric_.settle(worker);
    }
    fabric_.run_for(seconds(10) + 3 * kLease);
    for (WorkerId worker = 0; worker < kWorkers; ++worker)
      if (fabric_.alive(worker))
        check_empty(fabric_.protocol(worker), worker);
    EXPECT_EQ(*fabric_.living(), 0) << "values that nobody can reach";
  }

  void check_losses() {
    for (WorkerId worker = 0; worker < kWorkers; ++worker)
      for (const Reference& reference : bag(worker)) {
        const Hold& hold = *reference.hold();
        const bool lost = hold.loss().happened();
        if (calm() && unmade_.count(hold.id()) == 0) {
          EXPECT_FALSE(lost) << hold.loss().why();
        }
        if (!lost && fabric_.alive(worker)) {
          ASSERT_TRUE(fabric_.alive(hold.owner()));
          EXPECT_TRUE(fabric_.protocol(hold.owner()).references().has(hold.id()))
              << "worker " << worker << " holds " << to_string(hold.id())
              << ", which is gone";
        }
      }
  }

  static void check_empty(const Protocol& protocol, WorkerId worker) {
    EXPECT_TRUE(protocol.references().left().empty());
    EXPECT_EQ(protocol.references().owned(), 0u) << "worker " << worker;
    EXPECT_EQ(protocol.references().held(), 0u) << "worker " << worker;
    EXPECT_EQ(protocol.waiting(), 0u) << "worker " << worker;
    EXPECT_EQ(protocol.running(), 0u) << "worker " << worker;
    EXPECT_EQ(protocol.unsent(), 0u) << "worker " << worker;
  }

  Plot plot_;
  std::vector<std::vector<Reference>> bags_;
  std::map<std::uint64_t, int> runs_;
  std::map<std::uint64_t, bool> idempotent_;
  std::map<WorkerId, std::uint64_t> lives_;
  std::uint64_t calls_ = 0;
  std::set<ObjectId> unmade_;
  int killed_ = 0;
  testing::Fabric fabric_;
};

constexpr Plot kPlots[] = {
    {.name = "Order", .faults = {.slowest = milliseconds(50)}},
    {.name = "Loss", .faults = {.drop = 0.2, .twice = 0.1}},
    {.name = "Cuts",
     .faults = {.drop = 0.05, .twice = 0.05, .slowest = milliseconds(20)},
     .cuts = true},
    {.name = "Kills", .faults = {.drop = 0.05, .twice = 0.05}, .kills = true},
    {.name = "All",
     .faults = {.drop = 0.1, .twice = 0.1, .slowest = milliseconds(200)},
     .cuts = true,
     .kills = true,
     .restarts = true},
};

class RpcStories : public ::testing::TestWithParam<Plot> {};

TEST_P(RpcStories, AHundredEndWell) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << GetParam().name << ", seed " << seed);
    Story(seed, GetParam()).play();
    if (HasFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plots, RpcStories, ::testing::ValuesIn(kPlots), [](const auto& plot) {
      return std::string(plot.param.name);
    });

}  // namespace
}  // namespace trireme::rpc
