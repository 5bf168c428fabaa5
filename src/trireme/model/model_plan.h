// A model before it exists: names, shapes and costs, without a tensor. The module's
// main type.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "trireme/pipe/layers.h"

namespace trireme::model {

/// How a parameter begins when it is not read from a file.
struct InitialValue {
  enum class Kind : uint8_t { Zeros, Ones, Normal };
  Kind kind = Kind::Zeros;
  /// Of Normal, around 0.
  double stddev = 0;
};

/// One parameter, by its name in the whole model and in Hugging Face's files.
struct ParameterPlan {
  std::string name;
  std::vector<int64_t> sizes;
  InitialValue initial{};
  int64_t numel() const;
};

/// What layers are built with; the same on all ranks.
struct BuildOptions {
  /// Of the first values: each parameter has a generator of its own, which follows from
  /// this and its name, so that every layout begins with the same model.
  uint64_t seed = 0;
  at::ScalarType dtype = at::ScalarType::Float;
  /// Every probability of dropout; none: as the model's config says.
  std::optional<double> dropout{};
  /// Blocks keep their inputs only, and are computed again in backward.
  bool checkpoint = false;
  /// Off: all parameters are 0, for those who load weights next.
  bool initialise = true;
};

class SharedParameters;

/// What a layer computes and keeps for one token, in numbers (not in bytes).
struct LayerWork {
  /// Floating-point operations of forward; a multiply-add is two. Backward has twice as
  /// many.
  double flops = 0;
  /// More of them for each token of the sequence: attention.
  double flops_per_position = 0;
  /// What forward keeps for backward.
  double kept = 0;
  /// More of it in float32, whatever the layer computes in: what the loss makes of the
  /// logits.
  double kept_float32 = 0;
  /// More of it for each token of the sequence where probabilities of attention are
  /// dropped: with this probability, unless BuildOptions has another one.
  double kept_per_position = 0;
  double dropout = 0;
  /// Whether BuildOptions::checkpoint is for this layer; its input is `input`.
  bool is_block = false;
  double input = 0;
};

/// One layer, which can be cut from its neighbours.
struct LayerPlan {
  std::string name;
  std::vector<ParameterPlan> parameters;
  LayerWork work;
  double output_elements_per_token = 0;
  /// Makes the layer, with `parameters` and no others.
  std::function<pipe::Layer(const BuildOptions&, SharedParameters&)> build;

  int64_t count_parameters() const;
  double forward_flops_per_token(int64_t sequence) const;
  /// While its microbatch waits for backward.
  double kept_bytes_per_token(int64_t sequence, const BuildOptions& options = {}) const;
};

/// How names in files of weights may differ from those of the plan.
struct FileNames {
  /// May be missing in front of all names ("transformer.").
  std::string prefix;
  /// Names with these ends are no parameters, and passed over: tables and masks.
  std::vector<std::string> ignored_ends;
};

/// A whole model. Costs nothing to make, however large the model is.
///
///     const ModelPlan plan = plan_gpt2({.n_embd = 256, .n_layer = 6, .n_head = 8});
///     plan.count_parameters();     // 17,867,008
///     build_stages(plan, {{0, 4}}, {.seed = 7});
struct ModelPlan {
  /// Its model_type, and its config.json, complete.
  std::string type;
  std::string config_json;
  int64_t vocab_size = 0;
  /// The longest sequence that it is made for.
  int64_t max_positions = 0;
  std::vector<LayerPlan> layers;
  /// Names of one and the same parameter; the first is the one that is saved.
  std::vector<std::vector<std::string>> tied{};
  /// Whether tied parameters that meet on a rank are one tensor there.
  bool shares_tied = true;
  FileNames file_names{};
  /// Whether there is nothing beyond: learned positions end, rotary ones go on.
  bool positions_end = true;
  /// Whether F and B of its layers may run at once; see StageModule::may_overlap().
  bool may_overlap = false;

  /// The most positions that it can run over; 0: any number.
  int64_t position_limit() const { return positions_end ? max_positions : 0; }
  /// Each tied parameter counts once.
  int64_t count_parameters() const;
};

}  // namespace trireme::model
