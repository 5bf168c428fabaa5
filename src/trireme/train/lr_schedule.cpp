#include "trireme/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::train {

int64_t schedule_steps(const Config& config) {
  return config.lr_scheduler.total_steps > 0 ? config.lr_scheduler.total_steps
                                             : config.training.steps;
}

double learning_rate(const Config& config, int64_t step) {
  return config.optimizer.lr *
         lr_factor(config.lr_scheduler, step, schedule_steps(config));
}

double lr_factor(const LrSchedulerConfig& config, int64_t step, int64_t steps) {
  if (step < config.warmup_steps)
    return static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  const double after = static_cast<double>(steps - config.warmup_steps);
  const double falling =
      std::min(after, std::round(static_cast<double>(steps) * config.decay_ratio));
  const double begin = static_cast<double>(steps) - falling;
  const double into = static_cast<double>(step) - begin;
  if (config.decay_type == "constant" || falling <= 0 || into <= 0)
    return 1;
  const double part = std::min(1.0, into / falling);
  const double left = config.decay_type == "linear"
                          ? 1 - part
                          : (1 + std::cos(std::numbers::pi * part)) / 2;
  return config.min_lr_factor + (1 - config.min_lr_factor) * left;
}

}  // namespace trireme::train
