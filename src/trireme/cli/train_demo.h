// What `trireme train` does until the trainer is there: a small network, trained by
// ranks that share the work, on nothing but the comm layer.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace CLI {
class App;
}

namespace trireme::cli {

/// The whole data set, which is also the batch: inputs [256, 8] and targets [256, 1].
struct DemoData {
  at::Tensor inputs;
  at::Tensor targets;
};

/// A fixed regression. It draws from a generator of its own, because ranks that are
/// threads share torch's.
DemoData demo_data();

/// The weights of a network 8-32-1, as leaves that want gradients; each seed gives
/// others.
std::vector<at::Tensor> demo_parameters(uint64_t seed);

/// The mean squared error of the network on these samples.
at::Tensor demo_loss(const std::vector<at::Tensor>& parameters, const DemoData& data);

struct TrainDemoOptions {
  /// Threads; each takes an equal part of the batch, so they must divide 256.
  int ranks = 2;
  int steps = 60;
  double learning_rate = 0.02;
  /// Called on rank 0 with the loss over the whole batch before each step, and with
  /// that at the end.
  std::function<void(int step, double loss)> on_step;
};

struct TrainDemoResult {
  double first_loss = 0;
  double last_loss = 0;
  /// Of rank 0; the others have the same.
  std::vector<at::Tensor> parameters;
};

/// Trains with data parallelism: one broadcast at the start, then each step the mean of
/// all ranks' gradients. Gives the same as one rank, but for rounding.
TrainDemoResult train_demo(const TrainDemoOptions& options = {});

/// Adds the command `train`.
void add_train(CLI::App& app, int& exit_code);

}  // namespace trireme::cli
