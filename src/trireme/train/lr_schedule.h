// The learning rate of each step.
#pragma once
#include <cstdint>

#include "trireme/train/config.h"

namespace trireme::train {

/// What a step's learning rate is, of the highest one: 1/w, 2/w, … 1 in the first w =
/// warmup_steps; then 1; then down to min_lr_factor over the last decay_ratio of what
/// follows the warm-up. `step` counts from 0.
///
///     rate = config.optimizer.lr * lr_factor(config.lr_scheduler, step, steps);
double lr_factor(const LrSchedulerConfig& config, int64_t step, int64_t steps);

}  // namespace trireme::train
