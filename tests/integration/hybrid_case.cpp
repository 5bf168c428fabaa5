#include "hybrid_case.h"

#include <optional>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include "../net/certificate_files.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/dist_autograd/contexts.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/net/job_key.h"

namespace trireme::hybrid {
namespace {

at::Tensor ones_but_one(int64_t in, int64_t out) {
  at::Tensor weight = at::ones({out, in});
  weight[0][0] = -1;
  return weight.set_requires_grad(true);
}

torch::nn::Linear plain_linear(const at::Tensor& weight) {
  torch::nn::Linear linear(
      torch::nn::LinearOptions(weight.size(1), weight.size(0)).bias(false));
  const at::NoGradGuard no_grad;
  linear->weight.copy_(weight);
  return linear;
}

at::Tensor loss_of(const at::Tensor& outputs, const FeatureSet& batch) {
  return (outputs * batch.values).sum();  // every output meets every value
}

}  // namespace

std::string to_string(Wrap wrap) {
  return wrap == Wrap::None ? "None" : wrap == Wrap::Inside ? "Inside" : "Outside";
}

FeatureSet twin_batch(int trainer) {
  std::vector<float> dense, values;
  std::vector<int64_t> sparse;
  for (const int value : {-1, 1})
    for (const int x : {-value, value})
      for (const int y : {value, -value})
        for (const int64_t z : {0, 1}) {
          dense.insert(dense.end(), {static_cast<float>(x), static_cast<float>(y)});
          sparse.push_back(z);
          values.push_back(static_cast<float>(value));
        }
  const FeatureSet all{
      .dense = at::tensor(dense).view({16, 2}),
      .sparse = at::tensor(sparse),
      .values = at::tensor(values)};
  FeatureSet mine = rows(all, 4 * trainer, 4);
  mine.values = mine.values.narrow(0, 4 * trainer, 4).clone();
  return mine;
}

FeatureSet lopsided_batch(int trainer) {
  return {
      .dense = at::arange(8, at::kFloat).view({4, 2}) - 2 * trainer,
      .sparse = at::tensor({0, 1, trainer % 2, 1}, at::kLong),
      .values = at::arange(4, at::kFloat) + trainer};
}

FeatureSet rows(const FeatureSet& batch, int64_t first, int64_t count) {
  return {
      .dense = batch.dense.narrow(0, first, count).clone(),
      .sparse = batch.sparse.narrow(0, first, count).clone(),
      .values = batch.values};
}

Weights first_weights() {
  return {
      .fc1 = ones_but_one(2, 2),
      .fc2 = ones_but_one(3, 1),
      .net = ones_but_one(5, 3),
      .em = at::full({2, 3}, 0.5).set_requires_grad(true)};
}

RemotePart::RemotePart(at::Tensor weight, Run run)
    : weight_(std::move(weight)), run_(std::move(run)) {}

at::Tensor RemotePart::gradient() const {
  return dist_autograd::this_context().gradient(weight_);
}

void RemotePart::step(double rate) {
  const at::Tensor change = gradient();
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  weight_.sub_(change, rate);
}

at::Tensor RemotePart::weight() const {
  const std::lock_guard lock(mutex_);
  return weight_.detach().clone();
}

at::Tensor run_em(const at::Tensor& weight, const at::Tensor& indices) {
  constexpr int64_t kMean = 1;
  const at::Tensor offsets = at::arange(indices.size(0));
  return std::get<0>(
      at::embedding_bag(weight, indices, offsets, false, kMean, false, {}, false));
}

at::Tensor run_net(const at::Tensor& weight, const at::Tensor& x) {
  return at::relu(at::linear(x, weight));
}

/// What a trainer has.
class HybridModel : public torch::nn::Module {
 public:
  HybridModel(Trainer::Part em, Trainer::Part net, std::function<void()> in_backward)
      : em_(std::move(em)), net_(std::move(net)), in_backward_(std::move(in_backward)) {
    const Weights first = first_weights();
    fc1 = register_module("fc1", plain_linear(first.fc1));
    fc2 = register_module("fc2", plain_linear(first.fc2));
  }

  at::Tensor forward(const FeatureSet& batch) {
    const at::Tensor sparse = em_.call(&RemotePart::forward, batch.sparse);
    at::Tensor x = at::cat({fc1->forward(batch.dense), sparse}, 1);
    if (in_backward_)
      x.register_hook([f = in_backward_](const at::Tensor& gradient) {
        f();
        return gradient;
      });
    x = net_.call(&RemotePart::forward, x);
    return inside ? inside->forward(x) : fc2->forward(x);
  }

  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  std::optional<dp::DataParallel<torch::nn::Linear>> inside;
  std::optional<dp::Replica> outside;

 private:
  Trainer::Part em_, net_;
  std::function<void()> in_backward_;
};

Trainer::Trainer(Home home, Wrap wrap, Part em, Part net)
    : home_(std::move(home)),
      em_(em),
      net_(net),
      model_(std::make_shared<HybridModel>(
          std::move(em), std::move(net), home_.in_backward)) {
  if (wrap == Wrap::Inside)
    model_->inside.emplace(model_->fc2, home_.group);
  // A bucket each: that of fc2 leaves while the server works.
  if (wrap == Wrap::Outside)
    model_->outside.emplace(
        *model_, home_.group, dp::DataParallelOptions{.bucket_bytes = 1});
}

Trainer::~Trainer() = default;

StepResult Trainer::run(const FeatureSet& batch, bool exact, double rate) {
  using dist_autograd::Mode;
  const dist_autograd::Context context(rpc::this_agent());
  at::Tensor outputs;
  if (model_->outside) {
    const auto low = model_->outside->before_forward();
    outputs = model_->outside->watch(model_->forward(batch));
  } else {
    outputs = model_->forward(batch);
  }
  const at::Tensor loss = loss_of(outputs, batch);
  context.backward({loss}, {.mode = exact ? Mode::Exact : Mode::Fast});
  StepResult result{
      .outputs = outputs.detach(),
      .loss = loss.detach(),
      .fc1 = context.gradient(model_->fc1->weight),
      .fc2 = context.gradient(model_->fc2->weight),
      .net = net_.call(&RemotePart::gradient),
      .em = em_.call(&RemotePart::gradient)};
  EXPECT_FALSE(model_->fc1->weight.grad().defined());
  EXPECT_FALSE(model_->fc2->weight.grad().defined());
  if (rate != 0)
    step(result, rate);
  return result;
}

StepResult Trainer::train(const FeatureSet& batch, bool exact, double rate) {
  return run(batch, exact, rate);
}

void Trainer::step(const StepResult& gradients, double rate) {
  comm::barrier(home_.group);  // no forward sees a weight that has changed already
  net_.call(&RemotePart::step, rate);
  em_.call(&RemotePart::step, rate);
  const at::NoGradGuard no_grad;  // no call goes with the context here
  model_->fc1->weight.sub_(gradients.fc1, rate);
  model_->fc2->weight.sub_(gradients.fc2, rate);
}

std::vector<StepResult> Trainer::train_uneven(
    const FeatureSet& batch, int64_t microbatches, bool exact) {
  std::vector<StepResult> results;
  dp::join({&*model_->outside}, [&] {
    for (int64_t i = 0; i < microbatches; ++i)
      results.push_back(run(rows(batch, 2 * i, 2), exact, 0));
  });
  return results;
}

std::vector<at::Tensor> Trainer::weights() const {
  return {model_->fc1->weight.detach().clone(), model_->fc2->weight.detach().clone()};
}

StepResult one_process(const Weights& weights, const FeatureSet& batch) {
  const at::Tensor x = at::cat(
      {at::linear(batch.dense, weights.fc1), run_em(weights.em, batch.sparse)}, 1);
  const at::Tensor outputs = at::linear(run_net(weights.net, x), weights.fc2);
  const at::Tensor loss = loss_of(outputs, batch);
  const auto gradients = torch::autograd::grad(
      {loss}, {weights.fc1, weights.fc2, weights.net, weights.em});
  return {
      .outputs = outputs.detach(),
      .loss = loss.detach(),
      .fc1 = gradients[0],
      .fc2 = gradients[1],
      .net = gradients[2],
      .em = gradients[3]};
}

testing::RpcWorldOptions world_with_group(
    testing::RpcKind kind,
    int first,
    int count,
    const std::function<void(rpc::AgentOptions&, const comm::Group&)>& edit) {
  const auto threads = std::make_shared<comm::LocalWorld>(count);
  const std::string job = testing::fresh_job_name();
  return {.functions = {}, .edit = [=](rpc::AgentOptions& options) {
            const int rank = *options.rank - first;
            comm::Group group;
            if (rank >= 0 && rank < count)
              group = kind == testing::RpcKind::Processes
                          ? testing::join_job(job, rank, count)
                          : comm::Group(
                                threads->join(rank, Deadline::after(options.timeout)),
                                {.timeout = options.timeout});
            edit(options, group);
            options = dist_autograd::with_gradients(options);
          }};
}

std::string to_string(Way way) {
  return way == Way::Unix ? "Unix" : way == Way::JobKey ? "JobKey" : "Certificates";
}

namespace {

/// By rank, how each worker protects its connections.
std::vector<net::Security> securities(Way way, net::TestAuthority* authority) {
  std::vector<net::Security> all;
  const net::JobKey key = net::JobKey::random();
  for (int rank = 0; rank < kWorkers; ++rank)
    all.push_back(
        way == Way::Unix     ? net::Security::insecure_loopback()
        : way == Way::JobKey ? net::Security::job_key(key)
                             : authority->worker("worker" + std::to_string(rank)));
  return all;
}

void add_functions(rpc::FunctionTable& functions, const Home& home) {
  const Weights first = first_weights();
  functions
      .add(
          "make_em",
          [weight = first.em] { return std::make_shared<RemotePart>(weight, run_em); })
      .add(
          "make_net",
          [weight = first.net, home] {
            return std::make_shared<RemotePart>(
                weight, [home](const at::Tensor& w, const at::Tensor& x) {
                  at::Tensor y = run_net(w, x);
                  if (home.in_backward)
                    y.register_hook([home](const at::Tensor& gradient) {
                      home.in_backward();
                      return gradient;
                    });
                  return y;
                });
          })
      .add(
          "make_trainer",
          [home](Wrap wrap, const Trainer::Part& em, const Trainer::Part& net) {
            return std::make_shared<Trainer>(home, wrap, em, net);
          })
      .add(
          "contexts",
          [] {
            return static_cast<int64_t>(
                dist_autograd::contexts_of(rpc::this_agent())->size());
          })
      .method("RemotePart.forward", &RemotePart::forward)
      .method("RemotePart.gradient", &RemotePart::gradient)
      .method("RemotePart.step", &RemotePart::step)
      .method("RemotePart.weight", &RemotePart::weight)
      .method("Trainer.train", &Trainer::train)
      .method("Trainer.train_uneven", &Trainer::train_uneven)
      .method("Trainer.weights", &Trainer::weights);
}

}  // namespace

testing::RpcWorldOptions hybrid_world(
    testing::RpcKind kind,
    Way way,
    const std::function<void(int rank, Home&)>& edit_home) {
  const auto authority =
      way == Way::Certificates ? std::make_shared<net::TestAuthority>() : nullptr;
  const auto security =
      std::make_shared<std::vector<net::Security>>(securities(way, authority.get()));
  return world_with_group(
      kind, 0, kTrainers, [=](rpc::AgentOptions& options, const comm::Group& group) {
        Home home{.group = group, .in_backward = {}};
        if (edit_home)
          edit_home(*options.rank, home);
        add_functions(options.functions, home);
        options.transport->unix_sockets = way == Way::Unix;
        options.transport->security = security->at(static_cast<size_t>(*options.rank));
        (void)authority;  // its files are read as long as workers meet
      });
}

Parts::Parts(const rpc::Agent& agent, Wrap wrap)
    : em(agent.to(kServer).remote<std::shared_ptr<RemotePart>>("make_em")),
      net(agent.to(kServer).remote<std::shared_ptr<RemotePart>>("make_net")) {
  for (int trainer = 0; trainer < kTrainers; ++trainer)
    trainers.push_back(agent.to(trainer).remote<std::shared_ptr<Trainer>>(
        "make_trainer", wrap, em, net));
}

bool no_contexts_left(const rpc::Agent& agent, const std::vector<int>& workers) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  for (const int worker : workers)
    while (agent.to(worker).call<int64_t>("contexts") != 0) {
      if (deadline.expired())
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  return true;
}

}  // namespace trireme::hybrid
