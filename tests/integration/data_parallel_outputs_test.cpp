// What forward returns, and what of it the loss needs.
#include <map>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {

/// Three outputs as a type of one's own.
struct Heads {
  at::Tensor left, right, trunk;
  std::string note;
};
template <class F>
void visit_tensors(Heads& heads, F&& f) {
  f(heads.left);
  f(heads.right);
  f(heads.trunk);
}

namespace {

using testing::Backend;
using testing::run_world;

/// Block 0, and then block 1 to the left and block 2 to the right, in a type T.
template <class T>
class Fork : public Blocks {
 public:
  Fork() : Blocks(3) {}
  T forward(const at::Tensor& x) const {
    const at::Tensor trunk = block(0, x);
    const at::Tensor left = block(1, trunk);
    const at::Tensor right = block(2, trunk);
    if constexpr (std::is_same_v<T, Heads>)
      return {left, right, trunk, "heads"};
    else if constexpr (std::is_same_v<T, std::map<std::string, at::Tensor>>)
      return {{"left", left}, {"right", right}, {"trunk", trunk}};
    else if constexpr (std::is_same_v<T, std::vector<at::Tensor>>)
      return {left, right, trunk};
    else
      return T(left, right, trunk);
  }
};
using Tuple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor left_of(const Tuple& t) {
  return std::get<0>(t);
}
at::Tensor left_of(const std::vector<at::Tensor>& v) {
  return v[0];
}
at::Tensor left_of(const std::map<std::string, at::Tensor>& m) {
  return m.at("left");
}
at::Tensor left_of(const Heads& h) {
  return h.left;
}

at::Tensor output_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

/// The loss needs the left output only; the right block keeps undefined gradients.
template <class T>
void ignores_the_right(const comm::Group& group, const DataParallelOptions& options) {
  const auto net = std::make_shared<Fork<T>>();
  const auto whole = std::make_shared<Fork<T>>();
  DataParallel model(net, group, options);
  for (int step = 0; step < 6; ++step) {
    left_of(model(output_input(group.rank()))).sum().backward();
    for (int rank = 0; rank < group.size(); ++rank)
      (left_of(whole->forward(output_input(rank))).sum() / group.size()).backward();
    SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
    expect_same_gradients(*net, *whole);
    for (Blocks* each :
         {static_cast<Blocks*>(net.get()), static_cast<Blocks*>(whole.get())}) {
      descend(*each, 0.125);
      drop_gradients(*each);
    }
    expect_same_values(*net, *whole);
  }
}

TEST(DataParallelOutputsRanks, OutputsThatTheLossDoesNotNeed) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    for (const DataParallelOptions& options :
         {DataParallelOptions{},
          DataParallelOptions{.bucket_bytes = 1},
          DataParallelOptions{.bucket_bytes = 1, .find_unused = true},
          DataParallelOptions{.static_graph = true}}) {
      ignores_the_right<Tuple>(group, options);
      ignores_the_right<std::vector<at::Tensor>>(group, options);
      ignores_the_right<std::map<std::string, at::Tensor>>(group, options);
      ignores_the_right<Heads>(group, options);
    }
  });
}

TEST(DataParallelOutputsRanks, ABackwardForEachOutput) {
  for (const bool find_unused : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Fork<Tuple>>();
      const auto whole = std::make_shared<Fork<Tuple>>();
      DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = find_unused});
      for (int step = 0; step < 3; ++step) {
        const auto [left, right, trunk] = model(output_input(group.rank()));
        left.sum().backward({}, true);
        right.sum().backward({}, true);
        right.sum().backward();  // and once more over a graph that was kept
        for (int rank = 0; rank < 2; ++rank) {
          const auto [l, r, t] = whole->forward(output_input(rank));
          ((l.sum() + 2 * r.sum()) / 2).backward();
        }
        SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
        expect_same_gradients(*net, *whole);
      }
      EXPECT_EQ(model.replica().reducer().rounds(), 9);
    });
}

TEST(DataParallelOutputsRanks, SeveralForwardsAndOneBackward) {
  for (const bool static_graph : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(2);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = 1, .static_graph = static_graph});
      for (int step = 0; step < 3; ++step) {
        const at::Tensor first = model(output_input(group.rank()));
        const at::Tensor second = model(output_input(group.rank() + 2));
        (first + second).sum().backward();
        for (int rank = 0; rank < 2; ++rank)
          ((whole->forward(output_input(rank)) + whole->forward(output_input(rank + 2)))
               .sum() /
           2)
              .backward();
        expect_same_gradients(*net, *whole);
      }
    });
}

TEST(DataParallelOutputsRanks, OutputsThatAreDroppedAndOneThatIsUsed) {
  for (const bool find_unused : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(3);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = find_unused});
      for (int step = 0; step < 3; ++step) {
        for (int k = 0; k < 3; ++k)
          model(output_input(k), std::vector<int>{0});
        model(output_input(group.rank())).sum().backward();
        for (int rank = 0; rank < 2; ++rank)
          (whole->forward(output_input(rank)).sum() / 2).backward();
        expect_same_gradients(*net, *whole);
      }
    });
}

TEST(DataParallelOutputsRanks, EvaluationOnOneRankHangsNobody) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(2);
      net->register_buffer("count", at::zeros({1}));
      DataParallel model(net, group);
      for (int step = 0; step < 3; ++step) {
        model(output_input(0)).sum().backward();
        if (group.rank() == 0) {
          net->eval();
          model(output_input(1));
          net->train();
          const c10::AutoGradMode no_grad(false);
          EXPECT_FALSE(model(output_input(1)).requires_grad());
        }
      }
      EXPECT_EQ(model.replica().reducer().rounds(), 3);
    });
}

TEST(DataParallelOutputsRanks, NoGradLeavesGradientsUndefined) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    DataParallel model(net, group);
    const c10::AutoGradMode no_grad(false);
    model(output_input(0));
    for (const at::Tensor& parameter : net->parameters())
      EXPECT_FALSE(parameter.grad().defined());
  });
}

/// The two halves of one operation's result.
class Halves : public Blocks {
 public:
  Halves() : Blocks(1) {}
  std::vector<at::Tensor> forward(const at::Tensor& x) const {
    return block(0, x).chunk(2, 1);
  }
};

// torch refuses to write into views of one operation; behind our node they are tensors
// of their own.
TEST(DataParallelOutputsRanks, ALossThatIsScaledInPlace) {
  for (const bool find_unused : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Halves>();
      const auto whole = std::make_shared<Halves>();
      DataParallel model(net, group, {.find_unused = find_unused});
      for (int step = 0; step < 3; ++step) {
        std::vector<at::Tensor> halves = model(output_input(group.rank()));
        halves[0].mul_(3);
        at::Tensor loss = halves[0].sum() + halves[1].sum();
        loss.mul_(0.5);
        loss.backward();
        for (int rank = 0; rank < 2; ++rank) {
          const auto its = whole->forward(output_input(rank));
          ((its[0].sum() * 3 + its[1].sum()) / 4).backward();
        }
        expect_same_gradients(*net, *whole);
      }
    });
}

/// Something with a gradient, and three things without.
class MixedOutputs : public Blocks {
 public:
  using Outputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
  MixedOutputs() : Blocks(2) {}
  Outputs forward(const at::Tensor& x) {
    const at::Tensor y = Blocks::forward(x);
    made = at::arange(3);
    return {y, made, y.detach(), at::Tensor()};
  }
  at::Tensor made;
};

TEST(DataParallelOutputsRanks, OutputsWithoutAGradient) {
  for (const bool static_graph : {false, true})
    for (const bool find_unused : {false, true})
      run_world(Backend::Local, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<MixedOutputs>();
        const auto whole = std::make_shared<MixedOutputs>();
        DataParallel model(
            net,
            group,
            {.bucket_bytes = 1,
             .find_unused = find_unused,
             .static_graph = static_graph});
        for (int step = 0; step < 3; ++step) {
          const auto [y, made, detached, none] = model(output_input(group.rank()));
          EXPECT_TRUE(made.is_same(net->made)) << "as it was";
          EXPECT_FALSE(made.requires_grad());
          EXPECT_FALSE(detached.requires_grad());
          EXPECT_TRUE(testing::same(detached, y.detach()));
          EXPECT_FALSE(none.defined());
          y.sum().backward();
          for (int rank = 0; rank < 2; ++rank)
            (std::get<0>(whole->forward(output_input(rank))).sum() / 2).backward();
          expect_same_gradients(*net, *whole);
        }
      });
}

}  // namespace
}  // namespace trireme::dp
