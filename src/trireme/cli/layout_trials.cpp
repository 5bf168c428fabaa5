#include "trireme/cli/layout_trials.h"

#include <chrono>
#include <csignal>

#include "trireme/cli/torch_ranks.h"
#include "trireme/core/shared_value.h"
#include "trireme/launch/job.h"
#include "trireme/train/layout_trial.h"

namespace trireme::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// On ranks of its own, which are gone afterwards. A wish to stop that reaches them goes
// to `stopped`, as an exit code.
std::optional<train::LayoutTrial> try_apart(
    const TrainPlan& plan, const train::LayoutCandidate& layout, int& stopped) {
  if (stopped != 0)
    return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  const SharedValue<double> took;  // ranks are forks
  const int code = fork_ranks(layout.degrees.ranks(), [&](const comm::Group& world) {
    const double seconds =
        train::time_layout(world, plan.config, plan.model, layout.degrees);
    if (world.rank() == 0)
      *took = seconds;
    return 0;
  });
  // Killed for want of memory, a rank ends by a signal too: that layout is out, not the
  // job.
  if (code == launch::kResumable || code == 128 + SIGINT || code == 128 + SIGTERM ||
      code == 128 + SIGUSR1)
    stopped = code;
  if (code != 0)
    return std::nullopt;
  return train::LayoutTrial{.step_s = *took, .took_s = seconds_since(start)};
}

}  // namespace

LayoutTrials try_layouts(const TrainPlan& plan) {
  LayoutTrials trials;
  trials.choice = train::choose_layout(
      plan.layouts, plan.config.training.steps, [&](const auto& layout) {
        return try_apart(plan, layout, trials.stopped);
      });
  return trials;
}

train::LayoutChoice try_layouts(const TrainPlan& plan, const comm::Group& world) {
  // All ranks must stop trying at the same point: what a trial takes is counted by the
  // step, which is the same on all.
  constexpr double kStepsOfTrial = 8;
  return train::choose_layout(
      plan.layouts, plan.config.training.steps, [&](const auto& layout) {
        const double step =
            train::time_layout(world, plan.config, plan.model, layout.degrees);
        return std::optional(
            train::LayoutTrial{.step_s = step, .took_s = kStepsOfTrial * step});
      });
}

}  // namespace trireme::cli
