#include "trireme/bench/ddp_worker.h"

#include <sstream>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/world.h"

namespace trireme::bench {
namespace {

TEST(BenchDdpWorker, JobsAreLines) {
  const DdpJob job{.layers = 3, .width = 8, .batch = 5, .warm_up = 2, .repetitions = 7};
  const DdpJob same = parse_ddp_job(to_line(job));
  EXPECT_EQ(to_line(same), to_line(job));
  EXPECT_EQ(same.width, 8);
  EXPECT_THROW(parse_ddp_job("{}"), InvalidArgument);
  EXPECT_THROW(parse_ddp_job("rubbish"), InvalidArgument);
}

TEST(BenchDdpWorkerRanks, TimesStepsWithAndWithout) {
  for (const int ranks : {1, 2})
    testing::run_world(testing::Backend::Local, ranks, [](const comm::Group& world) {
      DdpWorker worker(world);
      for (const int layers : {2, 5, 2}) {
        const auto times =
            worker.work({.layers = layers, .width = 4, .batch = 2, .repetitions = 3});
        ASSERT_EQ(times.size(), 6U);
        for (const double time : times)
          EXPECT_GT(time, 0);
      }
    });
}

}  // namespace
}  // namespace trireme::bench
