// Graphs that stay as they are: the first backward shows them, later ones are held to
// it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "../dp/models.h"
#include "trireme/autograd/checkpoint.h"
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

at::Tensor static_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

TEST(DataParallelStaticRanks, BlocksThatAreNeverUsed) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(4);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = 1, .static_graph = true});
      // Nobody uses block 3, rank 1 not block 1.
      const Path paths[2] = {{0, 1, 2}, {2, 0}};
      for (int step = 0; step < 5; ++step) {
        model(static_input(group.rank()), paths[group.rank()]).sum().backward();
        for (int rank = 0; rank < 2; ++rank)
          (whole->forward(static_input(rank), paths[rank]).sum() / 2).backward();
        SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
        expect_same_gradients(*net, *whole);
        drop_gradients(*net);
        drop_gradients(*whole);
      }
    });
}

/// First one path, then another: what the rank says, and what it names.
std::string change(const comm::Group& group, const Path& first, const Path& second) {
  const auto net = std::make_shared<Blocks>(3);
  DataParallel model(net, group, {.bucket_bytes = 1, .static_graph = true});
  model(static_input(0), first).sum().backward();
  model(static_input(0), first).sum().backward();
  const at::Tensor loss = model(static_input(0), second).sum();
  return message_of<Error>([&] { loss.backward(); });
}

TEST(DataParallelStaticRanks, AGraphThatLosesABlockIsRefused) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const std::string message = change(group, {0, 1, 2}, {0, 2});
    EXPECT_TRUE(contains(message, "expected the graph to stay as it was"));
    EXPECT_TRUE(contains(message, "w1, b1; set find_unused instead of static_graph"));
  });
}

TEST(DataParallelStaticRanks, AGraphThatGainsABlockIsRefused) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const std::string message = change(group, {0, 2}, {0, 1, 2});
    EXPECT_TRUE(contains(message, "expected the graph to stay as it was"));
    EXPECT_TRUE(contains(message, "another gradient for b1"));
  });
}

/// Runs backward inside of its backward, as torch's own checkpoint does: what the block
/// uses gets a gradient each time.
class Reentrant : public torch::autograd::Function<Reentrant> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const Blocks* blocks,
      int64_t index) {
    context->save_for_backward({x});
    context->saved_data["blocks"] = reinterpret_cast<int64_t>(blocks);
    context->saved_data["index"] = index;
    return blocks->block(static_cast<int>(index), x);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto* blocks =
        reinterpret_cast<const Blocks*>(context->saved_data["blocks"].toInt());
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    {
      const at::AutoGradMode on(true);
      blocks->block(static_cast<int>(context->saved_data["index"].toInt()), x)
          .backward(gradients[0]);
    }
    return {x.grad(), {}, {}};
  }
};

/// Block 0 as it is, then block 1 in reentrant backwards, `times` times.
class Recomputed : public Blocks {
 public:
  explicit Recomputed(int times) : Blocks(3, 2), times_(times) {}
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor y = block(0, x);
    for (int k = 0; k < times_; ++k)
      y = Reentrant::apply(y, this, 1);
    return block(2, y);
  }
  at::Tensor plain(const at::Tensor& x) const {
    at::Tensor y = block(0, x);
    for (int k = 0; k < times_; ++k)
      y = block(1, y);
    return block(2, y);
  }

 private:
  int times_;
};

void recomputes(
    const comm::Group& group, int times, const DataParallelOptions& options) {
  const auto net = std::make_shared<Recomputed>(times);
  const auto whole = std::make_shared<Recomputed>(times);
  DataParallel model(net, group, options);
  const auto input_of = [](int rank) {
    return whole_numbers({2, 2}, static_cast<uint64_t>(rank + 1)).abs();
  };
  for (int step = 0; step < 4; ++step) {
    SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
    model(input_of(group.rank())).sum().backward();
    for (int rank = 0; rank < group.size(); ++rank)
      (whole->plain(input_of(rank)).sum() / group.size()).backward();
    expect_same_gradients(*net, *whole);
    drop_gradients(*net);
    drop_gradients(*whole);
  }
}

TEST(DataParallelStaticRanks, ABackwardInsideOfABackward) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      recomputes(group, 1, {});
      recomputes(group, 1, {.bucket_bytes = 1});
      recomputes(group, 1, {.bucket_bytes = 1, .static_graph = true});
    });
}

TEST(DataParallelStaticRanks, ABlockThatIsRecomputedTwice) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    recomputes(group, 2, {.static_graph = true});
    recomputes(group, 3, {.bucket_bytes = 1, .static_graph = true});
  });
}

TEST(DataParallelStaticRanks, ABlockThatIsRecomputedTwiceWithoutTheOption) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Recomputed>(2);
    DataParallel model(net, group, {.bucket_bytes = 1});
    const at::Tensor loss = model(whole_numbers({2, 2}, 1)).sum();
    const std::string message = message_of<Error>([&] { loss.backward(); });
    EXPECT_TRUE(contains(message, "b1"));
    EXPECT_TRUE(contains(message, "set static_graph"));
  });
}

/// The same with our own checkpoint, which calls hooks once.
class Checkpointed : public Blocks {
 public:
  Checkpointed() : Blocks(2, 2) {}
  at::Tensor forward(const at::Tensor& x) const {
    const auto run = [this](const at::Tensor& in) { return block(1, in); };
    const at::Tensor y = autograd::checkpoint(run, block(0, x));
    return autograd::checkpoint(run, y);
  }
};

TEST(DataParallelStaticRanks, OwnCheckpointsNeedNoOption) {
  for (const bool static_graph : {false, true})
    for (const bool find_unused : {false, true})
      run_world(Backend::Local, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Checkpointed>();
        const auto whole = std::make_shared<Blocks>(2, 2);
        DataParallel model(
            net,
            group,
            {.bucket_bytes = 1,
             .find_unused = find_unused,
             .static_graph = static_graph});
        const auto input_of = [](int rank) {
          return whole_numbers({2, 2}, static_cast<uint64_t>(rank + 1));
        };
        for (int step = 0; step < 3; ++step) {
          model(input_of(group.rank())).sum().backward();
          for (int rank = 0; rank < 2; ++rank)
            (whole->forward(input_of(rank), {0, 1, 1}).sum() / 2).backward();
          expect_same_gradients(*net, *whole);
        }
      });
}

// The graph behind the outputs is walked, and it is a static one: what is counted
// holds.
TEST(DataParallelStaticRanks, UnusedParametersAreFoundInAStaticGraph) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const size_t bytes : {size_t{1}, size_t{1} << 20})
      run_world(backend, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Blocks>(4);
        const auto whole = copy_of(*net);
        DataParallel model(
            net,
            group,
            {.bucket_bytes = bytes, .find_unused = true, .static_graph = true});
        const Path paths[2] = {{0, 1}, {2, 0}};
        for (int step = 0; step < 5; ++step) {
          SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
          // And a loss on the side, which no output leads to.
          const auto loss = [](const at::Tensor& y, const Blocks& its) {
            return y.sum() + (its.weight(3) * 2).sum();
          };
          loss(model(static_input(group.rank()), paths[group.rank()]), *net).backward();
          for (int rank = 0; rank < 2; ++rank)
            (loss(whole->forward(static_input(rank), paths[rank]), *whole) / 2)
                .backward();
          expect_same_gradients(*net, *whole);
          drop_gradients(*net);
          drop_gradients(*whole);
        }
        EXPECT_FALSE(net->bias(3).grad().defined());
      });
}

}  // namespace
}  // namespace trireme::dp
