// The learning rate of each step.
#pragma once
#include <cstdint>

#include "trireme/train/config.h"

namespace trireme::train {

/// What a step's learning rate is, of the highest one: 1/w, 2/w, … 1 in the first w =
/// warmup_steps; then 1; then down to min_lr_factor over the last decay_ratio of all
/// `steps` (as torchtitan counts it), but not before the warm-up ends. It stays there
/// in steps beyond. `step` counts from 0.
double lr_factor(const LrSchedulerConfig& config, int64_t step, int64_t steps);

/// Over how many steps the rate rises and falls: lr_scheduler.total_steps, or
/// training.steps.
int64_t schedule_steps(const Config& config);

/// The learning rate of a step, which counts from 0.
double learning_rate(const Config& config, int64_t step);

}  // namespace trireme::train
