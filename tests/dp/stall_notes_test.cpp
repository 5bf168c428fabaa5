#include "trireme/dp/stall_notes.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

constexpr std::chrono::milliseconds kTimeout(2000);

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const char* name : {"a", "b", "c"})
    all.push_back({name, at::zeros({2}).set_requires_grad(true)});
  return all;
}

void wait(double part_of_timeout) {
  std::this_thread::sleep_for(kTimeout * part_of_timeout);
}

TEST(StallNotesRanks, SayWhatIsMissing) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(
        backend,
        2,
        [](const comm::Group& world) {
          const comm::Group group = world.split(0, world.rank());
          const auto all = parameters();
          StallNotes notes(group, all);
          EXPECT_LT(notes.every(), kTimeout / 4);
          notes.begin(3);
          notes.arrived(0);
          if (world.rank() == 1) {
            wait(0.55);
            notes.tell_if_stalled();
          }
          comm::barrier(world);
          const std::vector<int> some{0, 1, 2}, first{0};
          EXPECT_EQ(
              notes.heard(some),
              world.rank() == 0 ? "; rank 1 still waits for the gradients of b, c"
                                : "");
          comm::barrier(world);
        },
        {.timeout = kTimeout});
}

TEST(StallNotesRanks, AreSilentUnlessSomethingIsWrong) {
  run_world(
      Backend::Local,
      2,
      [](const comm::Group& world) {
        const comm::Group group = world.split(0, world.rank());
        const auto all = parameters();
        const std::vector<int> some{0, 1, 2};
        StallNotes notes(group, all);
        notes.tell_if_stalled();  // no round
        notes.begin(0);
        notes.tell_if_stalled();  // just begun
        wait(0.4);
        notes.moved();
        wait(0.2);
        notes.tell_if_stalled();  // it gets on
        for (size_t i = 0; i < all.size(); ++i)
          notes.arrived(i);
        wait(0.4);
        notes.tell_if_stalled();  // all is here
        comm::barrier(world);
        EXPECT_EQ(notes.heard(some), "");
        comm::barrier(world);
      },
      {.timeout = kTimeout});
}

TEST(StallNotesRanks, OfAnotherRoundDoNotCount) {
  run_world(
      Backend::Local,
      2,
      [](const comm::Group& world) {
        const comm::Group group = world.split(0, world.rank());
        const auto all = parameters();
        StallNotes notes(group, all);
        notes.begin(world.rank());
        wait(0.55);
        notes.tell_if_stalled();
        comm::barrier(world);
        EXPECT_EQ(notes.heard(std::vector<int>{0, 1, 2}), "");
        comm::barrier(world);
      },
      {.timeout = kTimeout});
}

}  // namespace
}  // namespace trireme::dp
