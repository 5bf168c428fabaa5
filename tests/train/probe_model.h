// A tiny model of one's own that tests can look into, and spoil.
#pragma once
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "tiny_job.h"
#include "trireme/model/custom_plan.h"
#include "trireme/model/registry.h"

namespace trireme::train {

inline constexpr int kProbeVocabulary = 256, kProbeWidth = 8;

/// What its middle layer multiplies by: NaN spoils the steps that follow.
inline std::atomic<double> probe_factor{1};
/// How often layers were built with drawn weights, and how often without.
inline std::atomic<int> probe_drawn{0};
inline std::atomic<int> probe_empty{0};

inline pipe::Layer probe_layer(const model::BuildOptions& options, pipe::Layer layer) {
  if (options.seed != 0)  // not for the plan alone
    ++(options.initialise ? probe_drawn : probe_empty);
  return layer;
}

inline model::ModelPlan plan_probe(const std::string& config) {
  return model::plan_of_layers(
      {.type = "probe",
       .config_json = config,
       .vocab_size = kProbeVocabulary,
       .max_positions = 16,
       .layers = {
           {"embed",
            [](const model::BuildOptions& options) {
              return probe_layer(
                  options,
                  pipe::layer("", torch::nn::Embedding(kProbeVocabulary, kProbeWidth)));
            }},
           {"scale",
            [](const model::BuildOptions&) {
              return pipe::layer(
                  "", [](const at::Tensor& x) { return x * probe_factor.load(); });
            }},
           {"head", [](const model::BuildOptions& options) {
              return probe_layer(
                  options,
                  pipe::layer("", torch::nn::Linear(kProbeWidth, kProbeVocabulary)));
            }}}});
}

/// A job of it, with fresh counters.
inline Config probe_config(const testing::ScratchFolder& folder) {
  static const bool once = [] {
    model::register_model("probe", plan_probe);
    return true;
  }();
  static_cast<void>(once);
  probe_factor = 1;
  probe_drawn = 0;
  probe_empty = 0;
  Config config = tiny_config(folder);
  config.model = {.name = "probe"};
  return config;
}

/// For TrainerOptions::should_stop: the model's factor becomes NaN after `after` steps,
/// and 1 again `count` steps later. All ranks ask once a step.
inline std::function<bool()> spoil(int ranks, int after, int count) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  return [asked, ranks, after, count] {
    const int calls = ++*asked;
    if (calls == ranks * after)
      probe_factor = std::numeric_limits<double>::quiet_NaN();
    if (calls == ranks * (after + count))
      probe_factor = 1;
    return false;
  };
}

}  // namespace trireme::train
