// AdamW and SGD in one pass over the memory, with states that have names.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/train/config.h"

namespace trireme::train {

/// Tensors with names; the same as pipe's and ckpt's.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What an optimizer keeps of each parameter beside a master and the count of steps:
/// "exp_avg", "exp_avg_sq"; "momentum"; or nothing.
std::vector<std::string> state_kinds(const OptimizerConfig& config);

/// Steps parameters by their `.grad`. Parameters of less precision than float32 get a
/// float32 master, which is what is stepped; the parameter is its rounded copy.
///
///     Optimizer optimizer(pipeline.parameters(), config.optimizer);
///     optimizer.step(rate);
///     optimizer.zero_grad();
class Optimizer {
 public:
  /// Each parameter once. InvalidArgument if one is not a floating CPU tensor.
  Optimizer(NamedTensors parameters, const OptimizerConfig& config);

  /// One step with this learning rate, by gradients times a factor (for clipping: that
  /// saves a pass over them); a parameter without a gradient stays as it is.
  void step(double rate, double factor = 1);
  /// Drops the gradients. The next pass brings new ones, which costs less than to add
  /// to zeros.
  void zero_grad();
  /// After the parameters were loaded: the masters are made of them again.
  void refresh_masters();

  /// The states by name: "exp_avg.<parameter>" and so on, and the count of steps as
  /// "step.<parameter>". They are what step() uses, so they can be written to.
  NamedTensors state() const;
  const NamedTensors& parameters() const { return parameters_; }

 private:
  struct Lists;
  /// What the kernels divide gradients by; none: 1.
  using ScaleTensor = std::optional<at::Tensor>;
  void step_adamw(Lists& lists, double rate, const ScaleTensor& scale);
  void step_sgd(Lists& lists, double rate, const ScaleTensor& scale);
  Lists with_gradients() const;

  NamedTensors parameters_;
  OptimizerConfig config_;
  /// What is stepped: the parameters themselves, or their masters.
  std::vector<at::Tensor> masters_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  std::vector<at::Tensor> steps_;
};

}  // namespace trireme::train
