// A job over several nodes, driven with a clock of the test's own.
#include "trireme/launch/rounds.h"

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

#include "trireme/launch/job.h"

namespace trireme::launch {
namespace {

using namespace std::chrono_literals;
using Told = Word::Kind;

const Word kIdle{.kind = Told::Idle};

Word failed(int rank, const Ending& ending) {
  return {
      .kind = Told::Failed, .text = "it", .failure = {.rank = rank, .ending = ending}};
}

class Journey {
 public:
  explicit Journey(Rounds::Plan with) : plan(std::move(with)), rounds(plan, now) {}

  // Node `id` comes; 0 leads.
  void join(int id, int wish = -1, int ranks = 1) {
    NodeCard card{
        .wish = wish,
        .ranks = ranks,
        .least = plan.least,
        .most = plan.most,
        .host = text_of(id)};
    join(id, card);
  }
  void join(int id, const NodeCard& card) {
    rounds.join(id, card, id == 0);
    collect();
  }
  void hear(int id, const Word& word) {
    rounds.hear(id, word);
    collect();
  }
  void gone(int id) {
    rounds.gone(id, "no sign");
    collect();
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    collect();
  }
  // All words of one kind that were sent since the last call, by node.
  std::map<int, Word> take(Told kind) {
    std::map<int, Word> found;
    for (const Letter& letter : std::exchange(letters, {}))
      if (letter.word.kind == kind)
        EXPECT_TRUE(found.emplace(letter.to, letter.word).second)
            << "twice to " << letter.to;
      else
        letters.push_back(letter);
    return found;
  }
  std::vector<int> receivers(Told kind) {
    std::vector<int> ids;
    for (const auto& [id, word] : take(kind))
      ids.push_back(id);
    return ids;
  }
  static std::string text_of(int id) {
    std::string name = "host";
    return name.append(std::to_string(id));
  }

  Rounds::Plan plan;
  Rounds::Time now{1000h};
  Rounds rounds;
  std::vector<Letter> letters;

 private:
  void collect() {
    for (Letter& letter : rounds.next(now))
      letters.push_back(std::move(letter));
  }
};

using Ids = std::vector<int>;

TEST(Rounds, StartWhenAllAreThereAndNumberByWish) {
  Journey journey({.least = 3, .most = 3, .max_restarts = 2, .run_id = "job"});
  journey.join(5, 2, 4);
  journey.join(0, -1, 1);
  EXPECT_TRUE(journey.letters.empty());
  journey.join(7, 1, 2);
  const auto go = journey.take(Told::Go);
  ASSERT_EQ(go.size(), 3u);
  const std::map<int, std::pair<int, int>> wanted = {
      {0, {0, 0}}, {7, {1, 1}}, {5, {2, 3}}};
  for (const auto& [id, place] : wanted) {
    EXPECT_EQ(go.at(id).place.node, place.first);
    EXPECT_EQ(go.at(id).place.first_rank, place.second);
    EXPECT_EQ(go.at(id).place.nodes, 3);
    EXPECT_EQ(go.at(id).place.ranks_in_all, 7);
    EXPECT_EQ(go.at(id).place.attempt, 0);
    EXPECT_EQ(go.at(id).place.max_restarts, 2);
    EXPECT_EQ(go.at(id).place.run_id, "job");
  }
}

TEST(Rounds, NumberThoseWithoutAWishAsTheyComeAndTheLeaderFirst) {
  Journey journey({.least = 4, .most = 4});
  journey.join(9);
  journey.join(3);
  journey.join(4, 2);
  journey.join(0);
  const auto go = journey.take(Told::Go);
  ASSERT_EQ(go.size(), 4u);
  EXPECT_EQ(go.at(0).place.node, 0);
  EXPECT_EQ(go.at(9).place.node, 1);
  EXPECT_EQ(go.at(4).place.node, 2);
  EXPECT_EQ(go.at(3).place.node, 3);
}

TEST(Rounds, EndWellWhenAllRanksDo) {
  Journey journey({.least = 2, .most = 2});
  journey.join(0);
  journey.join(1);
  journey.hear(1, kIdle);
  EXPECT_FALSE(journey.rounds.over());
  journey.hear(0, kIdle);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 2u);
  EXPECT_EQ(over.at(1).number, 0);
  EXPECT_EQ(over.at(1).text, "");
  EXPECT_TRUE(journey.rounds.over());
}

TEST(Rounds, NameTheMissingNodesAtTheDeadline) {
  Journey journey({.least = 4, .most = 4, .join = 30s});
  journey.join(0, 0);
  journey.join(1, 2);
  EXPECT_EQ(journey.rounds.wake(), journey.now + 30s);
  journey.pass(30s - 1ms);
  EXPECT_TRUE(journey.letters.empty());
  journey.pass(1ms);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 2u);
  EXPECT_EQ(over.at(1).number, 1);
  EXPECT_TRUE(over.at(1).text.starts_with(
      "expected 4 nodes within 30 s, got 2, without node 1, node 3; "))
      << over.at(1).text;
}

TEST(Rounds, RefuseByNameWhoDoesNotFit) {
  Journey journey({.least = 2, .most = 3, .run_id = "job"});
  journey.join(0, 0);
  journey.join(1, 1);
  const auto refusal = [&](int id, const NodeCard& card) {
    journey.join(id, card);
    const auto over = journey.take(Told::Over);
    EXPECT_EQ(over.size(), 1u);
    EXPECT_EQ(over.count(id), 1u);
    return over.count(id) == 1 ? over.at(id).text : "";
  };
  const NodeCard good{.wish = 2, .least = 2, .most = 3, .host = "late"};
  NodeCard card = good;
  card.most = 4;
  EXPECT_TRUE(
      refusal(11, card).starts_with("expected --nnodes 2:3 as on node 0, got 2:4; "));
  card = good;
  card.run_id = "other";
  EXPECT_TRUE(refusal(12, card).starts_with(
      "expected a node of the job \"job\", got one of \"other\"; "));
  card = good;
  card.wish = 3;
  EXPECT_TRUE(refusal(13, card).starts_with("expected --node-rank below 3, got 3; "));
  card = good;
  card.run_id = "job";
  journey.join(14, card);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 1, 14})) << "the others go on";
}

TEST(Rounds, OneMoreIsRefusedWhenAllHaveAnswered) {
  Journey journey({.least = 3, .most = 3});
  for (const int id : {0, 1, 2})
    journey.join(id);
  journey.take(Told::Go);
  journey.join(3);
  EXPECT_EQ(journey.receivers(Told::Here), (Ids{0, 1, 2}));
  journey.hear(0, {.kind = Told::Here});
  journey.hear(2, {.kind = Told::Here});
  journey.hear(2, {.kind = Told::Here});
  EXPECT_TRUE(journey.letters.empty());
  journey.hear(1, {.kind = Told::Here});
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over.at(3).number, 2);
  EXPECT_TRUE(over.at(3).text.starts_with("expected 3 nodes, got one more"));
}

TEST(Rounds, OneMoreTakesThePlaceOfOneThatIsGone) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0);
  journey.join(1);
  journey.take(Told::Go);
  journey.join(2);
  journey.hear(0, {.kind = Told::Here});
  journey.gone(1);
  journey.hear(0, kIdle);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 2}));
}

TEST(Rounds, OneThatOnlyWaitedIsToldSo) {
  Journey journey({.least = 1, .most = 2, .last_call = 1s});
  journey.join(0);
  journey.pass(1s);
  journey.join(1);
  journey.hear(0, kIdle);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 2u);
  EXPECT_EQ(over.at(0).text, "");
  EXPECT_EQ(
      over.at(1).text, "the job is over; this node only waited for its next start");
}

TEST(Rounds, AFailureGoesToTheOthersAndDecides) {
  Journey journey({.least = 3, .most = 3});
  for (const int id : {0, 1, 2})
    journey.join(id, id);
  journey.hear(1, failed(1, {.exit_code = 3}));
  EXPECT_EQ(journey.receivers(Told::Failed), (Ids{0, 2}));
  journey.hear(0, failed(0, {.signal = SIGABRT}));  // its consequence
  EXPECT_EQ(journey.receivers(Told::Failed), Ids{});
  for (const int id : {2, 1, 0})
    journey.hear(id, kIdle);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 3u);
  for (const auto& [id, word] : over)
    EXPECT_EQ(word.number, 3);
}

TEST(Rounds, StartAgainWhenAllRanksHaveEnded) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0);
  journey.join(1);
  journey.take(Told::Go);
  journey.hear(1, failed(1, {.signal = SIGSEGV}));
  journey.hear(1, kIdle);
  EXPECT_EQ(journey.receivers(Told::Go), Ids{}) << "node 0 still has ranks";
  journey.hear(0, kIdle);
  const auto go = journey.take(Told::Go);
  ASSERT_EQ(go.size(), 2u);
  EXPECT_EQ(go.at(1).place.attempt, 1);
  journey.hear(0, failed(0, {.exit_code = 4}));
  journey.hear(0, kIdle);
  journey.hear(1, kIdle);
  EXPECT_EQ(journey.take(Told::Over).at(1).number, 4);
}

TEST(Rounds, AWishToStopEndsAllAndNamesWho) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 5});
  journey.join(0);
  journey.join(1);
  journey.hear(1, {.kind = Told::Stopping, .number = SIGINT});
  const auto stop = journey.take(Told::Stopping);
  ASSERT_EQ(stop.size(), 1u);
  EXPECT_EQ(stop.at(0).number, SIGINT);
  EXPECT_EQ(stop.at(0).text, "node 1 (host1) was asked to stop with SIGINT");
  journey.gone(1);
  journey.hear(0, kIdle);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 1})) << "those of the start alone";
  journey.join(2, 1);
  EXPECT_EQ(journey.receivers(Told::Over), Ids{2});
}

TEST(Rounds, AWishToStopEndsThoseThatStillGather) {
  Journey journey({.least = 3, .most = 3});
  journey.join(0);
  journey.join(1);
  journey.hear(1, {.kind = Told::Stopping, .number = SIGTERM});
  EXPECT_EQ(
      journey.take(Told::Stopping).at(0).text,
      "the node on host1 was asked to stop with SIGTERM");
}

TEST(Rounds, SignalsAndObedienceGoToTheOthers) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 5});
  journey.join(0);
  journey.join(1);
  journey.hear(0, {.kind = Told::Passed, .number = SIGUSR1});
  EXPECT_EQ(journey.receivers(Told::Passed), Ids{1});
  journey.hear(1, {.kind = Told::Obeyed});
  EXPECT_EQ(journey.receivers(Told::Obeyed), Ids{0});
  journey.hear(0, {.kind = Told::Obeyed});
  EXPECT_EQ(journey.receivers(Told::Obeyed), Ids{});
  journey.hear(0, kIdle);
  journey.hear(1, kIdle);
  EXPECT_EQ(journey.take(Told::Over).at(0).number, kResumable) << "not started again";
}

TEST(Rounds, ANodeThatVanishesIsNamedAndEndsTheJob) {
  Journey journey({.least = 3, .most = 3});
  for (const int id : {0, 1, 2})
    journey.join(id, id);
  journey.gone(2);
  const auto lost = journey.take(Told::Lost);
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost.at(0).text, "node 2 (host2) is gone: no sign");
  EXPECT_EQ(lost.at(0).number, 0);
  journey.hear(0, kIdle);
  journey.hear(1, kIdle);
  EXPECT_EQ(journey.take(Told::Over).at(1).number, 1);
}

TEST(Rounds, ANodeThatHasEndedWellMayGo) {
  Journey journey({.least = 2, .most = 2});
  journey.join(0);
  journey.join(1);
  journey.hear(1, kIdle);
  journey.gone(1);
  journey.hear(0, kIdle);
  EXPECT_EQ(journey.take(Told::Over).at(0).number, 0);
}

TEST(Rounds, WithBoundsWaitAMomentForMore) {
  Journey journey({.least = 2, .most = 4, .last_call = 5s});
  journey.join(0);
  EXPECT_NE(journey.rounds.wake(), journey.now + 5s);
  journey.join(1);
  EXPECT_EQ(journey.rounds.wake(), journey.now + 5s);
  journey.pass(3s);
  journey.join(2);
  journey.pass(2s - 1ms);
  EXPECT_EQ(journey.receivers(Told::Go), Ids{});
  journey.pass(1ms);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 1, 2}));
}

TEST(Rounds, WithBoundsTheMomentBeginsAnewWhenTooFewAreLeft) {
  Journey journey({.least = 2, .most = 4, .join = 60s, .last_call = 5s});
  journey.join(0);
  journey.join(1);
  journey.pass(4s);
  journey.gone(1);
  EXPECT_EQ(journey.rounds.wake(), journey.now + 56s) << "the deadline is the first's";
  journey.join(2);
  journey.pass(4s);
  EXPECT_EQ(journey.receivers(Told::Go), Ids{});
  journey.pass(1s);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 2}));
}

TEST(Rounds, WithBoundsGoOnWithoutALostNodeAndWithOneThatCameLate) {
  Journey journey({.least = 2, .most = 3, .max_restarts = 2, .last_call = 5s});
  for (const int id : {0, 1, 2})
    journey.join(id, -1, id + 1);
  journey.take(Told::Go);
  journey.gone(1);
  journey.hear(0, kIdle);
  journey.hear(2, kIdle);
  EXPECT_EQ(journey.receivers(Told::Go), Ids{}) << "it may come back";
  journey.pass(5s);
  auto go = journey.take(Told::Go);
  ASSERT_EQ(go.size(), 2u);
  EXPECT_EQ(go.at(2).place.node, 1);
  EXPECT_EQ(go.at(2).place.first_rank, 1);
  EXPECT_EQ(go.at(2).place.ranks_in_all, 4);
  EXPECT_EQ(go.at(2).place.attempt, 1);
  journey.letters.clear();
  journey.join(3);
  EXPECT_TRUE(journey.letters.empty()) << "it waits for the next start";
  journey.hear(3, {.kind = Told::Passed, .number = SIGUSR1});
  EXPECT_TRUE(journey.letters.empty()) << "it has no ranks yet";
  journey.hear(0, failed(0, {.exit_code = 3}));
  EXPECT_EQ(journey.receivers(Told::Failed), Ids{2});
  journey.hear(0, kIdle);
  journey.hear(2, kIdle);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 2, 3})) << "at once: all are there";
}

TEST(Rounds, WithoutBoundsWaitForTheReplacementOfALostNode) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1, .join = 60s});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.gone(1);
  journey.hear(0, kIdle);
  EXPECT_EQ(journey.rounds.wake(), journey.now + 60s);
  journey.pass(20s);
  journey.join(2, 1);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 2}));
}

TEST(Rounds, WithoutBoundsAReplacementMayComeBeforeTheOthersHaveStopped) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.gone(1);
  journey.join(2, 1);
  EXPECT_EQ(journey.receivers(Told::Go), Ids{}) << "the ranks of node 0 still run";
  journey.hear(0, kIdle);
  EXPECT_EQ(journey.receivers(Told::Go), (Ids{0, 2}));
}

TEST(Rounds, WithoutBoundsNobodyJoinsInTheMiddle) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.hear(1, kIdle);
  journey.gone(1);
  journey.join(2, 1);
  EXPECT_EQ(journey.receivers(Told::Over), Ids{2}) << "the ranks of node 0 still run";
}

TEST(Rounds, ASecondOfOneNumberIsRefusedWhenTheFirstAnswers) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.join(2, 1);
  EXPECT_EQ(journey.receivers(Told::Here), Ids{1}) << "it is asked";
  EXPECT_TRUE(journey.letters.empty());
  journey.hear(1, {.kind = Told::Here});
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over.at(2).number, 2);
  EXPECT_TRUE(over.at(2).text.starts_with(
      "expected one node of rank 1, got a second on host2 beside that on host1; "))
      << over.at(2).text;
  journey.hear(1, {.kind = Told::Here});
  EXPECT_TRUE(journey.letters.empty()) << "once is enough";
}

TEST(Rounds, ASecondOfOneNumberTakesThePlaceWhenTheFirstIsGone) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.join(2, 1);
  journey.join(3, 1);
  journey.gone(3);  // it had no patience
  journey.gone(1);
  EXPECT_EQ(journey.receivers(Told::Lost), Ids{0});
  journey.hear(0, kIdle);
  const auto go = journey.take(Told::Go);
  ASSERT_EQ(go.size(), 2u);
  EXPECT_EQ(go.at(2).place.node, 1);
  EXPECT_EQ(go.at(2).place.attempt, 1);
}

TEST(Rounds, ASecondOfOneNumberIsToldWhenTheJobIsOver) {
  Journey journey({.least = 2, .most = 2});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.join(2, 1);
  journey.hear(0, kIdle);
  journey.hear(1, kIdle);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 3u);
  EXPECT_EQ(over.at(1).number, 0);
  EXPECT_EQ(over.at(2).number, 2);
  EXPECT_TRUE(over.at(2).text.starts_with("expected a job that goes on, "));
  // Where no restart is left, its death is the end of the job.
  Journey other({.least = 2, .most = 2});
  other.join(0, 0);
  other.join(1, 1);
  other.join(2, 1);
  other.gone(1);
  EXPECT_EQ(other.receivers(Told::Over), Ids{2});
}

TEST(Rounds, OneThatOnlyWaitsMayBeStopped) {
  Journey journey({.least = 1, .most = 3, .last_call = 1s});
  journey.join(0);
  journey.pass(1s);
  journey.take(Told::Go);
  journey.join(1);
  journey.hear(1, {.kind = Told::Stopping, .number = SIGINT});
  EXPECT_TRUE(journey.letters.empty()) << "the job is not its own";
  journey.hear(0, kIdle);
  EXPECT_EQ(journey.receivers(Told::Over), Ids{0});
}

TEST(Rounds, ANodeThatCannotBeStartedEndsTheGathering) {
  Journey journey({.least = 2, .most = 2});
  journey.join(0);
  journey.rounds.cannot_gather("no ssh");
  journey.pass(0s);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over.at(0).number, 1);
  EXPECT_EQ(over.at(0).text, "no ssh");
  journey.join(1);
  EXPECT_EQ(journey.take(Told::Over).at(1).text, "no ssh") << "who comes late, too";
}

TEST(Rounds, ANodeThatCannotComeBackIsNotWaitedFor) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 1});
  journey.join(0, 0);
  journey.join(1, 1);
  journey.take(Told::Go);
  journey.rounds.cannot_gather("the command has ended");
  journey.pass(0s);
  journey.gone(1);
  EXPECT_EQ(journey.receivers(Told::Over), Ids{});
  journey.hear(0, kIdle);
  const auto over = journey.take(Told::Over);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over.at(0).number, 1);
  EXPECT_EQ(over.at(0).text, "the command has ended");
}

TEST(Rounds, EndWhereNobodyCanStart) {
  Journey journey({.least = 2, .most = 2, .max_restarts = 3});
  journey.join(0);
  journey.join(1);
  journey.rounds.cannot_start("no port");
  journey.pass(0s);
  EXPECT_EQ(journey.take(Told::Over).at(1).text, "no port");
  EXPECT_TRUE(journey.rounds.over());
}

TEST(Rounds, ANodeThatFailsToBeStartedLaterSaysNothingNew) {
  Journey journey({.least = 2, .most = 2});
  journey.join(0);
  journey.join(1);
  journey.take(Told::Go);
  journey.rounds.cannot_gather("no ssh");
  journey.pass(0s);
  EXPECT_TRUE(journey.letters.empty());
}

}  // namespace
}  // namespace trireme::launch
