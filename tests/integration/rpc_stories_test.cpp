// A thousand stories of workers that call each other and pass references around while
// the network and they themselves fail. In half of them messages are sent again after a
// time, in the others when a loss is reported, as agents do it. Whatever happens: no
// call runs twice, each ends once, no wait outlasts its deadline, no value goes while
// somebody can reach it, and none stays when nobody can.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

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
// A pair that was cut for longer may have lost faith.
constexpr milliseconds kShortCut = kLease / 2;
// So long after the end of a call its callee must know of it.
constexpr seconds kTold{3};

class Story {
 public:
  Story(std::uint64_t seed, const Plot& plot, bool reported)
      : plot_(plot),
        fabric_(
            seed,
            kWorkers,
            {.link = {.lease = kLease, .resend = milliseconds(reported ? 0 : 100)},
             .make_token = {},
             .make_cargo = {}},
            [this](WorkerId me, Incoming incoming) {
              serve(me, std::move(incoming));
            }) {
    fabric_.set_faults(plot.faults);
    if (reported)
      fabric_.report_losses();
    bags_.resize(kWorkers);
  }

  void play() {
    for (int step = 0; step < kSteps; ++step) {
      disturb();
      act();
      fabric_.run_for(milliseconds(fabric_.below(40)));
      if (calm())
        check_reach();
      check_listed();
    }
    check_end();
  }

  /// How often it was looked whether a callee knows that nobody waits.
  std::size_t told() const { return told_; }
  std::size_t most_listed() const { return most_listed_; }

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
      cut(some_worker(), some_worker());
    if (plot_.cuts && fabric_.chance(0.03))
      heal();
    if (plot_.cuts && fabric_.chance(0.01))
      fabric_.run_for(kLease + seconds(1));
    if (plot_.kills && fabric_.chance(0.015) && killed_ < 2)
      kill(living_worker());
  }

  void cut(WorkerId a, WorkerId b) {
    if (fabric_.chance(0.5))
      fabric_.cut(a, b);
    else
      fabric_.cut_one_way(a, b);
    cut_since_.emplace(std::minmax(a, b), fabric_.now());
  }

  void heal() {
    fabric_.heal();
    for (const auto& [pair, since] : cut_since_)
      if (fabric_.now() - since > kShortCut)
        cut_long_.insert(pair);
    cut_since_.clear();
  }

  // Whether the two have had no reason to lose faith in each other.
  bool close(WorkerId a, WorkerId b) {
    const std::pair<WorkerId, WorkerId> pair = std::minmax(a, b);
    const auto cut = cut_since_.find(pair);
    return lives_[a] == 0 && lives_[b] == 0 && cut_long_.count(pair) == 0 &&
           (cut == cut_since_.end() || fabric_.now() - cut->second <= kShortCut);
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
    callers_[number] = {me, life};
    const std::uint64_t sent = fabric_.call(
        me,
        to,
        std::move(request),
        [this, number, me, deadline, limited, life, made](Outcome outcome) {
          EXPECT_EQ(++ends_[number], 1) << "call " << number << " ended twice";
          if (outcome.status == Status::Late || outcome.status == Status::Cancelled)
            unwanted_since_[number] = fabric_.now();
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
    EXPECT_LE(runs_[number], 1 + ProtocolOptions().retries) << "call " << number;
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
    auto answer = [this,
                   number,
                   me,
                   shared,
                   reply = std::make_shared<Payload>(std::move(reply))] {
      check_cancelled(number, *shared);
      shared->creates = {};
      if (fabric_.alive(me))
        fabric_.respond(me, *shared, Status::Value, std::move(*reply));
      reply->references.clear();
    };
    const int slowest = fabric_.chance(0.8)   ? 1
                        : fabric_.chance(0.8) ? 500'000
                                              : 12'000'000;
    fabric_.at(microseconds(fabric_.below(slowest)), answer);
  }

  // Who runs a call for nobody has been told so.
  void check_cancelled(std::uint64_t number, const Incoming& incoming) {
    const auto since = unwanted_since_.find(number);
    if (!calm() || since == unwanted_since_.end() ||
        fabric_.now() - since->second < kTold)
      return;
    ++told_;
    EXPECT_TRUE(std::static_pointer_cast<testing::TestToken>(incoming.token)->cancelled)
        << "call " << number << " runs on, though nobody waits for it";
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

  // Who holds which value, as which fork.
  using Listed = std::tuple<WorkerId, ObjectId, std::uint64_t>;

  // A reference that its owner has listed is not lost while the two can speak.
  void check_listed() {
    std::set<Listed> listed;
    for (WorkerId worker = 0; worker < kWorkers; ++worker)
      for (const Reference& reference : bag(worker)) {
        const Hold& hold = *reference.hold();
        if (hold.owner() == worker || !close(worker, hold.owner()))
          continue;
        const Listed one{worker, hold.id(), hold.fork()};
        if (hold.loss().happened()) {
          EXPECT_EQ(listed_.count(one), 0u)
              << "worker " << worker << " has lost " << to_string(hold.id())
              << " of worker " << hold.owner() << ": " << hold.loss().why();
        } else if (fabric_.protocol(worker).references().listed(reference)) {
          listed.insert(one);
        }
      }
    listed_ = std::move(listed);
    most_listed_ = std::max(most_listed_, listed_.size());
  }

  void check_end() {
    heal();
    fabric_.set_faults({});
    fabric_.run_for(seconds(15) + 3 * kLease);
    for (WorkerId worker = 0; worker < kWorkers; ++worker)
      if (fabric_.alive(worker))
        fabric_.settle(worker);
    check_listed();
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
    for (const auto& [number, caller] : callers_)
      if (lives_[caller.first] == caller.second) {
        EXPECT_EQ(ends_[number], 1) << "call " << number;
      }
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
  std::map<std::uint64_t, int> runs_, ends_;
  std::map<std::uint64_t, std::pair<WorkerId, std::uint64_t>> callers_;  // and life
  std::map<std::uint64_t, Time> unwanted_since_;
  std::map<std::pair<WorkerId, WorkerId>, Time> cut_since_;
  std::set<std::pair<WorkerId, WorkerId>> cut_long_;
  std::set<Listed> listed_;
  std::map<std::uint64_t, bool> idempotent_;
  std::map<WorkerId, std::uint64_t> lives_;
  std::uint64_t calls_ = 0;
  std::set<ObjectId> unmade_;
  int killed_ = 0;
  std::size_t told_ = 0, most_listed_ = 0;
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

const Plot& plot_named(std::string_view name) {
  return *std::find_if(std::begin(kPlots), std::end(kPlots), [&](const Plot& plot) {
    return plot.name == name;
  });
}

// A plot, and whether losses are reported.
class RpcStories : public ::testing::TestWithParam<std::tuple<Plot, bool>> {};

TEST_P(RpcStories, AHundredEndWell) {
  const auto& [plot, reported] = GetParam();
  // Other stories in each plot.
  const auto first = static_cast<std::uint64_t>(&plot_named(plot.name) - kPlots) * 200 +
                     (reported ? 100 : 0);
  std::size_t told = 0, listed = 0;
  for (std::uint64_t seed = first; seed < first + 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << plot.name << ", seed " << seed);
    Story story(seed, plot, reported);
    story.play();
    if (HasFailure())
      return;
    told += story.told();
    listed += story.most_listed();
  }
  // The stories have had what they are about.
  EXPECT_GT(listed, 100u);
  if (!plot.cuts && !plot.kills) {
    EXPECT_GT(told, 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plots,
    RpcStories,
    ::testing::Combine(::testing::ValuesIn(kPlots), ::testing::Bool()),
    [](const auto& story) {
      return std::string(std::get<0>(story.param).name) +
             (std::get<1>(story.param) ? "Reported" : "");
    });

}  // namespace
}  // namespace trireme::rpc
