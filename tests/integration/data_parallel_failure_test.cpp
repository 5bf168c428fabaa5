// A rank that throws, is killed, stalls or leaves: everybody hears of it.
#include <signal.h>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;

at::Tensor input() {
  return whole_numbers({2, 4}, 1);
}

/// A hook, and a bucket for each parameter.
DataParallelOptions with_hook(const std::shared_ptr<CommHook>& hook) {
  DataParallelOptions options;
  options.bucket_bytes = 1;
  options.hooks.push_back(hook);
  return options;
}

TEST(DataParallelFailureRanks, AHookThatThrows) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      int calls = 0;
      const auto trouble =
          make_hook("trouble", [&](GradBucket& bucket, const auto& next) {
            if (++calls == 3 && group.rank() == 1)
              throw std::runtime_error("trouble in a hook");
            next(bucket);
          });
      DataParallel model(std::make_shared<Blocks>(3), group, with_hook(trouble));
      const at::Tensor loss = model(input()).sum();
      if (group.rank() == 1) {
        EXPECT_TRUE(contains(
            message_of<std::runtime_error>([&] { loss.backward(); }),
            "trouble in a hook"));
      } else {
        const std::string message = message_of<PeerError>([&] { loss.backward(); });
        EXPECT_TRUE(contains(message, "trouble in a hook (while bucket 2 of 6"));
        EXPECT_TRUE(contains(message, "its parameters: b1"));
      }
    });
}

/// A node of the model throws on rank 1, with some buckets under way.
TEST(DataParallelFailureRanks, ABackwardThatThrows) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(4);
      DataParallel model(net, group, {.bucket_bytes = 1});
      const auto begin = std::chrono::steady_clock::now();
      const at::Tensor y = net->forward(input(), {0, 1});
      if (group.rank() == 1)
        y.register_hook([](const at::Tensor& gradient) -> at::Tensor {
          TORCH_CHECK(gradient.numel() == 0, "trouble on the way back");
          return gradient;
        });
      const at::Tensor loss = model.replica().watch(net->forward(y, {2, 3})).sum();
      if (group.rank() == 1) {
        EXPECT_TRUE(contains(
            message_of<c10::Error>([&] { loss.backward(); }),
            "trouble on the way back"));
      } else {
        try {
          loss.backward();
          ADD_FAILURE() << "no error came";
        } catch (const PeerError& error) {
          EXPECT_EQ(error.rank(), 1);
        }
      }
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    });
}

TEST(DataParallelFailureRanks, BackwardTwiceOverAGraphThatIsGone) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(std::make_shared<Blocks>(2), group, {.bucket_bytes = 1});
    const at::Tensor loss = model(input()).square().sum();
    loss.backward();
    if (group.rank() == 1) {
      EXPECT_TRUE(
          contains(message_of<c10::Error>([&] { loss.backward(); }), "second time"));
    } else {
      EXPECT_THROW(model(input()).square().sum().backward(), Error);
    }
  });
}

// A pass that failed leaves its round open: no later one slips through unreduced.
TEST(DataParallelFailureRanks, NoBackwardPassesAfterAFailure) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    DataParallel model(net, group, {.bucket_bytes = 1});
    const at::Tensor y = net->block(0, input());
    y.register_hook([](const at::Tensor& gradient) -> at::Tensor {
      TORCH_CHECK(gradient.numel() == 0, "trouble");
      return gradient;
    });
    const at::Tensor bad = net->block(1, y).sum();
    const at::Tensor good = net->forward(input()).sum();
    EXPECT_THROW(bad.backward(), c10::Error);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { good.backward(); }), "failed backward"));
  });
}

TEST(DataParallelFailureRanks, AStalledRankAndItsBucketAreNamed) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(
        backend,
        2,
        [](const comm::Group& group) {
          const auto net = std::make_shared<Blocks>(3);
          DataParallel model(net, group, {.bucket_bytes = 1});
          model(input()).sum().backward();
          const at::Tensor y = net->forward(input(), {0, 1});
          if (group.rank() == 1)
            y.register_hook([](const at::Tensor& gradient) {
              std::this_thread::sleep_for(std::chrono::milliseconds(3500));
              return gradient;
            });
          const at::Tensor loss = net->block(2, y).sum();
          if (group.rank() == 1) {
            EXPECT_THROW(loss.backward(), Error);
            return;
          }
          const std::string message =
              message_of<TimeoutError>([&] { loss.backward(); });
          EXPECT_TRUE(contains(message, "while bucket 2 of 6 was reduced"));
          EXPECT_TRUE(contains(message, "its parameters: b1"));
          EXPECT_TRUE(contains(
              message,
              "; rank 1 says: its backward has not brought the gradients of b1 for "
              "bucket 2 (while bucket 2 of 6 was reduced"))
              << message;
        },
        {.timeout = std::chrono::milliseconds(2500)});
}

TEST(DataParallelFailureRanks, ARankThatLeavesEarly) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      DataParallel model(std::make_shared<Blocks>(2), group, {.bucket_bytes = 1});
      model(input()).sum().backward();
      if (group.rank() == 1)
        return;
      const at::Tensor loss = model(input()).sum();
      EXPECT_TRUE(
          contains(message_of<PeerError>([&] { loss.backward(); }), "while bucket 0"));
    });
}

TEST(DataParallelFailureRanks, ModelsThatDiffer) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 3, [](const comm::Group& group) {
      const bool odd = group.rank() == 1;
      const std::string count = message_of<InvalidArgument>(
          [&] { DataParallel(std::make_shared<Blocks>(odd ? 3 : 2), group); });
      EXPECT_TRUE(contains(count, "ranks 0 and 2: 4 parameters"));
      EXPECT_TRUE(contains(count, "rank 1: 6 parameters"));
      const std::string size = message_of<InvalidArgument>(
          [&] { DataParallel(std::make_shared<Blocks>(2, odd ? 5 : 4), group); });
      EXPECT_TRUE(contains(size, "w0 float64 of sizes [5, 5]"));
      const std::string option = message_of<InvalidArgument>([&] {
        DataParallel(std::make_shared<Blocks>(2), group, {.find_unused = odd});
      });
      EXPECT_TRUE(contains(option, "find_unused 1"));
    });
}

TEST(DataParallelFailureRanks, AModuleWithoutParameters) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    class Empty : public torch::nn::Module {
     public:
      at::Tensor forward(const at::Tensor& x) { return x; }
    };
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { DataParallel(std::make_shared<Empty>(), group); }),
        "at least one parameter that needs a gradient"));
    const auto twice = std::make_shared<Blocks>(1);
    const DataParallel model(twice, group);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { DataParallel(twice, group); }),
        "wrapped once, got w0"));
  });
}

// In a hook of the third bucket: the others are in the middle of it.
TEST(DataParallelFailureProcs, AKilledRankIsNoticedWithinTwoSeconds) {
  constexpr int kRanks = 3;
  for (int victim = 0; victim < kRanks; ++victim) {
    const testing::SharedNumber death;
    testing::Processes processes;
    processes.start_ranks(
        testing::fresh_job_name(), kRanks, [&](const comm::Group& world) {
          const auto killer =
              make_hook("killer", [&](GradBucket& bucket, const auto& next) {
                if (world.rank() == victim && bucket.round() == 2 &&
                    bucket.index() == 2) {
                  *death = now_ns();
                  ::kill(::getpid(), SIGKILL);
                }
                next(bucket);
              });
          DataParallel model(std::make_shared<Blocks>(3), world, with_hook(killer));
          try {
            for (;;)
              model(input()).sum().backward();
          } catch (const PeerError& error) {
            EXPECT_EQ(error.rank(), victim) << error.what();
            EXPECT_TRUE(contains(error.what(), "while bucket 2 of 6"));
            EXPECT_LT(now_ns() - *death, 2'000'000'000);
            return ::testing::Test::HasFailure() ? 1 : testing::kNoticed;
          }
        });
    testing::expect_noticed(processes.wait(std::chrono::seconds(20)), victim);
  }
}

}  // namespace
}  // namespace trireme::dp
