// Parameters that a backward does not reach: everywhere, on some ranks, now and then.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

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

using Path = std::vector<int>;

at::Tensor unused_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

/// A step of both: rank r goes through the blocks of paths[r].
void step_as_one(
    DataParallel<std::shared_ptr<Blocks>>& model,
    Blocks& whole,
    const comm::Group& group,
    const std::vector<Path>& paths) {
  drop_gradients(*model.module());
  drop_gradients(whole);
  const auto at = static_cast<size_t>(group.rank());
  model(unused_input(group.rank()), paths[at]).sum().backward();
  for (int rank = 0; rank < group.size(); ++rank)
    (whole.forward(unused_input(rank), paths[static_cast<size_t>(rank)]).sum() /
     group.size())
        .backward();
  expect_same_gradients(*model.module(), whole);
}

TEST(DataParallelUnusedRanks, SetsThatChangeFromStepToStep) {
  const std::vector<std::vector<Path>> steps = {
      {{0, 1}, {0, 1}},     // 2 and 3 unused everywhere
      {{0, 1}, {0, 2}},     // another on each rank
      {{0, 1, 2, 3}, {3}},  // all on one
      {{0, 1, 2, 3}, {0, 1, 2, 3}},
      {{2}, {2}},
      {{3}, {0}},
      {{1}, {1, 2}},
  };
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const size_t bytes : {size_t{1}, size_t{200}, size_t{1} << 20})
      run_world(backend, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Blocks>(4);
        const auto whole = copy_of(*net);
        DataParallel model(net, group, {.bucket_bytes = bytes, .find_unused = true});
        for (size_t k = 0; k < 2 * steps.size(); ++k) {
          SCOPED_TRACE(text("step ", k, " of rank ", group.rank(), ", bytes ", bytes));
          step_as_one(model, *whole, group, steps[k % steps.size()]);
        }
      });
}

TEST(DataParallelUnusedRanks, ARankThatUsesNothingNewTakesPart) {
  run_world(Backend::Local, 4, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(3);
    const auto whole = copy_of(*net);
    DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = true});
    step_as_one(model, *whole, group, {{0}, {1}, {2}, {0, 1, 2}});
    EXPECT_EQ(
        model.replica().reducer().outcome().used,
        (std::vector<int64_t>{2, 2, 2, 2, 2, 2}));
    step_as_one(model, *whole, group, {{0}, {1}, {0, 1}, {0, 1}});
    EXPECT_EQ(
        model.replica().reducer().outcome().used,
        (std::vector<int64_t>{3, 3, 3, 3, 0, 0}));
  });
}

TEST(DataParallelUnusedRanks, BucketsThatNobodyReachesAreLeftOut) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(4);
    DataParallel model(
        net, group, {.bucket_bytes = 1, .find_unused = true, .rebuild = false});
    model(unused_input(0), Path{0, 3}).sum().backward();
    int skipped = 0;
    for (const BucketTime& time : model.replica().stats().buckets)
      skipped += time.skipped;
    EXPECT_EQ(skipped, 4);  // w1, b1, w2, b2
    EXPECT_FALSE(net->weight(1).grad().defined());
  });
}

TEST(DataParallelUnusedRanks, MissingWithoutTheOptionIsNamed) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(3);
      DataParallel model(net, group, {.bucket_bytes = 1});
      model(unused_input(0)).sum().backward();
      const Path path = group.rank() == 1 ? Path{0, 2} : Path{0, 1, 2};
      const at::Tensor loss = model(unused_input(0), path).sum();
      if (group.rank() == 1) {
        const std::string message =
            message_of<InvalidArgument>([&] { loss.backward(); });
        EXPECT_TRUE(contains(message, "on rank 1 for w1, b1; set find_unused"));
      } else {
        const std::string message = message_of<PeerError>([&] { loss.backward(); });
        EXPECT_TRUE(contains(message, "w1, b1"));
      }
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { model(unused_input(0)); }),
          "replace_group"));
    });
}

// The loss needs a parameter that no output leads to.
TEST(DataParallelUnusedRanks, UsedOutsideOfForward) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    DataParallel model(net, group);
    const auto loss = [](const at::Tensor& y, const Blocks& its) {
      return y.sum() + (its.weight(1) * 3).sum() + its.bias(1).sum();
    };
    loss(model(unused_input(group.rank()), Path{0}), *net).backward();
    for (int rank = 0; rank < 2; ++rank)
      (loss(whole->forward(unused_input(rank), Path{0}), *whole) / 2).backward();
    expect_same_gradients(*net, *whole);
  });
}

// Undefined gradients reach the node of a parameter without being an error.
TEST(DataParallelUnusedRanks, AParameterThatNobodyNeedsKeepsItsOldGradient) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    DataParallel model(net, group, {.find_unused = true});
    model(unused_input(0)).sum().backward();
    const at::Tensor before = net->weight(1).grad().clone();
    model(unused_input(0), Path{0})
        .sum()
        .backward();  // adds to the gradients of block 0 only
    EXPECT_TRUE(testing::same(net->weight(1).grad(), before));
  });
}

/// Blocks 1 and 3 lead to the output. Between them, a loss on the side needs block 0,
/// which no output leads to.
class SideLoss : public Blocks {
 public:
  SideLoss() : Blocks(4) {}
  at::Tensor forward(const at::Tensor& x, double scale, bool early = false) {
    const auto side = [&] { return (weight(0) * scale).sum() + bias(0).sum() * scale; };
    if (early)
      side_ = side();
    const at::Tensor hidden = block(1, x);
    if (!early)
      side_ = side();
    return block(3, hidden);
  }
  const at::Tensor& side() const { return side_; }

 private:
  at::Tensor side_;
};

// Its bucket was to be left out by all ranks, but then a gradient came.
TEST(DataParallelUnusedRanks, ALossOnTheSideIsReducedToo) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const bool on_both : {false, true})
      for (const size_t bytes : {size_t{1}, size_t{200}, size_t{1} << 20})
        run_world(backend, 2, [&](const comm::Group& group) {
          const auto net = std::make_shared<SideLoss>();
          const auto whole = std::make_shared<SideLoss>();
          DataParallel model(net, group, {.bucket_bytes = bytes, .find_unused = true});
          const auto loss = [&](const at::Tensor& y, const SideLoss& its, int rank) {
            return on_both || rank == 1 ? y.sum() + its.side() : y.sum();
          };
          for (int step = 0; step < 4; ++step) {
            SCOPED_TRACE(text("step ", step, " of rank ", group.rank(), ", ", bytes));
            drop_gradients(*net);
            drop_gradients(*whole);
            const double scale = 2 * group.rank() + 2;
            const at::Tensor y = model(unused_input(group.rank()), scale);
            loss(y, *net, group.rank()).backward();
            for (int rank = 0; rank < 2; ++rank) {
              const at::Tensor its = whole->forward(unused_input(rank), 2 * rank + 2);
              (loss(its, *whole, rank) / 2).backward();
            }
            expect_same_gradients(*net, *whole);
          }
        });
}

// When its bucket has left before, everybody hears of it.
TEST(DataParallelUnusedRanks, ALossOnTheSideThatComesTooLate) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<SideLoss>();
    DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = true});
    const at::Tensor y = model(unused_input(0), 1.0, true);
    const std::string message =
        message_of<Error>([&] { (net->side() + y.sum()).backward(); });
    EXPECT_TRUE(contains(message, "got another one after its bucket was reduced"))
        << message;
  });
}

/// Gives no gradient to what it is made of.
class GivesNothing : public torch::autograd::Function<GivesNothing> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext*, const torch::autograd::variable_list&) {
    return {at::Tensor()};
  }
};

/// Block 1 is reached by the graph, but its gradient is undefined.
class Blocked : public Blocks {
 public:
  Blocked() : Blocks(3) {}
  at::Tensor forward(const at::Tensor& x) const {
    return block(2, block(0, x)) + GivesNothing::apply(block(1, x));
  }
};

TEST(DataParallelUnusedRanks, AFunctionThatGivesNoGradient) {
  for (const bool find_unused : {false, true})
    for (const size_t bytes : {size_t{1}, size_t{1} << 20})
      run_world(Backend::Local, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Blocked>();
        const auto whole = std::make_shared<Blocked>();
        DataParallel model(
            net, group, {.bucket_bytes = bytes, .find_unused = find_unused});
        for (int step = 0; step < 3; ++step) {
          model(unused_input(group.rank())).sum().backward();
          for (int rank = 0; rank < 2; ++rank)
            (whole->forward(unused_input(rank)).sum() / 2).backward();
          expect_same_gradients(*net, *whole);
          EXPECT_FALSE(net->weight(1).grad().defined());
        }
      });
}

/// Two parameters that nobody uses, one of them under two names; so they share the node
/// that adds up its gradient.
class UnusedTwice : public Blocks {
 public:
  UnusedTwice() : Blocks(1), spare(register_parameter("spare", at::ones({2}))) {
    register_parameter("again", spare);
    register_parameter("other", at::ones({2}));
  }
  at::Tensor spare;
};

TEST(DataParallelUnusedRanks, SeveralNamesOfAnUnusedParameter) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<UnusedTwice>();
    const auto whole = std::make_shared<UnusedTwice>();
    DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = true});
    for (int step = 0; step < 3; ++step) {
      at::Tensor loss = model(unused_input(group.rank())).sum();
      loss.mul_(4);
      loss.backward();
      for (int rank = 0; rank < 2; ++rank)
        (whole->forward(unused_input(rank)).sum() * 2).backward();
      expect_same_gradients(*net, *whole);
      EXPECT_FALSE(net->spare.grad().defined());
    }
  });
}

// The loss goes on with a part of the model, after forward has returned.
TEST(DataParallelUnusedRanks, APartThatForwardReturnsAndTheLossUses) {
  for (const bool find_unused : {false, true})
    for (const size_t bytes : {size_t{1}, size_t{1} << 20})
      run_world(Backend::Local, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Blocks>(3);
        const auto whole = copy_of(*net);
        DataParallel model(
            net, group, {.bucket_bytes = bytes, .find_unused = find_unused});
        for (int step = 0; step < 4; ++step) {
          SCOPED_TRACE(text("step ", step, ", find_unused ", find_unused));
          net->block(2, model(unused_input(group.rank()), Path{0, 1})).sum().backward();
          for (int rank = 0; rank < 2; ++rank)
            (whole->forward(unused_input(rank)).sum() / 2).backward();
          expect_same_gradients(*net, *whole);
        }
      });
}

/// A model in a model: names have a prefix.
class Nested : public torch::nn::Module {
 public:
  Nested() {
    used = register_module("used", std::make_shared<Blocks>(1));
    spare = register_module("spare", std::make_shared<Blocks>(1));
  }
  at::Tensor forward(const at::Tensor& x) const { return used->forward(x); }
  std::shared_ptr<Blocks> used, spare;
};

TEST(DataParallelUnusedRanks, EveryUnusedNameAndNoOther) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    DataParallel model(std::make_shared<Nested>(), group);
    const std::string message =
        message_of<InvalidArgument>([&] { model(unused_input(0)).sum().backward(); });
    EXPECT_TRUE(contains(message, "got none on rank 0 for spare.w0, spare.b0; set"))
        << message;
  });
}

}  // namespace
}  // namespace trireme::dp
