// Buckets leave while backward still runs: from the first round on.
#include <algorithm>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

/// Every block takes its time on the way back.
class Slow : public Blocks {
 public:
  explicit Slow(int count, bool reversed = false)
      : Blocks(count), reversed_(reversed) {}
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor y = x;
    for (int i = 0; i < count(); ++i) {
      y = block(reversed_ ? count() - 1 - i : i, y);
      y.register_hook([](const at::Tensor& gradient) {
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
        return gradient;
      });
    }
    return y;
  }

 private:
  bool reversed_;
};

at::Tensor input() {
  return whole_numbers({2, 4}, 1);
}

void expect_overlap(const RoundStats& stats) {
  int64_t last_ready = 0;
  for (const BucketTime& bucket : stats.buckets) {
    EXPECT_LE(stats.start_ns, bucket.ready_ns);
    EXPECT_LE(bucket.ready_ns, bucket.start_ns);
    EXPECT_LT(bucket.start_ns, bucket.end_ns);
    EXPECT_LE(bucket.end_ns, stats.end_ns);
    EXPECT_GT(bucket.bytes, 0);
    last_ready = std::max(last_ready, bucket.ready_ns);
  }
  EXPECT_LT(stats.buckets.front().start_ns, last_ready);
  EXPECT_LE(stats.backward_end_ns, stats.end_ns);
  EXPECT_GT(stats.overlap_share(), 0);
  EXPECT_LE(stats.overlap_share(), 1);
}

TEST(DataParallelOverlapRanks, FromTheFirstRoundOn) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      for (const bool find_unused : {false, true}) {
        DataParallel model(
            std::make_shared<Slow>(6),
            group,
            {.bucket_bytes = 1, .find_unused = find_unused});
        for (int step = 0; step < 3; ++step) {
          model(input()).sum().backward();
          SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
          EXPECT_EQ(model.replica().stats().round, step);
          expect_overlap(model.replica().stats());
        }
      }
    });
}

TEST(DataParallelOverlapRanks, AStaticGraphFromTheSecondRoundOn) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(
        std::make_shared<Slow>(6), group, {.bucket_bytes = 1, .static_graph = true});
    for (int step = 0; step < 3; ++step) {
      model(input()).sum().backward();
      if (step > 0)
        expect_overlap(model.replica().stats());
    }
  });
}

// A model that runs against the order of its registration: buckets follow it.
TEST(DataParallelOverlapRanks, BucketsAreRebuiltInTheOrderOfGradients) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(
        std::make_shared<Slow>(6, true),
        group,
        {.bucket_bytes = 150, .first_bucket_bytes = 150});
    const Reducer& reducer = model.replica().reducer();
    for (int step = 0; step < 5; ++step)
      model(input()).sum().backward();
    EXPECT_EQ(reducer.rebuilds(), 1);
    // Block 0 comes last in forward and first in backward.
    const auto& first = reducer.gradients().layout().buckets.front().parameters;
    for (const int i : first)
      EXPECT_TRUE(reducer.parameters()[static_cast<size_t>(i)].name.ends_with("0"))
          << reducer.parameters()[static_cast<size_t>(i)].name;
    expect_overlap(model.replica().stats());
  });
}

TEST(DataParallelOverlapRanks, NoRebuildWhereItIsNotWanted) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(
        std::make_shared<Slow>(4, true), group, {.bucket_bytes = 1, .rebuild = false});
    for (int step = 0; step < 3; ++step)
      model(input()).sum().backward();
    EXPECT_EQ(model.replica().reducer().rebuilds(), 0);
  });
}

// While a rebuild moves them, gradients keep their values, and stay views.
TEST(DataParallelOverlapRanks, ARebuildKeepsGradients) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Slow>(4, true);
    const auto whole = std::make_shared<Slow>(4, true);
    DataParallel model(net, group, {.bucket_bytes = 1});
    for (int step = 0; step < 4; ++step) {
      model(input()).sum().backward();  // never dropped: they add up
      whole->forward(input()).sum().backward();
      expect_same_gradients(*net, *whole);
    }
    EXPECT_GE(model.replica().reducer().rebuilds(), 1);
  });
}

}  // namespace
}  // namespace trireme::dp
