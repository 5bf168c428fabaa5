// Keeps the small gradients of float16 from vanishing.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"

namespace trireme::dp {

struct LossScalerOptions {
  double initial = 65536;
  /// After so many good steps in a row the scale grows.
  int64_t growth_interval = 2000;
  double growth = 2;
  /// What the scale is multiplied with when a gradient has overflowed.
  double backoff = 0.5;
};

/// Multiplies losses, divides gradients, and skips steps whose gradients have
/// overflowed: on all ranks or on none. Ranks that have reduced their gradients agree
/// without a word; along other axes of a mesh, where ranks have other parameters, give
/// their groups.
///
///     scaler.scale(loss).backward();
///     scaler.step(parameters, [&] { optimizer.step(); }, {mesh["pp"]});
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  at::Tensor scale(const at::Tensor& loss) const;
  double value() const { return scale_; }

  /// Divides the gradients by the scale, once a step; true if all are finite, on all
  /// ranks of all groups. InvalidArgument on all of them if a gradient is in float16,
  /// which would lose what the scale has saved. Collective over the groups.
  bool unscale(
      const std::vector<at::Tensor>& parameters,
      const std::vector<comm::Group>& groups = {});
  /// unscale() unless it was called, then `optimizer` if all gradients are finite, then
  /// the next scale. True if the step was made.
  bool step(
      const std::vector<at::Tensor>& parameters,
      const std::function<void()>& optimizer,
      const std::vector<comm::Group>& groups = {});

  /// To go on where another run has stopped.
  struct State {
    double scale = 0;
    int64_t good_steps = 0;
  };
  State state() const { return {scale_, good_steps_}; }
  void load(const State& state);

 private:
  LossScalerOptions options_;
  double scale_;
  int64_t good_steps_ = 0;
  bool unscaled_ = false;
  bool finite_ = true;
};

}  // namespace trireme::dp
