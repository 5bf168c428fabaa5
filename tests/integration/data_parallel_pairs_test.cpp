// Every option beside every other one, against one process: gradients and values are
// compared after each step, before anything is broadcast.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/sgd.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/comm_hook.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/dp/local_sgd.h"
#include "trireme/dp/optimizer_hook.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;

const std::vector<std::string> kFeatures = {
    "find_unused",
    "static_graph",
    "mixed_precision",
    "gradient_dtype",
    "OptimizerHook",
    "sparse",
    "join",
    "unused output",
    "no_sync",
    "weights",
    "hooks"};
enum class Feature : unsigned {
  FindUnused,
  StaticGraph,
  Mixed,
  GradientDtype,
  OptimizerInside,
  Sparse,
  Join,
  UnusedOutput,
  NoSync,
  Weights,
  Hooks
};

constexpr unsigned bit(Feature feature) {
  return 1U << static_cast<unsigned>(feature);
}

constexpr int kPairRanks = 2;
constexpr int kPairSteps = 4;

/// What one run has, and what follows from it.
struct Features {
  unsigned bits = 0;
  bool has(Feature feature) const { return (bits & bit(feature)) != 0; }
  std::string names() const {
    std::string all;
    for (size_t i = 0; i < kFeatures.size(); ++i)
      if ((bits >> i & 1) != 0)
        all += text(all.empty() ? "" : " + ", kFeatures[i]);
    return all;
  }
  /// PairRank 1 is out of inputs half way.
  bool is_active(int rank, int step) const {
    return !has(Feature::Join) || rank == 0 || step < kPairSteps / 2;
  }
  int64_t weight(int rank) const { return has(Feature::Weights) && rank == 0 ? 3 : 1; }
  /// All, one, none, the other: momentum would move what is stepped with zeros.
  bool uses_branch(int rank, int step, int part) const {
    if (has(Feature::StaticGraph))
      return rank == 0;
    if (!has(Feature::FindUnused))
      return true;
    return step == 0 || (step == 1 && rank == 0) ||
           (step == 3 && rank == 1 && part == 0);
  }
  bool uses_side(int step) const {
    return !has(Feature::UnusedOutput) || (!has(Feature::StaticGraph) && step % 2 == 0);
  }
  int parts() const { return has(Feature::NoSync) ? 2 : 1; }
};

/// Gradients are small whole numbers whatever the values are, so that sums are exact in
/// every dtype.
class Several : public torch::nn::Module {
 public:
  using Outputs = std::tuple<at::Tensor, at::Tensor>;
  Several(const Features& features, bool sparse)
      : trunk(register_parameter("trunk", whole_numbers({4}, 1, at::kFloat))),
        branch(register_parameter("branch", whole_numbers({4}, 2, at::kFloat))),
        side(register_parameter("side", whole_numbers({4}, 3, at::kFloat))) {
    if (features.has(Feature::FindUnused) || features.has(Feature::StaticGraph))
      register_parameter("never", whole_numbers({3}, 4, at::kFloat));
    rows = register_module(
        "rows", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 2).sparse(sparse)));
    rows->weight.data().copy_(whole_numbers({6, 2}, 5));
  }
  Outputs forward(const at::Tensor& x, const at::Tensor& ids, bool with_branch) {
    at::Tensor main = (trunk * x).sum();
    if (with_branch)
      main = main + (branch * x).sum() + rows(ids).sum();
    return {main, (side * x).sum()};
  }
  at::Tensor trunk, branch, side;
  torch::nn::Embedding rows{nullptr};
};

at::Tensor pair_input(int rank, int step, int part) {
  const auto seed = static_cast<uint64_t>(100 * step + 10 * part + rank + 7);
  return whole_numbers({4}, seed, at::kFloat);
}

at::Tensor pair_ids(int rank, int step, int part) {
  return at::tensor({rank + step, (step + part) % 6, 1}, at::kLong);
}

at::Tensor pair_loss(
    const Several::Outputs& outputs, const Features& features, int step) {
  const auto& [main, side] = outputs;
  return features.uses_side(step) ? main + side : main;
}

torch::optim::SGDOptions pair_sgd() {
  return torch::optim::SGDOptions(0.125).momentum(0.5);
}

/// One process that takes the samples of all ranks.
class PairWhole {
 public:
  explicit PairWhole(const Features& features)
      : features_(features),
        net(std::make_shared<Several>(features, false)),
        optimizer_(net->parameters(), pair_sgd()) {}

  int step() const { return step_; }
  /// The gradients of this step.
  void backward() const {
    int64_t weights = 0;
    for (int rank = 0; rank < kPairRanks; ++rank)
      weights += features_.is_active(rank, step_) ? features_.weight(rank) : 0;
    const auto by =
        static_cast<double>(features_.has(Feature::Weights) ? weights : kPairRanks);
    for (int rank = 0; rank < kPairRanks; ++rank)
      for (int part = 0; features_.is_active(rank, step_) && part < features_.parts();
           ++part) {
        const auto outputs = net->forward(
            pair_input(rank, step_, part),
            pair_ids(rank, step_, part),
            features_.uses_branch(rank, step_, part));
        const auto weight = static_cast<double>(features_.weight(rank));
        (pair_loss(outputs, features_, step_) * (weight / by)).backward();
      }
  }
  void end_step() {
    optimizer_.step();
    optimizer_.zero_grad();
    ++step_;
  }

 private:
  Features features_;

 public:
  std::shared_ptr<Several> net;

 private:
  torch::optim::SGD optimizer_;
  int step_ = 0;
};

void expect_pair_gradients(const Several& got, const Several& wanted) {
  const auto parameters = got.named_parameters();
  for (const auto& parameter : wanted.named_parameters()) {
    const at::Tensor mine = parameters[parameter.key()].grad();
    const at::Tensor& its = parameter.value().grad();
    ASSERT_EQ(mine.defined(), its.defined()) << parameter.key();
    if (!mine.defined())
      continue;
    EXPECT_EQ(mine.scalar_type(), at::kFloat) << parameter.key();
    EXPECT_TRUE(at::equal(mine.is_sparse() ? mine.to_dense() : mine, its))
        << parameter.key() << ": " << mine << " instead of " << its;
  }
}

void expect_pair_values(const Several& got, const Several& wanted) {
  const auto parameters = got.named_parameters();
  for (const auto& parameter : wanted.named_parameters())
    EXPECT_TRUE(at::equal(parameters[parameter.key()], parameter.value()))
        << parameter.key() << ": " << parameters[parameter.key()] << " instead of "
        << parameter.value();
}

/// One rank.
class PairRank {
 public:
  PairRank(const comm::Group& group, const Features& features, size_t bucket_bytes)
      : group_(group),
        features_(features),
        net_(std::make_shared<Several>(features, features.has(Feature::Sparse))),
        whole_(features),
        model_(net_, group, options(bucket_bytes)),
        optimizer_(net_->parameters(), pair_sgd()) {}

  void run();

 private:
  /// Looks at the values that a rank has when all are through, before the last
  /// broadcast.
  class Probe final : public Joinable {
   public:
    explicit Probe(PairRank& rank) : rank_(rank), replica_(rank.model_.replica()) {}
    void begin_join(const JoinOptions& options) override {
      replica_.begin_join(options);
    }
    bool shadow_step() override { return replica_.shadow_step(); }
    void all_joined() override {
      rank_.expect_end();
      replica_.all_joined();
    }
    void end_join() override { replica_.end_join(); }

   private:
    PairRank& rank_;
    Replica& replica_;
  };

  DataParallelOptions options(size_t bucket_bytes) const;
  void run_steps();
  void run_part(int step, int part);
  void expect_end();

  comm::Group group_;
  Features features_;
  std::shared_ptr<Several> net_;
  PairWhole whole_;
  DataParallel<std::shared_ptr<Several>> model_;
  torch::optim::SGD optimizer_;
};

DataParallelOptions PairRank::options(size_t bucket_bytes) const {
  DataParallelOptions options{
      .bucket_bytes = bucket_bytes,
      .find_unused = features_.has(Feature::FindUnused),
      .static_graph = features_.has(Feature::StaticGraph)};
  if (features_.has(Feature::Weights))
    options.reduction = Reduction::WeightedMean;
  if (features_.has(Feature::Mixed))
    options.mixed_precision.parameters = at::kBFloat16;
  if (features_.has(Feature::GradientDtype))
    options.gradient_dtype = at::kDouble;
  if (features_.has(Feature::Hooks)) {
    options.hooks.push_back(
        make_hook("twice", [](GradBucket& bucket, const auto& next) {
          bucket.buffer().mul_(2);
          next(bucket);
          bucket.buffer().div_(2);
        }));
    options.hooks.push_back(make_bf16_hook());
  }
  if (features_.has(Feature::OptimizerInside))
    options.hooks.push_back(
        make_optimizer_hook<torch::optim::SGD>(net_->parameters(), pair_sgd()));
  return options;
}

void PairRank::run_part(int step, int part) {
  const int rank = group_.rank();
  const at::Tensor x = pair_input(rank, step, part);
  const at::Tensor ids = pair_ids(rank, step, part);
  const bool branch = features_.uses_branch(rank, step, part);
  const auto outputs = model_(x, ids, branch);
  const auto wanted = whole_.net->forward(x, ids, branch);
  // bfloat16 has eight bits; values of an earlier step would be further off.
  EXPECT_NEAR(
      std::get<0>(outputs).item<double>(),
      std::get<0>(wanted).item<double>(),
      features_.has(Feature::Mixed) ? 0.3 : 1e-5);
  pair_loss(outputs, features_, step).backward();
}

void PairRank::run_steps() {
  for (int step = 0; step < kPairSteps; ++step) {
    if (!features_.is_active(group_.rank(), step))
      return;
    SCOPED_TRACE(text("step ", step, " of rank ", group_.rank()));
    if (features_.has(Feature::Weights))
      model_.set_weight(features_.weight(group_.rank()));
    if (features_.has(Feature::NoSync)) {
      const auto guard = model_.no_sync();
      run_part(step, 1);
    }
    run_part(step, 0);
    whole_.backward();
    if (!features_.has(Feature::OptimizerInside))
      expect_pair_gradients(*net_, *whole_.net);
    optimizer_.step();  // finds no gradients if the hook has stepped
    optimizer_.zero_grad();
    whole_.end_step();
    expect_pair_values(*net_, *whole_.net);
  }
}

void PairRank::expect_end() {
  // Without the hook, a rank that is out of inputs does not step.
  if (group_.rank() != 0 && !features_.has(Feature::OptimizerInside))
    return;
  while (whole_.step() < kPairSteps) {
    whole_.backward();
    whole_.end_step();
  }
  SCOPED_TRACE(text("rank ", group_.rank(), " at the end"));
  expect_pair_values(*net_, *whole_.net);
}

void PairRank::run() {
  if (!features_.has(Feature::Join)) {
    run_steps();
    return expect_end();
  }
  Probe probe(*this);
  join({&probe}, [this] { run_steps(); });
}

void runs_as_one(Backend backend, const Features& features) {
  for (const size_t bytes : {size_t{1}, size_t{1} << 20})
    run_world(backend, kPairRanks, [&](const comm::Group& group) {
      SCOPED_TRACE(text(features.names(), ", buckets of ", bytes));
      PairRank(group, features, bytes).run();
    });
}

TEST(DataParallelPairsRanks, EachOptionByItself) {
  runs_as_one(Backend::Local, {});
  for (size_t a = 0; a < kFeatures.size(); ++a)
    runs_as_one(Backend::Local, {1U << a});
}

TEST(DataParallelPairsRanks, EveryPair) {
  for (size_t a = 0; a < kFeatures.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      runs_as_one(Backend::Local, {1U << a | 1U << b});
}

TEST(DataParallelPairsRanks, EveryThree) {
  for (size_t a = 0; a < kFeatures.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      for (size_t c = 0; c < b; ++c)
        runs_as_one(Backend::Local, {1U << a | 1U << b | 1U << c});
}

TEST(DataParallelPairsProcs, AllAtOnce) {
  const unsigned all = (1U << kFeatures.size()) - 1;
  runs_as_one(Backend::Shm, {all});
  runs_as_one(Backend::Shm, {all & ~bit(Feature::StaticGraph)});
  runs_as_one(Backend::Shm, {all & ~bit(Feature::FindUnused)});
}

// What cannot be right together says so by name.
TEST(DataParallelPairsRanks, WhatIsRefused) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    const auto refuses = [&](const DataParallelOptions& options, const char* part) {
      const std::string message = message_of<InvalidArgument>([&] {
        DataParallel(std::make_shared<Several>(Features{}, false), group, options);
      });
      EXPECT_TRUE(contains(message, part)) << message;
    };
    DataParallelOptions two;
    two.gradient_dtype = at::kDouble;
    two.mixed_precision.reduction = at::kFloat;
    refuses(two, "gradient_dtype Double and mixed_precision.reduction Float");
    DataParallelOptions rounded;
    rounded.unrounded = true;
    refuses(rounded, "gradient_dtype for unrounded");
    DataParallelOptions whole_number;
    whole_number.gradient_dtype = at::kLong;
    refuses(whole_number, "got Long");
    DataParallelOptions staged;
    staged.stage_hooks = [](int) { return CommHooks(); };
    refuses(staged, "stage_hooks");
    DataParallelOptions stored;
    stored.store = &autograd::grad_field();
    refuses(stored, "store");
    DataParallelOptions never;
    never.check_replicas_every = -1;
    refuses(never, "check_replicas_every");
  });
  // Local SGD is about means over all ranks.
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallelOptions options;
    options.reduction = Reduction::WeightedMean;
    options.hooks = {make_post_local_sgd_hook({})};
    DataParallel model(std::make_shared<Several>(Features{}, false), group, options);
    const auto [main, side] = model(pair_input(0, 0, 0), pair_ids(0, 0, 0), true);
    EXPECT_TRUE(contains(
        message_of<Error>([&, m = main, s = side] { (m + s).backward(); }),
        "mean over all ranks for local SGD"));
  });
}

}  // namespace
}  // namespace trireme::dp
