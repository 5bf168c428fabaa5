#include "trireme/dp/comm_hook.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "hook_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::contains;
using testing::message_of;
using Next = CommHook::Next;

TEST(CommHook, NeedsAFunction) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { make_hook("mine", nullptr); }), "hook mine"));
}

TEST(CommHookRanks, OneBucketIsTheLast) {
  run_both(2, [](const comm::Group& group) {
    std::vector<bool> last;
    int64_t round = 0;
    auto hook = make_hook("look", [&](GradBucket& bucket, const Next& next) {
      EXPECT_EQ(bucket.round(), round);
      EXPECT_EQ(bucket.index(), last.size());
      last.push_back(bucket.is_last());
      next(bucket);
    });
    HookCase test(group, tiny_buckets({hook}));
    for (; round < 4; ++round) {
      last.clear();
      test.train(1, 0.1);
      EXPECT_GT(last.size(), 3U);
      EXPECT_EQ(std::count(last.begin(), last.end(), true), 1);
      EXPECT_TRUE(last.back());
    }
    EXPECT_GT(test.replica().reducer().rebuilds(), 0);
  });
}

TEST(CommHookRanks, ChainGoesInAndOut) {
  run_both(2, [](const comm::Group& group) {
    std::vector<std::string> log;
    const auto logger = [&](const std::string& name) {
      return make_hook(name, [&log, name](GradBucket& bucket, const Next& next) {
        log.push_back(text(name, " ", bucket.buffer().scalar_type()));
        next(bucket);
        log.push_back(text(name, " back ", bucket.buffer().scalar_type()));
      });
    };
    HookCase test(
        group, one_bucket({logger("first"), make_fp16_hook(), logger("second")}));
    test.backward();
    EXPECT_EQ(
        log,
        (std::vector<std::string>{
            "first Float", "second Half", "second back Half", "first back Float"}));
  });
}

TEST(CommHookRanks, ParametersKeepTheirNumbers) {
  run_both(2, [](const comm::Group& group) {
    HookCase* self = nullptr;
    auto hook = make_hook("check", [&](GradBucket& bucket, const Next& next) {
      bucket.buffer() = bucket.buffer().to(at::kDouble);
      for (const GradBucket::Entry& entry : bucket.entries()) {
        EXPECT_TRUE(self->parameters()[entry.parameter].is_same(entry.info->tensor));
        EXPECT_EQ(bucket.view(entry).sizes(), entry.info->tensor.sizes());
        EXPECT_TRUE(bucket.view(entry).equal(entry.gradient.to(at::kDouble)));
        bucket.view(entry).fill_(static_cast<double>(entry.parameter));
      }
      next(bucket);
    });
    for (const auto& options : {tiny_buckets, one_bucket}) {
      HookCase test(group, options({hook}));
      self = &test;
      for (int round = 0; round < 3; ++round) {
        test.backward();
        for (size_t i = 0; i < test.parameters().size(); ++i)
          EXPECT_TRUE(
              (test.gradients()[i] == static_cast<double>(i)).all().item<bool>());
        test.zero_grad();
      }
    }
  });
}

TEST(CommHookRanks, AfterSeesWhatBecomesTheGradient) {
  struct After final : CommHook {
    std::vector<at::Tensor> seen;
    std::string name() const override { return "after"; }
    void run(GradBucket& bucket, const Next& next) override { next(bucket); }
    void after(GradBucket& bucket) override {
      for (const auto& entry : bucket.entries())
        seen[entry.parameter] = entry.gradient.clone();
      if (bucket.is_last())
        bucket.drop(bucket.entries()[0].parameter);
    }
  };
  run_both(2, [](const comm::Group& group) {
    const auto hook = std::make_shared<After>();
    hook->seen.resize(6);
    DataParallelOptions options = one_bucket({hook});
    options.reduction = Reduction::WeightedMean;
    HookCase test(group, options);
    test.replica().set_weight(32);
    test.backward();
    EXPECT_LT(distance(hook->seen, test.mean_gradients()), 1e-6);
    int dropped = 0;
    for (const at::Tensor& gradient : test.gradients())
      dropped += gradient.defined() ? 0 : 1;
    EXPECT_EQ(dropped, 1);
  });
}

TEST(CommHookRanks, MayAskItsReplica) {
  run_both(2, [](const comm::Group& group) {
    HookCase* self = nullptr;
    int calls = 0;
    auto hook = make_hook("ask", [&](GradBucket& bucket, const Next& next) {
      Replica& replica = self->replica();
      EXPECT_EQ(replica.stats().round, bucket.round());
      EXPECT_EQ(replica.reducer().rounds(), bucket.round());
      EXPECT_EQ(replica.stats().buckets.empty(), bucket.round() == 0);
      EXPECT_EQ(replica.group().size(), 2);
      EXPECT_FALSE(replica.reducer().is_paused());
      ++calls;
      next(bucket);
    });
    HookCase test(group, tiny_buckets({hook}));
    self = &test;
    test.train(2, 0.1);
    EXPECT_GT(calls, 8);
  });
}

TEST(CommHookRanks, AFailureNamesItsRank) {
  run_both(2, [](const comm::Group& group) {
    auto hook = make_hook("bad", [&](GradBucket& bucket, const Next& next) {
      if (bucket.index() == 2 && group.rank() == 1)
        throw Error("the hook broke");
      next(bucket);
    });
    HookCase test(group, tiny_buckets({hook}));
    if (group.rank() == 1) {
      EXPECT_TRUE(
          contains(message_of<Error>([&] { test.backward(); }), "the hook broke"));
      return;
    }
    try {
      test.backward();
      ADD_FAILURE() << "no error came";
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_TRUE(contains(error.what(), "the hook broke"));
    }
  });
}

TEST(CommHookRanks, ABufferKeepsItsSize) {
  run_both(2, [](const comm::Group& group) {
    auto hook = make_hook("short", [](GradBucket& bucket, const Next& next) {
      next(bucket);
      bucket.buffer() = bucket.buffer().narrow(0, 0, 3);
    });
    HookCase test(group, one_bucket({make_allreduce_hook(), hook}));
    const std::string message = message_of<Error>([&] { test.backward(); });
    EXPECT_TRUE(contains(message, "expected the hook short to leave a buffer of"));
    EXPECT_TRUE(contains(message, "got 3"));
  });
}

TEST(CommHookRanks, HooksMustBeTheSame) {
  run_both(2, [](const comm::Group& group) {
    auto hook = group.rank() == 0 ? make_fp16_hook() : make_bf16_hook();
    const std::string message = message_of<InvalidArgument>(
        [&] { const HookCase test(group, one_bucket({hook})); });
    EXPECT_TRUE(contains(message, "fp16"));
    EXPECT_TRUE(contains(message, "bf16"));
  });
}

/// Rounds before and after buckets change their order.
constexpr int kRounds = 3;

TEST(CompressHooksRanks, AllreduceEqualsNoHook) {
  for (const int ranks : {2, 4})
    run_both(ranks, [](const comm::Group& group) {
      HookCase plain(group, tiny_buckets({}));
      HookCase hooked(group, tiny_buckets({make_allreduce_hook()}));
      for (int round = 0; round < kRounds; ++round) {
        plain.backward();
        hooked.backward();
        for (size_t i = 0; i < plain.parameters().size(); ++i)
          EXPECT_TRUE(testing::same(hooked.gradients()[i], plain.gradients()[i])) << i;
        plain.sgd(0.1);
        hooked.sgd(0.1);
        plain.zero_grad();
        hooked.zero_grad();
      }
      EXPECT_GT(hooked.replica().reducer().rebuilds(), 0);
    });
}

TEST(CompressHooksRanks, HalvesAreCloseAndEqualEverywhere) {
  // Every rank's value is rounded once, and the mean: two halves of the last bit.
  const std::pair<std::shared_ptr<CommHook> (*)(), double> kinds[] = {
      {make_fp16_hook, 0x1p-10}, {make_bf16_hook, 0x1p-7}};
  for (const auto& [make, precision] : kinds)
    for (const auto& options : {tiny_buckets, one_bucket})
      run_both(2, [&, make = make, precision = precision](const comm::Group& group) {
        HookCase test(group, options({make()}));
        for (int round = 0; round < kRounds; ++round) {
          test.backward();
          const auto wanted = test.mean_gradients();
          double largest = 0;
          for (const at::Tensor& gradient : wanted)
            largest = std::max(largest, gradient.abs().max().item<double>());
          // A mean may cancel out: what counts is the size of what went into it.
          EXPECT_LT(distance(test.gradients(), wanted), 2 * precision * largest);
          EXPECT_TRUE(same_everywhere(group, test.gradients()));
          test.zero_grad();
        }
      });
}

TEST(CompressHooksRanks, NoopKeepsOwnGradients) {
  run_both(2, [](const comm::Group& group) {
    HookCase test(group, tiny_buckets({make_noop_hook()}));
    for (int round = 0; round < kRounds; ++round) {
      test.backward();
      EXPECT_LT(distance(test.gradients(), test.own_gradients()), 1e-7);
      EXPECT_GT(distance(test.gradients(), test.mean_gradients()), 1e-3);
      test.zero_grad();
    }
  });
}

TEST(CompressHooksRanks, HundredStepsTrainAsWithout) {
  run_both(2, [](const comm::Group& group) {
    HookCase plain(group, one_bucket({}));
    const double before = plain.loss();
    plain.train(100, 0.5);
    EXPECT_LT(plain.loss(), 0.5 * before);
    HookCase same(group, tiny_buckets({make_allreduce_hook()}));
    same.train(100, 0.5);
    for (size_t i = 0; i < plain.parameters().size(); ++i)
      EXPECT_TRUE(testing::same(same.parameters()[i], plain.parameters()[i])) << i;
    HookCase half(group, tiny_buckets({make_fp16_hook()}));
    half.train(100, 0.5);
    EXPECT_NEAR(half.loss(), plain.loss(), 0.01 * before);
  });
}

}  // namespace
}  // namespace trireme::dp
