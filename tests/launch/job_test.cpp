// A job's course, driven with a clock of the test's own.
#include "trireme/launch/job.h"

#include <csignal>

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

using namespace std::chrono_literals;
using Kind = Step::Kind;

constexpr Ending kGood{};
constexpr Ending kThree{.exit_code = 3};
constexpr Ending kTermed{.signal = SIGTERM};
constexpr Ending kKilled{.signal = SIGKILL};

class Course {
 public:
  explicit Course(const Job::Plan& plan) : job(plan) {
    expect(Kind::Start);
    expect(Kind::Wait);
  }

  void expect(Kind kind, int signal = 0) {
    const Step step = job.next(now);
    EXPECT_EQ(step.kind, kind) << "the kind";
    EXPECT_EQ(step.signal, signal) << "the signal";
  }
  void end_all(const Ending& ending) {
    for (int rank = 0; job.left() > 0; ++rank)
      if (job.running(rank))
        job.ended(rank, ending);
  }

  Job job;
  Job::Time now{1000h};
};

TEST(Job, EndsWellWhenAllRanksDo) {
  Course course({.ranks = 3});
  for (const int rank : {1, 0, 2}) {
    course.expect(Kind::Wait);
    EXPECT_FALSE(course.job.wake());
    EXPECT_TRUE(course.job.running(rank));
    course.job.ended(rank, kGood);
    EXPECT_FALSE(course.job.running(rank));
  }
  course.expect(Kind::Finish);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 0);
  EXPECT_EQ(course.job.failure(), nullptr);
  EXPECT_EQ(course.job.attempt(), 0);
}

TEST(Job, StopsTheOthersWhenOneFails) {
  Course course({.ranks = 3, .grace = 5s});
  course.job.ended(1, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.expect(Kind::Wait);
  EXPECT_EQ(course.job.wake(), course.now + 5s);
  course.job.ended(0, kTermed);
  course.expect(Kind::Wait);
  course.job.ended(2, kGood);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 3);
  ASSERT_NE(course.job.failure(), nullptr);
  EXPECT_EQ(course.job.failure()->rank, 1);
  EXPECT_EQ(course.job.failure()->ending, kThree);
  EXPECT_EQ(course.job.failed(), std::vector<int>{1});
}

TEST(Job, KillsWhenTheTimeOfGraceIsOver) {
  Course course({.ranks = 2, .grace = 5s});
  course.job.ended(0, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.now += 5s - 1ms;
  course.expect(Kind::Wait);
  course.now += 1ms;
  course.expect(Kind::Signal, SIGKILL);
  course.expect(Kind::Wait);
  course.job.ended(1, kKilled);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 3);
}

TEST(Job, KillsAtOnceWithoutGrace) {
  Course course({.ranks = 2, .grace = 0s});
  course.job.ended(0, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.expect(Kind::Signal, SIGKILL);
}

TEST(Job, GivesUpOnARankThatCannotBeKilled) {
  Course course({.ranks = 2, .max_restarts = 5, .grace = 1s});
  course.job.ended(0, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.now += 1s;
  course.expect(Kind::Signal, SIGKILL);
  ASSERT_TRUE(course.job.wake());
  EXPECT_LE(*course.job.wake() - course.now, 60s);
  course.now = *course.job.wake() - 1ms;
  course.expect(Kind::Wait);
  course.now += 1ms;
  course.expect(Kind::Finish);  // and no restart, which would meet the old rank
  EXPECT_EQ(course.job.left(), 1);
  EXPECT_EQ(course.job.exit_code(), 3);
}

TEST(Job, NamesTheFirstFailureAndKnowsThoseOfTheSameMoment) {
  Course course({.ranks = 4});
  course.job.ended(2, {.signal = SIGSEGV});
  course.job.ended(0, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.job.ended(1, kThree);  // an answer to SIGTERM
  EXPECT_EQ(course.job.failure()->rank, 2);
  EXPECT_EQ(course.job.failed(), (std::vector<int>{2, 0}));
  EXPECT_EQ(course.job.exit_code(), 139);
}

TEST(Job, ListensToTheOthersBeforeItStopsThem) {
  Course course({.ranks = 4, .grace = 5s, .listen = 1s});
  course.job.ended(1, kKilled);
  course.expect(Kind::Wait);
  EXPECT_EQ(course.job.wake(), course.now + 1s);
  course.job.ended(3, kThree);
  course.job.ended(2, kGood);
  course.now += 1s - 1ms;
  course.expect(Kind::Wait);
  course.now += 1ms;
  course.expect(Kind::Signal, SIGTERM);
  EXPECT_EQ(course.job.wake(), course.now + 5s);
  course.job.ended(0, kThree);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.failed(), std::vector<int>{1});
  EXPECT_EQ(course.job.followed(), std::vector<int>{3}) << "not those that were told";
  EXPECT_EQ(course.job.exit_code(), 137);
}

TEST(Job, IsOverWhenAllHaveEndedWhileItListened) {
  Course course({.ranks = 2, .max_restarts = 1, .listen = 1h});
  course.job.ended(1, kKilled);
  course.expect(Kind::Wait);
  course.job.ended(0, kThree);
  course.expect(Kind::Start);
  EXPECT_TRUE(course.job.followed().empty()) << "of the attempt before";
  course.job.ended(0, kGood);
  course.job.ended(1, kGood);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 0);
}

TEST(Job, AWishToStopEndsTheListening) {
  for (const bool abandoned : {false, true}) {
    Course course({.ranks = 2, .listen = 1h});
    course.job.ended(1, kThree);
    course.expect(Kind::Wait);
    if (abandoned)
      course.job.abandon();
    else
      course.job.stop(SIGINT);
    course.expect(Kind::Signal, abandoned ? SIGTERM : SIGINT);
  }
}

TEST(Job, PassesOnTheSignalThatAsksToStop) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Course course({.ranks = 2});
    course.job.stop(signal);
    EXPECT_TRUE(course.job.asked());
    course.expect(Kind::Signal, signal);
    course.expect(Kind::Wait);
    course.end_all({.signal = signal});
    course.expect(Kind::Finish);
    EXPECT_EQ(course.job.exit_code(), 128 + signal);
    EXPECT_EQ(course.job.failure(), nullptr) << "whoever was asked has not failed";
  }
}

TEST(Job, TheSecondWishToStopEndsTheGrace) {
  Course course({.ranks = 2, .grace = 1h});
  course.job.stop(SIGINT);
  course.expect(Kind::Signal, SIGINT);
  course.expect(Kind::Wait);
  course.job.stop(SIGINT);
  course.expect(Kind::Signal, SIGKILL);
  course.end_all(kKilled);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 130);
}

TEST(Job, TheFirstOfSeveralSignalsGivesTheCode) {
  Course course({.ranks = 1, .grace = 1h});
  course.job.stop(SIGINT);
  course.job.stop(SIGTERM);  // both before anybody looked
  course.expect(Kind::Signal, SIGINT);
  course.expect(Kind::Signal, SIGKILL);
  course.end_all(kKilled);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 130);
}

TEST(Job, AWishToStopAfterAFailureLeavesTheGraceAndTheCode) {
  Course course({.ranks = 2, .max_restarts = 3, .grace = 1h});
  course.job.ended(0, kThree);
  EXPECT_TRUE(course.job.will_restart());
  course.expect(Kind::Signal, SIGTERM);
  course.job.stop(SIGINT);
  EXPECT_FALSE(course.job.will_restart());
  course.expect(Kind::Wait);
  course.job.stop(SIGINT);
  course.expect(Kind::Signal, SIGKILL);
  course.end_all(kKilled);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 3);
}

TEST(Job, RanksThatCanGoOnMakeTheJobOneThatCan) {
  Course course({.ranks = 2, .max_restarts = 3});
  course.job.stop(SIGTERM);
  course.expect(Kind::Signal, SIGTERM);
  course.end_all({.exit_code = kResumable});
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 75);
}

TEST(Job, OneRankThatCannotGoOnIsEnough) {
  for (const Ending& other : {kGood, kTermed, kThree}) {
    Course course({.ranks = 2});
    course.job.stop(SIGTERM);
    course.expect(Kind::Signal, SIGTERM);
    course.job.ended(0, {.exit_code = kResumable});
    course.job.ended(1, other);
    course.expect(Kind::Finish);
    EXPECT_EQ(course.job.exit_code(), 143) << to_string(other);
  }
}

TEST(Job, ARankThatHadEndedBeforeNeedNotAnswer) {
  Course course({.ranks = 2});
  course.job.ended(0, kGood);
  course.job.stop(SIGTERM);
  course.expect(Kind::Signal, SIGTERM);
  course.job.ended(1, {.exit_code = kResumable});
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 75);
}

TEST(Job, SeventyFiveUnaskedIsAFailureAsAnyOther) {
  Course course({.ranks = 2});
  course.job.ended(0, {.exit_code = kResumable});
  course.expect(Kind::Signal, SIGTERM);
  course.end_all(kTermed);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 75);
  EXPECT_NE(course.job.failure(), nullptr);
}

TEST(Job, SeventyFiveAfterASignalThatWasPassedOnIsNoFailure) {
  Course course({.ranks = 2, .max_restarts = 3, .grace = 5s, .listen = 1s});
  course.job.passed_on();
  course.expect(Kind::Wait);
  EXPECT_FALSE(course.job.wake()) << "it may mean anything";
  course.job.ended(0, {.exit_code = kResumable});
  course.expect(Kind::Wait);
  EXPECT_EQ(course.job.wake(), course.now + 5s) << "the other one saves, too";
  course.job.ended(1, {.exit_code = kResumable});
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 75);
  EXPECT_EQ(course.job.failure(), nullptr);
  EXPECT_EQ(course.job.attempt(), 0);
}

TEST(Job, WhoDoesNotStopWithTheOthersIsStopped) {
  Course course({.ranks = 2, .max_restarts = 3, .grace = 5s});
  course.job.passed_on();
  course.job.ended(0, {.exit_code = kResumable});
  course.expect(Kind::Wait);
  course.now += 5s;
  course.expect(Kind::Signal, SIGTERM);
  course.job.ended(1, kTermed);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 75);
}

TEST(Job, AFailureBesideAStopIsNotStartedAgain) {
  for (const bool first : {false, true}) {
    Course course({.ranks = 2, .max_restarts = 3, .listen = 1s});
    course.job.passed_on();
    if (!first)
      course.job.ended(0, {.exit_code = kResumable});
    course.job.ended(1, kThree);
    course.expect(first ? Kind::Wait : Kind::Finish);
    if (first)
      course.job.ended(0, {.exit_code = kResumable});
    course.expect(Kind::Finish);
    EXPECT_EQ(course.job.exit_code(), 3);
    EXPECT_EQ(course.job.attempt(), 0);
  }
}

TEST(Job, AnAnswerToOurOwnSignalIsNoWishToStop) {
  Course course({.ranks = 2, .max_restarts = 1});
  course.job.passed_on();  // an hour ago, say, to have something printed
  course.job.ended(1, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.job.ended(0, {.exit_code = kResumable});
  course.expect(Kind::Start);
  course.expect(Kind::Wait);
  course.end_all({.exit_code = kResumable});
  course.expect(Kind::Finish);
  EXPECT_NE(course.job.failure(), nullptr) << "that signal was for the ranks before";
}

TEST(Job, StartsAgainAsOftenAsItMay) {
  Course course({.ranks = 2, .max_restarts = 2});
  for (const int attempt : {0, 1, 2}) {
    EXPECT_EQ(course.job.attempt(), attempt);
    EXPECT_EQ(course.job.left(), 2);
    course.job.ended(1, kThree);
    EXPECT_EQ(course.job.will_restart(), attempt < 2);
    course.expect(Kind::Signal, SIGTERM);
    course.job.ended(0, kTermed);
    course.expect(attempt < 2 ? Kind::Start : Kind::Finish);
    EXPECT_FALSE(course.job.wake()) << "the old time must not end the new attempt";
  }
  EXPECT_EQ(course.job.attempt(), 2);
  EXPECT_EQ(course.job.exit_code(), 3);
}

TEST(Job, ForgetsTheFailuresOfEarlierAttempts) {
  Course course({.ranks = 1, .max_restarts = 2});
  for (int i = 0; i < 2; ++i) {
    course.job.ended(0, kThree);
    course.expect(Kind::Start);
    EXPECT_EQ(course.job.failure(), nullptr);
    EXPECT_TRUE(course.job.failed().empty());
    course.expect(Kind::Wait);
  }
  course.job.ended(0, kGood);
  course.expect(Kind::Finish);
  EXPECT_EQ(course.job.exit_code(), 0);
  EXPECT_EQ(course.job.attempt(), 2);
}

TEST(Job, AbandonedKillsWithoutGraceOrRestart) {
  Course course({.ranks = 2, .max_restarts = 9, .grace = 1h});
  course.job.abandon();
  course.expect(Kind::Signal, SIGTERM);
  course.expect(Kind::Signal, SIGKILL);
  course.end_all(kKilled);
  course.expect(Kind::Finish);
  EXPECT_NE(course.job.exit_code(), 0);
}

TEST(Job, AbandonedWhileStoppingKillsAtOnce) {
  Course course({.ranks = 2, .max_restarts = 9, .grace = 1h});
  course.job.ended(0, kThree);
  course.expect(Kind::Signal, SIGTERM);
  course.expect(Kind::Wait);
  course.job.abandon();
  course.expect(Kind::Signal, SIGKILL);
  course.end_all(kKilled);
  course.expect(Kind::Finish);
}

TEST(Job, AWishToStopBeforeTheStartStartsNothing) {
  Job job({.ranks = 2});
  job.stop(SIGTERM);
  EXPECT_EQ(job.next({}).kind, Kind::Finish);
  EXPECT_EQ(job.exit_code(), 143);
}

// -- led by somebody else, as in a job of several nodes

class LedJob : public ::testing::Test {
 protected:
  void expect(Kind kind, int signal = 0) {
    const Step step = job.next(now);
    EXPECT_EQ(step.kind, kind) << "the kind";
    EXPECT_EQ(step.signal, signal) << "the signal";
  }
  // Until all its ranks run.
  void begin(int attempt = 0, int max_restarts = 3) {
    expect(Kind::Ask);
    expect(Kind::Wait);
    job.go(attempt, max_restarts);
    expect(Kind::Start);
    expect(Kind::Wait);
  }

  Job job{{.ranks = 2, .grace = 5s, .listen = 1s, .led = true}};
  Job::Time now{1000h};
};

TEST_F(LedJob, AsksBeforeEachStartAndForItsEnd) {
  begin();
  job.ended(0, kGood);
  job.ended(1, kThree);
  EXPECT_TRUE(job.will_restart());
  begin(1);
  EXPECT_EQ(job.attempt(), 1);
  EXPECT_EQ(job.failure(), nullptr);
  job.ended(0, kGood);
  job.ended(1, kGood);
  expect(Kind::Ask);
  expect(Kind::Wait);
  job.over(7);
  expect(Kind::Finish);
  EXPECT_EQ(job.exit_code(), 7);
}

TEST_F(LedJob, StartsAgainThoughNothingHasFailedHere) {
  begin();
  job.ended(0, kGood);
  job.ended(1, kGood);
  begin(4);
  EXPECT_EQ(job.attempt(), 4);
}

TEST_F(LedJob, AFailureElsewhereStopsTheRanksAfterTheirMoment) {
  begin();
  job.failed_elsewhere(9);
  EXPECT_TRUE(job.will_restart());
  expect(Kind::Wait);
  job.ended(0, kThree);
  EXPECT_EQ(job.failure(), nullptr) << "a consequence";
  EXPECT_EQ(job.followed(), std::vector<int>{0});
  now += 1s;
  expect(Kind::Signal, SIGTERM);
  now += 5s;
  expect(Kind::Signal, SIGKILL);
  job.ended(1, kKilled);
  expect(Kind::Ask);
  EXPECT_EQ(job.exit_code(), 9);
}

TEST_F(LedJob, ALocalFailureIsNotOverruled) {
  begin();
  job.ended(0, kThree);
  job.failed_elsewhere(9);
  EXPECT_EQ(job.exit_code(), 3);
}

TEST_F(LedJob, AWishToStopNeedsNoAnswer) {
  expect(Kind::Ask);
  expect(Kind::Wait);
  job.stop(SIGINT);
  expect(Kind::Finish);
  EXPECT_EQ(job.exit_code(), 130);
}

TEST_F(LedJob, ObeysWhatWasObeyedElsewhere) {
  begin();
  job.passed_on();
  job.obeyed_elsewhere();
  expect(Kind::Wait);
  EXPECT_EQ(job.wake(), now + 5s) << "the time of grace";
  job.ended(0, {.exit_code = kResumable});
  job.ended(1, {.exit_code = kResumable});
  EXPECT_EQ(job.failure(), nullptr);
  expect(Kind::Ask);
}

TEST_F(LedJob, WithoutItsLeaderEndsWhatRuns) {
  begin();
  job.leaderless(1);
  EXPECT_FALSE(job.will_restart());
  expect(Kind::Wait);
  now += 1s;
  expect(Kind::Signal, SIGTERM);
  job.ended(0, kTermed);
  job.ended(1, kTermed);
  expect(Kind::Finish);
  EXPECT_EQ(job.exit_code(), 1);
}

TEST_F(LedJob, WithoutItsLeaderWaitsNoLonger) {
  expect(Kind::Ask);
  expect(Kind::Wait);
  job.leaderless(1);
  expect(Kind::Finish);
  EXPECT_EQ(job.exit_code(), 1);
}

}  // namespace
}  // namespace trireme::launch
