// Two trainers learn which items users click on. The table of users and items is on two
// servers, the layers above it are on each trainer, under data parallelism: one
// backward goes through both. Afterwards the same is trained in one process, and
// compared.
//
//   $ build/release/examples/example_hybrid_recommender
//   loss 0.69… at first, 0.03… in the end
//   one process: the same losses
//   all ranks ended with code 0
#include <iostream>

#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/dist_autograd/sharded_embedding.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/launch/launcher.h"

namespace {

using namespace trireme;
namespace nn = torch::nn;

constexpr int kTrainers = 2, kServers = 2, kSteps = 100, kBatch = 64;
constexpr int64_t kUsers = 60, kItems = 40, kDim = 8;
constexpr double kRate = 1;

// Pairs of a user and an item, which stands behind all users; and 1 for each click.
std::pair<at::Tensor, at::Tensor> clicks(int step, int trainer) {
  at::manual_seed(static_cast<uint64_t>(step * kTrainers + trainer));
  const at::Tensor user = at::randint(kUsers, {kBatch, 1}, at::kLong);
  const at::Tensor item = at::randint(kItems, {kBatch, 1}, at::kLong);
  const at::Tensor clicked = (user % 5 + item % 5).gt(4).to(at::kFloat);
  return {at::cat({user, item + kUsers}, 1), clicked};
}

nn::Sequential make_net() {
  at::manual_seed(1);
  return nn::Sequential(nn::Linear(2 * kDim, 16), nn::ReLU(), nn::Linear(16, 1));
}

// As trainers and servers: the losses of all trainers together.
at::Tensor train(
    const rpc::Agent& agent, const comm::Group& trainers, at::Tensor& first_rows) {
  dist_autograd::ShardedEmbedding table(
      agent,
      {"worker2", "worker3"},
      {.rows = kUsers + kItems, .dim = kDim, .deviation = 0.5});
  first_rows = table.read("weight", 0, kUsers + kItems);
  dp::DataParallel net(make_net(), trainers);  // its ranks meet, so all have read
  at::Tensor losses = at::zeros({kSteps});
  for (int step = 0; step < kSteps; ++step) {
    const auto [ids, clicked] = clicks(step, trainers.rank());
    const dist_autograd::Context context(agent);
    const at::Tensor loss = at::binary_cross_entropy_with_logits(
        net.forward(table.lookup(ids).flatten(1)), clicked);
    table.prefetch(clicks(step + 1, trainers.rank()).first);
    context.backward({loss});
    table.step(context, {.lr = kRate, .trainers = kTrainers});
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : net->parameters())
      weight.sub_(context.gradient(weight), kRate);
    losses[step] = loss;
  }
  comm::all_reduce(trainers, losses, {.op = comm::ReduceOp::Mean});
  return losses;
}

// In this process alone, on the batches of all trainers.
at::Tensor train_here(at::Tensor rows) {
  nn::Sequential net = make_net();
  std::vector<at::Tensor> weights = net->parameters();
  weights.push_back(rows.set_requires_grad(true));
  at::Tensor losses = at::zeros({kSteps});
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor loss = at::zeros({});
    for (int trainer = 0; trainer < kTrainers; ++trainer) {
      const auto [ids, clicked] = clicks(step, trainer);
      loss = loss + at::binary_cross_entropy_with_logits(
                        net->forward(at::embedding(rows, ids).flatten(1)), clicked) /
                        kTrainers;
    }
    loss.backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : weights)
      weight.sub_(std::exchange(weight.mutable_grad(), {}), kRate);
    losses[step] = loss;
  }
  return losses;
}

int work(int rank) {
  const comm::Group trainers = comm::init().split(rank < kTrainers ? 0 : -1);
  rpc::Agent agent(
      dist_autograd::with_gradients({.name = "worker" + std::to_string(rank)}));
  if (rank < kTrainers) {
    at::Tensor rows;
    const at::Tensor losses = train(agent, trainers, rows);
    const double first = losses[0].item<double>(), last = losses[-1].item<double>();
    TORCH_CHECK(last < first / 5, "the loss did not fall");
    TORCH_CHECK(at::allclose(losses, train_here(rows), 1e-3, 1e-3), "other losses");
    if (rank == 0)
      std::cout << "loss " << first << " at first, " << last << " in the end\n"
                << "one process: the same losses" << std::endl;
  }
  agent.shutdown({.leaks = rpc::Leaks::Refuse});
  return 0;
}

}  // namespace

int main() {
  const auto outcome = launch::spawn({.ranks = kTrainers + kServers}, work);
  std::cout << "all ranks ended with code " << outcome.exit_code << std::endl;
  return outcome.exit_code;
}
