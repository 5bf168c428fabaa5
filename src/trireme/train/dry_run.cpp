#include "trireme/train/dry_run.h"

#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"
#include "trireme/core/number_text.h"
#include "trireme/sched/index.h"
#include "trireme/train/estimate.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

std::string tenths(double value) {
  return text(std::round(value * 10) / 10);
}

std::string memory_line(const MemoryEstimate& memory) {
  const auto show = [](double bytes) { return bytes_text(std::llround(bytes)); };
  return text(
      show(memory.total()),
      " (weights ",
      show(memory.weights),
      ", gradients ",
      show(memory.gradients),
      ", optimizer ",
      show(memory.optimizer),
      ", activations ",
      show(memory.activations),
      ")");
}

}  // namespace

std::string dry_run(
    const Config& config, const model::ModelPlan& plan, const Degrees& degrees) {
  const BatchShape batch = choose_batch(config, degrees);
  const auto costs = estimate_layers(plan, config, batch);
  const Layout layout = first_layout(config, degrees, batch, costs);
  const auto memory = estimate_memory(layout, costs, config);
  const auto most = std::max_element(
      memory.begin(), memory.end(), [](const auto& one, const auto& other) {
        return one.total() < other.total();
      });
  std::string out = text(
      "model: ",
      plan.type,
      ", ",
      with_thousands(plan.count_parameters()),
      " parameters in ",
      plan.layers.size(),
      " layers\n",
      to_text(layout, costs),
      "batch: ",
      config.training.global_batch_size,
      " samples of ",
      config.training.seq_len,
      " tokens a step, ",
      with_thousands(config.training.global_batch_size * config.training.seq_len),
      " tokens; ",
      with_thousands(config.training.steps),
      " steps\n");
  out += text(
      "memory of pipeline rank ",
      most - memory.begin(),
      ", which needs most: ",
      memory_line(*most),
      "\n");
  out += text(
      "predicted bubble: ",
      tenths(100 * predict_bubble(layout, costs)),
      " % of a step",
      is_measured(config) ? "; the schedule will be chosen when costs were measured"
                          : "",
      "\n");
  return out;
}

}  // namespace trireme::train
