#include "trireme/dp/stall_notes.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;

constexpr std::chrono::milliseconds kTimeout(1200);

void wait(double part_of_timeout) {
  std::this_thread::sleep_for(kTimeout * part_of_timeout);
}

/// What rank 0 hears when rank 1 does `body` and then does not come.
void expect_heard(
    Backend backend,
    const std::string& wanted,
    const std::function<void(StallNotes&)>& body) {
  run_world(
      backend,
      2,
      [&](const comm::Group& world) {
        const std::vector<Parameter> all{
            {"a", at::zeros({2})}, {"b", at::zeros({2})}, {"c", at::zeros({2})}};
        StallNotes notes(world, all);
        EXPECT_LE(notes.every(), kTimeout / 4);
        notes.use({.places = {{.bucket = 1}, {.bucket = 0}, {.bucket = 1}}});
        if (world.rank() == 0) {
          const std::string message =
              message_of<TimeoutError>([&] { comm::barrier(world); });
          EXPECT_EQ(contains(message, "rank 1 says"), !wanted.empty()) << message;
          EXPECT_TRUE(contains(message, wanted)) << message;
        } else {
          body(notes);
          EXPECT_THROW(comm::barrier(world), TimeoutError);
        }
      },
      {.timeout = kTimeout});
}

TEST(StallNotesRanks, SayWhatTheNextBucketWaitsFor) {
  for (const Backend backend : {Backend::Local, Backend::Shm}) {
    expect_heard(
        backend,
        "rank 1 says: its backward has not brought the gradients of b for bucket 0",
        [](StallNotes& notes) {
          notes.begin();
          notes.arrived(0);
          wait(0.6);
          notes.tell_if_stalled();
          wait(0.8);
        });
    expect_heard(
        backend,
        "has not brought the gradients of a, c for bucket 1",
        [](StallNotes& notes) {
          for (int round = 0; round < 2; ++round) {
            notes.begin();
            notes.arrived(1);
            if (round == 0)
              notes.arrived(0);  // which does not count in the next one
          }
          wait(0.6);
          notes.tell_if_stalled();
          wait(0.8);
        });
  }
}

TEST(StallNotesRanks, AreSilentUnlessSomethingIsWrong) {
  expect_heard(Backend::Local, "", [](StallNotes& notes) {
    notes.tell_if_stalled();  // no round
    notes.begin();
    notes.tell_if_stalled();  // just begun
    wait(0.4);
    notes.moved();
    wait(0.3);
    notes.tell_if_stalled();  // it gets on
    wait(0.7);
  });
  expect_heard(Backend::Local, "", [](StallNotes& notes) {
    notes.begin();
    for (size_t i = 0; i < 3; ++i)
      notes.arrived(i);
    wait(0.6);
    notes.tell_if_stalled();  // all is here
    wait(0.8);
  });
}

TEST(StallNotesRanks, ComeAgainWhenAnotherHasTakenThemBack) {
  expect_heard(
      Backend::Local, "the gradients of b for bucket 0", [](StallNotes& notes) {
        notes.begin();
        wait(0.6);
        notes.tell_if_stalled();
        notes.group().set_note("");  // as another reducer of this rank does
        notes.tell_if_stalled();
        wait(0.8);
      });
}

TEST(StallNotesRanks, AnyTimeoutWillDo) {
  run_world(
      Backend::Local,
      1,
      [](const comm::Group& world) {
        const std::vector<Parameter> one{{"a", at::zeros({2})}};
        StallNotes notes(world, one);
        EXPECT_GT(notes.every(), std::chrono::hours(1));
        EXPECT_LT(notes.every(), std::chrono::hours(24));
        notes.begin();
        notes.tell_if_stalled();
      },
      {.timeout = std::chrono::milliseconds::max()});
}

TEST(StallNotesRanks, AreTakenBackWhenItGetsOn) {
  expect_heard(Backend::Local, "", [](StallNotes& notes) {
    notes.begin();
    wait(0.6);
    notes.tell_if_stalled();
    notes.moved();
    wait(0.8);
  });
}

}  // namespace
}  // namespace trireme::dp
