// Two trainers and a server: the server has a table of embeddings, the trainers a model
// above it, which data parallelism keeps equal. One backward goes through both.
//
//   $ build/release/examples/example_dist_autograd
//   step 0: loss 0.51…
//   …
//   step 60: loss 0.00…
//   all ranks ended with code 0
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>

#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "trireme/comm/init.h"
#include "trireme/dist_autograd/context.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/launch/launcher.h"
#include "trireme/rpc/agent.h"

namespace {

using namespace trireme;
namespace nn = torch::nn;

constexpr int kTrainers = 2, kSteps = 61;
constexpr int64_t kItems = 16, kWidth = 4;
constexpr double kRate = 0.2;

// What the server has. Calls come from several threads, so it has a lock.
class Table {
 public:
  at::Tensor look_up(const at::Tensor& items) {
    const std::lock_guard lock(mutex_);
    return at::embedding(rows_, items);
  }
  // A step with the gradient that the caller's backward has left here.
  void step() {
    const at::Tensor gradient = dist_autograd::this_context().gradient(rows_);
    const std::lock_guard lock(mutex_);
    const at::NoGradGuard no_grad;
    rows_ -= kRate * gradient;
  }

 private:
  std::mutex mutex_;
  at::Tensor rows_ = at::randn({kItems, kWidth}).set_requires_grad(true);
};

void train(const rpc::Agent& agent, const comm::Group& trainers) {
  const rpc::Caller server = agent.to("server");
  dp::DataParallel model(
      nn::Sequential(nn::Linear(kWidth, 16), nn::Tanh(), nn::Linear(16, 1)), trainers);
  // Every trainer has items of its own to learn: their scores are a sine.
  const at::Tensor items = at::arange(trainers.rank(), kItems, trainers.size());
  const at::Tensor scores = at::sin(items.to(at::kFloat)).unsqueeze(1);
  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const dist_autograd::Context context(agent);  // calls from here on are in it
    const auto rows = server.call<at::Tensor>("look_up", items);
    const at::Tensor loss = (model.forward(rows) - scores).square().mean();
    context.backward({loss});
    server.call<void>("step");
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : model->parameters())
        parameter -= kRate * context.gradient(parameter);  // the trainers' mean
    }
    last = loss.item<double>();
    if (step == 0)
      first = last;
    if (trainers.rank() == 0 && step % 20 == 0)
      std::cout << "step " << step << ": loss " << last << std::endl;
  }
  if (!(last < first / 4))
    throw Error("[example] the loss did not fall");
  model.replica().check_replicas();
}

int work(int rank) {
  const comm::Group world = comm::init();
  const bool trains = rank < kTrainers;
  const comm::Group trainers = world.split(trains ? 0 : -1);
  at::manual_seed(rank);

  rpc::FunctionTable functions;
  const auto table = std::make_shared<Table>();
  functions.add(
      "look_up", [table](const at::Tensor& items) { return table->look_up(items); });
  functions.add("step", [table] { table->step(); });
  rpc::Agent agent(dist_autograd::with_gradients(
      {.name = trains ? "trainer" + std::to_string(rank) : "server",
       .functions = functions}));
  if (trains)
    train(agent, trainers);
  agent.shutdown();
  return 0;
}

}  // namespace

int main() try {
  const auto outcome = launch::spawn({.ranks = kTrainers + 1}, work);
  std::cout << "all ranks ended with code " << outcome.exit_code << std::endl;
  return outcome.exit_code;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
