// A model that is trained by data parallelism on two ranks with unequal shares of the
// data. Here the ranks are threads; with comm::init() in place of run_local() they
// would be processes.
//
//   $ build/release/examples/example_data_parallel
//   step 0: loss 0.38…
//   …
//   step 4: loss 0.26…
//   5 reductions of 161 numbers
#include "trireme/dp/data_parallel.h"

#include <exception>
#include <iostream>

#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"

using namespace trireme;
namespace nn = torch::nn;

namespace {

constexpr int64_t kFeatures = 8;
constexpr int kMicrobatches = 2;

// What is to be learned: the sine of the sum of the features.
at::Tensor target_of(const at::Tensor& x) {
  return at::sin(x.sum(1, /*keepdim=*/true));
}

void train(const comm::Group& world) {
  // The first values are those of rank 0, whatever the others drew. The ranks have
  // unequal numbers of rows, so each counts by what it has.
  dp::DataParallel model(
      nn::Sequential(nn::Linear(kFeatures, 16), nn::Tanh(), nn::Linear(16, 1)),
      world,
      {.reduction = dp::Reduction::WeightedMean});
  torch::optim::SGD optimizer(model->parameters(), 0.2);

  const int64_t rows = world.rank() == 0 ? 48 : 16;
  const at::Tensor inputs = at::randn({rows, kFeatures}) * 0.3;
  model.set_weight(rows);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    at::Tensor sum = at::zeros({1});
    const auto parts = inputs.chunk(kMicrobatches);
    for (int part = 0; part < kMicrobatches; ++part) {
      const auto backward = [&] {
        const at::Tensor& x = parts[static_cast<size_t>(part)];
        const at::Tensor loss = (model.forward(x) - target_of(x)).square().sum() / rows;
        loss.backward();
        sum += loss.detach() * rows;
      };
      if (part + 1 < kMicrobatches) {
        const auto guard = model.no_sync();  // gradients add up on this rank
        backward();
      } else {
        backward();  // returns with gradients that are reduced over all ranks
      }
    }
    optimizer.step();

    at::Tensor total = at::cat({sum, at::full({1}, static_cast<double>(rows))});
    comm::all_reduce(world, total);
    if (world.rank() == 0)
      std::cout << "step " << step << ": loss " << (total[0] / total[1]).item<float>()
                << "\n";
  }
  // The same values everywhere, or an error that says which differ.
  model.replica().check_replicas();
  if (world.rank() == 0) {
    int64_t numbers = 0;
    for (const at::Tensor& parameter : model->parameters())
      numbers += parameter.numel();
    std::cout << model.replica().reducer().rounds() << " reductions of " << numbers
              << " numbers\n";
  }
}

}  // namespace

int main() try {
  comm::run_local(2, train);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
