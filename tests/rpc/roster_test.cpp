#include "trireme/rpc/roster.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"
#include "trireme/net/memory_store.h"

namespace trireme::rpc {
namespace {

using namespace std::chrono_literals;

Member member_of(int rank, const std::string& name) {
  return {
      .info = {.id = rank, .name = name, .role = "trainer", .message_bytes = 1 << 20},
      .addresses = {net::Address::unix_at("@somewhere"), net::Address::tcp("::1", 7)},
      .place = ProcessPlace::of_this_process()};
}

// What each of the workers gets: its members, or the text of its error.
struct MeetOutcome {
  std::vector<Member> members;
  std::string error;
  bool timed_out = false;
};

std::vector<MeetOutcome> meet_all(
    net::Store& store,
    const std::vector<Member>& all,
    const std::vector<int>& sizes,
    std::chrono::milliseconds time = 20s) {
  std::vector<MeetOutcome> outcomes(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        outcomes[i].members = meet(store, all[i], sizes[i], Deadline::after(time));
      } catch (const TimeoutError& error) {
        outcomes[i].timed_out = true;
        outcomes[i].error = error.what();
      } catch (const InvalidArgument& error) {
        outcomes[i].error = error.what();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  return outcomes;
}

std::vector<MeetOutcome> meet_all(net::Store& store, const std::vector<Member>& all) {
  return meet_all(
      store, all, std::vector<int>(all.size(), static_cast<int>(all.size())));
}

std::vector<Member> some_members(int count) {
  std::vector<Member> all;
  for (int rank = 0; rank < count; ++rank)
    all.push_back(member_of(rank, text("worker:", rank)));
  return all;
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no refusal";
}

void expect_says(const std::string& what, const std::string& part) {
  EXPECT_NE(what.find(part), std::string::npos) << what;
}

}  // namespace

TEST(Roster, AllGetAllInOrder) {
  net::MemoryStore store;
  const std::vector<Member> all = some_members(8);
  for (const MeetOutcome& outcome : meet_all(store, all)) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.members, all);
  }
  for (const Member& member : all)
    forget(store, member.info.id);
  EXPECT_TRUE(store.keys("").empty());
}

TEST(Roster, OneAloneNeedsNobody) {
  net::MemoryStore store;
  EXPECT_EQ(
      meet(store, member_of(0, "alone"), 1, Deadline::after(5s)),
      std::vector{member_of(0, "alone")});
}

TEST(Roster, ANameTakenTwiceIsTheSameErrorForAll) {
  net::MemoryStore store;
  std::vector<Member> all = some_members(4);
  all[1].info.name = all[3].info.name = "trainer0";
  for (const MeetOutcome& outcome : meet_all(store, all))
    EXPECT_EQ(
        outcome.error,
        "[rpc] expected each worker's name once, got \"trainer0\" from ranks 1 and 3; "
        "give each worker a name of its own");
}

TEST(Roster, DifferentWorldSizesAreRefusedSoon) {
  net::MemoryStore store;
  const auto begin = std::chrono::steady_clock::now();
  const auto outcomes = meet_all(store, some_members(2), {2, 3}, 60s);
  expect_says(outcomes[0].error, "a world of 2 workers, got one of 3");
  expect_says(outcomes[1].error, "a world of 3 workers, got one of 2");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(Roster, WhoDoesNotComeIsNamed) {
  net::MemoryStore store;
  const std::vector<Member> all = some_members(2);
  for (const MeetOutcome& outcome : meet_all(store, all, {4, 4}, 600ms)) {
    EXPECT_TRUE(outcome.timed_out);
    expect_says(outcome.error, "got none from ranks 2, 3;");
  }
}

TEST(Roster, WhatAnEarlierStartHasLeftIsNotTaken) {
  net::MemoryStore store;
  std::vector<Member> old = some_members(3);
  for (Member& member : old)
    member.place.start_time += 1;
  for (const MeetOutcome& outcome : meet_all(store, old))
    EXPECT_EQ(outcome.members, old);
  // All of it is there still, and two of three come first.
  const std::vector<Member> all = some_members(3);
  std::vector<MeetOutcome> early;
  std::thread first([&] { early = meet_all(store, {all[0], all[1]}, {3, 3}); });
  std::this_thread::sleep_for(600ms);
  EXPECT_EQ(meet(store, all[2], 3, Deadline::after(20s)), all);
  first.join();
  for (const MeetOutcome& outcome : early) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.members, all);
  }
}

TEST(Roster, AnEarlierStartAloneIsNotEnough) {
  net::MemoryStore store;
  meet_all(store, some_members(2));
  const auto outcomes = meet_all(store, {member_of(0, "worker:0")}, {2}, 700ms);
  EXPECT_TRUE(outcomes[0].timed_out);
  expect_says(outcomes[0].error, "the agreement of all 2 workers");
  expect_says(outcomes[0].error, "got none from rank 1;");
}

TEST(Roster, TwoOfOneRankAreRefused) {
  net::MemoryStore store;
  const auto outcomes =
      meet_all(store, {member_of(0, "one"), member_of(0, "other")}, {2, 2}, 3s);
  EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(), [](const MeetOutcome& one) {
    return one.error.find("only worker of rank 0") != std::string::npos;
  }));
}

TEST(Roster, StrangeEntriesAreRefusedAfterAWhile) {
  net::MemoryStore store;
  store.set("member/1", "no entry of a worker");
  const auto outcomes = meet_all(store, {member_of(0, "one")}, {2}, 30s);
  expect_says(outcomes[0].error, "an entry in the store, got something else");
}

TEST(Roster, NamesAreChecked) {
  for (const char* good : {"a", "trainer-0", "ps:1_B"})
    check_worker_name(good);
  check_worker_name(std::string(127, 'x'));
  for (const std::string& bad :
       {std::string(),
        std::string("a b"),
        std::string("\xc3\xa4"),
        std::string("a/b"),
        std::string(128, 'x'),
        std::string("a\0b", 3)})
    expect_says(
        refusal_of([&] { check_worker_name(bad); }), "a worker's name of 1 to 127");
  expect_says(refusal_of([] { check_worker_name("a\nb"); }), "got \"a\\nb\"");
}

TEST(Roster, WrongArgumentsAreRefused) {
  net::MemoryStore store;
  const auto refusal = [&](const Member& me, int size) {
    return refusal_of([&] { meet(store, me, size, Deadline::after(1s)); });
  };
  expect_says(refusal(member_of(0, "a"), 0), "a world of 1 to 65536 workers, got 0");
  expect_says(refusal(member_of(2, "a"), 2), "rank from 0 to 1, got 2");
  expect_says(refusal(member_of(-1, "a"), 2), "rank from 0 to 1, got -1");
  expect_says(refusal(member_of(0, "a b"), 2), "a worker's name");
  Member member = member_of(0, "a");
  for (const char* role : {"data loader", "eval-1.5", "Prüfer"}) {
    member.info.role = role;
    EXPECT_EQ(decode_member(encode_member(member)).info.role, role);
  }
  member.info.role = "two\nlines";
  expect_says(refusal(member, 2), "a worker's role");
  member.info.role = "";
  expect_says(refusal(member, 2), "a worker's role");
  member = member_of(0, "a");
  member.addresses.clear();
  expect_says(refusal(member, 2), "1 to 16 addresses of a worker, got 0");
  EXPECT_TRUE(store.keys("").empty());
}

TEST(Roster, MembersGoThroughBytesAndDamageIsRefused) {
  const Member member = member_of(5, "worker");
  const std::string bytes = encode_member(member);
  EXPECT_EQ(decode_member(bytes), member);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_member(bytes.substr(0, size)), InvalidArgument) << size;
  EXPECT_THROW(decode_member(bytes + "x"), InvalidArgument);
}

}  // namespace trireme::rpc
