// Gradients of data parallelism in a context against those in `.grad` and those of one
// process; with the model on the far side of calls; and what fails in the middle.
#include <future>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "../dp/models.h"
#include "hybrid_case.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/rpc/remote_module.h"
#include "trireme/testing/check.h"

namespace trireme::hybrid {
namespace {

using dist_autograd::Context;
using dist_autograd::Mode;
using testing::contains;
using testing::message_of;
using testing::RpcKind;
using testing::same;

// The same for the same rank, and not from torch's generator, which threads share.
at::Tensor whole_rand(at::IntArrayRef sizes, int64_t seed) {
  const int64_t count = c10::multiply_integers(sizes);
  return ((at::arange(count, at::kFloat) * (2 * seed + 3) + seed) % 7 - 3).view(sizes);
}

class HybridComparisonRanks : public ::testing::TestWithParam<RpcKind> {
 protected:
  using Body = std::function<void(rpc::Agent&, const comm::Group&)>;
  // Four trainers, each with the same role.
  void run(const rpc::FunctionTable& functions, const Body& body) {
    std::vector<comm::Group> groups(kTrainers);
    const auto world = world_with_group(
        GetParam(),
        0,
        kTrainers,
        [&](rpc::AgentOptions& options, const comm::Group& group) {
          groups[static_cast<size_t>(*options.rank)] = group;
          options.functions = functions;
        });
    run_rpc(GetParam(), kTrainers, world, [&](rpc::Agent& agent) {
      // The last handle: the group closes when this one is through.
      const comm::Group group =
          std::exchange(groups[static_cast<size_t>(agent.me().id)], {});
      body(agent, group);
      EXPECT_TRUE(left_nothing(agent));
      comm::barrier(group);
    });
  }

 private:
  static bool left_nothing(const rpc::Agent& agent) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (dist_autograd::contexts_of(agent)->size() > 0 && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return dist_autograd::contexts_of(agent)->size() == 0;
  }
};

// Backward of a loss in a context and then in `.grad`.
template <class Loss>
void expect_same_both_ways(
    rpc::Agent& agent, const torch::nn::Module& module, const Loss& loss) {
  std::vector<at::Tensor> in_context;
  dp::drop_gradients(module);
  {
    const Context context(agent);
    context.backward({loss()});
    EXPECT_EQ(context.gradients().size(), module.parameters().size());
    for (const at::Tensor& parameter : module.parameters()) {
      EXPECT_FALSE(parameter.grad().defined());
      in_context.push_back(context.gradient(parameter).clone());
    }
  }
  loss().backward();
  for (size_t i = 0; i < in_context.size(); ++i) {
    EXPECT_TRUE(same(in_context[i], module.parameters()[i].grad()));
    EXPECT_GT(in_context[i].abs().sum().item<float>(), 0);
  }
}

TEST_P(HybridComparisonRanks, InAContextAndInGrad) {
  run({}, [](rpc::Agent& agent, const comm::Group& group) {
    dp::DataParallel model(torch::nn::Linear(2, 3), group);
    const at::Tensor input = whole_rand({3, 2}, group.rank());
    expect_same_both_ways(agent, *model.module(), [&] { return model(input).norm(); });
  });
}

TEST_P(HybridComparisonRanks, InAContextAndInGradWithUnevenInputs) {
  run({}, [](rpc::Agent& agent, const comm::Group& group) {
    dp::DataParallel model(torch::nn::Linear(2, 3), group);
    const int inputs = group.rank() % 2 == 0 ? 3 : 1;
    dp::join({&model.replica()}, [&] {
      for (int i = 0; i < inputs; ++i) {
        const at::Tensor input = whole_rand({3, 2}, 10 * i + group.rank());
        expect_same_both_ways(
            agent, *model.module(), [&] { return model(input).norm(); });
      }
    });
    EXPECT_EQ(model.replica().reducer().rounds(), 6);
  });
}

TEST_P(HybridComparisonRanks, RowsInAContextAndInGrad) {
  run({}, [](rpc::Agent& agent, const comm::Group& group) {
    dp::DataParallel model(
        torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(10, 3).sparse(true)),
        group);
    const at::Tensor rows = whole_rand({10}, group.rank()).to(at::kLong).abs();
    const at::Tensor offsets = at::tensor({0, 4}, at::kLong);
    model.forward(rows, offsets).sum().backward();
    const at::Tensor local = model.module()->weight.grad().clone();
    dp::drop_gradients(*model.module());
    const Context context(agent);
    context.backward({model.forward(rows, offsets).sum()});
    const auto all = context.gradients();
    ASSERT_EQ(all.size(), 1);
    EXPECT_TRUE(all[0].second.is_sparse());
    EXPECT_TRUE(same(all[0].second.to_dense(), local.to_dense()));
    EXPECT_FALSE(model.module()->weight.grad().defined());
  });
}

// The layer below is on worker 0, for worker 0 itself too.
TEST_P(HybridComparisonRanks, ALayerHereAndThere) {
  const rpc::ModuleFactory<at::Tensor(at::Tensor)> linear("Linear");
  rpc::FunctionTable functions;
  linear.add_to(functions, [](int64_t in, int64_t out) {
    return std::make_shared<torch::nn::LinearImpl>(
        torch::nn::LinearOptions(in, out).bias(false));
  });
  functions.add("gradient", [](const rpc::RRef<at::Tensor>& parameter) {
    return dist_autograd::this_context().gradient(*parameter.local_value());
  });
  run(functions, [](rpc::Agent& agent, const comm::Group& group) {
    dp::DataParallel above(torch::nn::Linear(5, 1), group);
    for (const char* where : {"worker0/cpu", "worker0"}) {
      const rpc::RemoteModule<at::Tensor(at::Tensor)> there(
          agent, where, "Linear", int64_t{10}, int64_t{5});
      const auto parameters = there.parameters();
      ASSERT_EQ(parameters.size(), 1);
      const at::Tensor here =
          parameters[0].value.to_here().detach().clone().set_requires_grad(true);
      const at::Tensor input = whole_rand({10, 10}, group.rank());
      dp::drop_gradients(*above.module());
      above(at::linear(input, here)).sum().backward();
      const Context context(agent);
      context.backward({above(there.forward(input)).sum()});
      EXPECT_TRUE(same(
          context.gradient(above.module()->weight), above.module()->weight.grad()));
      const at::Tensor below =
          agent.to(0).call<at::Tensor>("gradient", parameters[0].value);
      EXPECT_TRUE(at::allclose(below, here.grad()));
      comm::barrier(group);
    }
  });
}

// Outputs that hold tensors of other workers.
struct Output {
  at::Tensor here;
  rpc::RRef<at::Tensor> far;
};
template <class F>
void visit_tensors(Output& output, F&& f) {
  f(output.here);
  visit_tensors(output.far, f);
}

enum class Far { There, Here, Unused, Between };

class FarModel : public torch::nn::Module {
 public:
  FarModel(rpc::Agent& agent, Far far, bool with_idle) : agent_(agent), far_(far) {
    up = register_parameter("up", whole_rand({2, 2}, 1));
    out = register_parameter("out", whole_rand({2, 2}, 2));
    if (with_idle)
      idle = register_parameter("idle", at::ones({2}));
  }
  Output forward(const at::Tensor& x) {
    const at::Tensor y = at::mm(x, up);
    const rpc::Caller next =
        agent_.to(static_cast<rpc::WorkerId>((agent_.me().id + 1) % kTrainers));
    if (far_ == Far::Between)
      return {at::mm(next.call<at::Tensor>("square", y), out), {}};
    return {
        at::mm(x, out),
        far_ == Far::Here ? agent_.own(y * y) : next.remote<at::Tensor>("square", y)};
  }
  at::Tensor loss(const Output& output) const {
    if (far_ == Far::Between || far_ == Far::Unused)
      return output.here.sum();
    return output.here.sum() + output.far.to_here().sum();
  }
  // In one process.
  at::Tensor loss(const at::Tensor& x) const {
    const at::Tensor y = at::mm(x, up);
    if (far_ == Far::Between)
      return at::mm(y * y, out).sum();
    const at::Tensor here = at::mm(x, out).sum();
    return far_ == Far::Unused ? here : here + (y * y).sum();
  }
  at::Tensor up, out, idle;

 private:
  rpc::Agent& agent_;
  Far far_;
};

void expect_far_gradients(
    rpc::Agent& agent, const comm::Group& group, Far far, bool find_unused) {
  const auto net = std::make_shared<FarModel>(agent, far, find_unused);
  dp::DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = find_unused});
  const bool up_used = far != Far::Unused;
  at::Tensor up = at::zeros({2, 2}), out = at::zeros({2, 2});
  for (int rank = 0; rank < kTrainers; ++rank) {
    const auto parts = torch::autograd::grad(
        {net->loss(whole_rand({3, 2}, rank))},
        {net->up, net->out},
        {},
        {},
        false,
        true);
    if (up_used)
      up += parts[0] / kTrainers;
    out += parts[1] / kTrainers;
  }
  for (int round = 0; round < 3; ++round) {
    const Context context(agent);
    const Output output = model(whole_rand({3, 2}, group.rank()));
    context.backward({net->loss(output)});
    EXPECT_EQ(context.gradient(net->up).defined(), up_used);
    if (up_used) {
      EXPECT_TRUE(same(context.gradient(net->up), up));
    }
    EXPECT_TRUE(same(context.gradient(net->out), out));
    if (find_unused) {
      EXPECT_FALSE(context.gradient(net->idle).defined());
    }
  }
  comm::barrier(group);
}

TEST_P(HybridComparisonRanks, OutputsOfOtherWorkers) {
  rpc::FunctionTable functions;
  functions.add("square", [](const at::Tensor& x) { return x * x; });
  run(functions, [](rpc::Agent& agent, const comm::Group& group) {
    for (const Far far : {Far::There, Far::Here, Far::Unused, Far::Between})
      expect_far_gradients(agent, group, far, true);
    for (const Far far : {Far::There, Far::Here, Far::Between})
      expect_far_gradients(agent, group, far, false);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    HybridComparisonRanks,
    ::testing::Values(RpcKind::Threads, RpcKind::Processes),
    [](const auto& kind) { return to_string(kind.param); });

// Data parallelism on the far side: workers 2 and 3 have the model, and their gradients
// come from workers 0 and 1, each by calls of its own.
class Partner {
 public:
  explicit Partner(const comm::Group& group)
      : group_(group),
        net_(std::make_shared<Net>()),
        replica_(*net_, group_, {.bucket_bytes = 1}) {}

  at::Tensor forward(int64_t layer, const at::Tensor& x) {
    const auto low = replica_.before_forward();
    return replica_.watch(at::mm(x, net_->weights[static_cast<size_t>(layer)]));
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& weight : net_->weights) {
      EXPECT_FALSE(weight.grad().defined());
      all.push_back(dist_autograd::this_context().gradient(weight));
    }
    return all;
  }
  bool is_open() const { return replica_.reducer().is_open(); }
  void renew() {
    group_ = group_.renew();
    replica_.replace_group(group_);
  }

 private:
  struct Net : torch::nn::Module {
    Net() {
      for (const char* name : {"a", "b"})
        weights.push_back(register_parameter(name, at::ones({2, 2})));
    }
    std::vector<at::Tensor> weights;
  };
  comm::Group group_;
  std::shared_ptr<Net> net_;
  dp::Replica replica_;
};

constexpr int kLeaders = 2;

// One leader with its partner.
class Leader {
 public:
  explicit Leader(rpc::Agent& agent)
      : agent_(agent),
        partner_(agent.to(agent.me().id + kLeaders)
                     .remote<std::shared_ptr<Partner>>("make_partner")) {}

  // The gradient of layer 1 goes first; `between` runs before that of layer 0 does.
  at::Tensor forward(const std::function<void()>& between = {}) const {
    const at::Tensor first = partner_.call(&Partner::forward, 0, input(number())) * 1;
    if (between)
      first.register_hook([between](const at::Tensor& gradient) {
        between();
        return gradient;
      });
    const at::Tensor below = first.sum();
    return below + partner_.call(&Partner::forward, 1, 2 * input(number())).sum();
  }
  void expect_good_pass(Mode mode) const {
    const Context context(agent_);
    context.backward({forward()}, {.mode = mode});
    at::Tensor mean = at::zeros({2, 2});
    for (int leader = 0; leader < kLeaders; ++leader)
      mean += at::mm(input(leader).t(), at::ones({3, 2})) / kLeaders;
    const auto gradients = partner_.call(&Partner::gradients);
    EXPECT_TRUE(same(gradients[0], mean));
    EXPECT_TRUE(same(gradients[1], 2 * mean));
  }
  std::string message_of_backward(const std::function<void()>& between = {}) const {
    const Context context(agent_);
    const at::Tensor loss = forward(between);
    return message_of<Error>([&] { context.backward({loss}); });
  }
  // The round of the partner has begun.
  void await_open() const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (!partner_.call(&Partner::is_open)) {
      if (deadline.expired())
        throw Error("[test] expected a round that begins, got none; look there");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  int number() const { return static_cast<int>(agent_.me().id); }
  rpc::Agent& agent() const { return agent_; }
  void renew() const { partner_.call(&Partner::renew); }

 private:
  static at::Tensor input(int leader) { return whole_rand({3, 2}, leader); }
  rpc::Agent& agent_;
  rpc::RRef<Partner> partner_;
};

class HybridFarRanks : public ::testing::TestWithParam<RpcKind> {
 protected:
  void run(const std::function<void(const Leader&)>& body) {
    const auto world = world_with_group(
        GetParam(),
        kLeaders,
        kLeaders,
        [](rpc::AgentOptions& options, const comm::Group& group) {
          options.functions
              .add("make_partner", [group] { return std::make_shared<Partner>(group); })
              .method("Partner.forward", &Partner::forward)
              .method("Partner.gradients", &Partner::gradients)
              .method("Partner.is_open", &Partner::is_open)
              .method("Partner.renew", &Partner::renew);
        });
    run_rpc(GetParam(), 2 * kLeaders, world, [&](rpc::Agent& agent) {
      if (agent.me().id < kLeaders)
        body(Leader(agent));
    });
  }
};

TEST_P(HybridFarRanks, GradientsThatComeOnSeveralThreads) {
  run([](const Leader& leader) {
    for (int round = 0; round < 5; ++round)
      for (const Mode mode : {Mode::Exact, Mode::Fast})
        leader.expect_good_pass(mode);
  });
}

// The leader's own error, in the middle of its partner's round, gets to the other
// partner, and from there to the other leader.
TEST_P(HybridFarRanks, AnErrorInTheMiddleEndsTheRoundByName) {
  run([](const Leader& leader) {
    leader.expect_good_pass(Mode::Exact);
    std::string message;
    if (leader.number() == 0)
      message = leader.message_of_backward([&] {
        leader.await_open();
        throw Error("trouble on the way back");
      });
    else
      message = leader.message_of_backward();
    EXPECT_TRUE(contains(message, "trouble on the way back")) << message;
    if (leader.number() == 1) {
      EXPECT_TRUE(contains(
          message,
          "the backward of rank 0 failed before all its gradients were there: on "
          "worker worker0: "))
          << message;
    }
    leader.renew();
    leader.expect_good_pass(Mode::Exact);
  });
}

TEST_P(HybridFarRanks, TwoContextsAtOnceAreRefused) {
  run([](const Leader& leader) {
    std::string message, forward, other;
    if (leader.number() == 1) {
      message = leader.message_of_backward();
    } else {
      std::promise<void> is_forward, go;
      std::thread thread([&] {
        const Context context(leader.agent());
        const at::Tensor loss = leader.forward();
        is_forward.set_value();
        go.get_future().wait_for(std::chrono::seconds(20));
        forward = message_of<Error>([&] { leader.forward(); });
        other = message_of<Error>([&] { context.backward({loss}); });
      });
      is_forward.get_future().wait_for(std::chrono::seconds(20));
      message = leader.message_of_backward([&] {
        leader.await_open();
        go.set_value();
        thread.join();
      });
      EXPECT_TRUE(contains(forward, "got one that still runs")) << forward;
      EXPECT_TRUE(contains(
          other, "expected one backward at a time over a model, got one into context "))
          << other;
      EXPECT_TRUE(contains(other, " while one into context ")) << other;
    }
    EXPECT_TRUE(contains(message, "one backward at a time")) << message;
    leader.renew();
    leader.expect_good_pass(Mode::Exact);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    HybridFarRanks,
    ::testing::Values(RpcKind::Threads, RpcKind::Processes),
    [](const auto& kind) { return to_string(kind.param); });

}  // namespace
}  // namespace trireme::hybrid
