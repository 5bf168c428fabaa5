#include "trireme/model/gpt2.h"

#include <cmath>
#include <tuple>

#include <ATen/ops/layer_norm.h>

#include "trireme/autograd/dropout.h"
#include "trireme/autograd/linear.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/model/activation.h"
#include "trireme/model/attention.h"
#include "trireme/model/layer_cache.h"
#include "trireme/model/planned_module.h"
#include "trireme/model/tokens.h"

namespace trireme::model {
namespace {

using Parts = PlannedModule::Parts;
constexpr const char* kWte = "transformer.wte.weight";
constexpr const char* kHead = "lm_head.weight";

// Weights of Hugging Face's Conv1D are [in, out].
at::Tensor project(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return autograd::linear(x, weight, bias, autograd::WeightOrder::InOut);
}

struct Norm {
  at::Tensor weight, bias;
  double epsilon;
  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
  }
};

class Embeddings : public PlannedModule, public CachedLayer {
 public:
  Embeddings(
      const Gpt2Config& config,
      const Parts& parts,
      const BuildOptions& options,
      SharedParameters& shared)
      : PlannedModule(parts, options, shared),
        tokens_(parameter("wte.weight")),
        positions_(parameter("wpe.weight")),
        dropout_(options.dropout.value_or(config.embd_pdrop)),
        key_(autograd::layer_key("transformer.drop")) {}

  at::Tensor forward(const at::Tensor& ids) { return embed(ids, 0); }
  at::Tensor decode(const at::Tensor& ids, LayerCache& cache) override {
    at::Tensor x = embed(ids, cache.length);
    cache.length += ids.size(1);
    return x;
  }

 private:
  at::Tensor embed(const at::Tensor& ids, int64_t past) {
    check_tokens(ids);
    check_positions(past + ids.size(1), positions_.size(0), "n_positions");
    const at::Tensor x =
        look_up(tokens_, ids) + positions_.narrow(0, past, ids.size(1));
    return autograd::dropout(x, dropout_, key_, is_training());
  }
  at::Tensor tokens_, positions_;
  double dropout_;
  uint64_t key_;
};

class Block : public PlannedModule, public CachedLayer {
 public:
  Block(
      const Gpt2Config& config,
      int64_t index,
      const Parts& parts,
      const BuildOptions& options,
      SharedParameters& shared)
      : PlannedModule(parts, options, shared),
        heads_(config.n_head),
        activation_(*find_activation(config.activation_function)),
        scale_(scale_of(config, index)),
        attention_dropout_(options.dropout.value_or(config.attn_pdrop)),
        dropout_(options.dropout.value_or(config.resid_pdrop)),
        attention_key_(autograd::layer_key(text(parts.layer, ".attn.attn_dropout"))),
        projection_key_(autograd::layer_key(text(parts.layer, ".attn.resid_dropout"))),
        mlp_key_(autograd::layer_key(text(parts.layer, ".mlp.dropout"))),
        norm_1_(norm("ln_1", config)),
        norm_2_(norm("ln_2", config)),
        attend_(parameter("attn.c_attn.weight")),
        attend_bias_(parameter("attn.c_attn.bias")),
        project_(parameter("attn.c_proj.weight")),
        project_bias_(parameter("attn.c_proj.bias")),
        widen_(parameter("mlp.c_fc.weight")),
        widen_bias_(parameter("mlp.c_fc.bias")),
        narrow_(parameter("mlp.c_proj.weight")),
        narrow_bias_(parameter("mlp.c_proj.bias")) {}

  at::Tensor forward(const at::Tensor& x) { return run(x, nullptr); }
  at::Tensor decode(const at::Tensor& x, LayerCache& cache) override {
    return run(x, &cache);
  }

 private:
  static double scale_of(const Gpt2Config& config, int64_t index) {
    const auto size = static_cast<double>(config.n_embd / config.n_head);
    const double scale = config.scale_attn_weights ? 1 / std::sqrt(size) : 1;
    return config.scale_attn_by_inverse_layer_idx
               ? scale / static_cast<double>(index + 1)
               : scale;
  }
  Norm norm(const std::string& name, const Gpt2Config& config) const {
    return {
        parameter(text(name, ".weight")),
        parameter(text(name, ".bias")),
        config.layer_norm_epsilon};
  }

  at::Tensor run(const at::Tensor& input, LayerCache* cache) {
    const at::Tensor x = input + attend(norm_1_(input), cache);
    const at::Tensor wide =
        activate(project(norm_2_(x), widen_, widen_bias_), activation_);
    return x +
           autograd::dropout(
               project(wide, narrow_, narrow_bias_), dropout_, mlp_key_, is_training());
  }

  at::Tensor attend(const at::Tensor& x, LayerCache* cache) {
    const auto n = x.size(0), t = x.size(1), width = x.size(2);
    // As this split goes back, the gradients are put together with one copy.
    const auto qkv = project(x, attend_, attend_bias_).split(width, 2);
    const auto of_heads = [&](size_t i) {
      return qkv[i].view({n, t, heads_, width / heads_}).transpose(1, 2);
    };
    at::Tensor keys = of_heads(1), values = of_heads(2);
    if (cache != nullptr)
      std::tie(keys, values) = cache->append(keys, values);
    const at::Tensor mixed = causal_attention(
        of_heads(0),
        keys,
        values,
        {.scale = scale_,
         .dropout = is_training() ? attention_dropout_ : 0,
         .layer = attention_key_});
    return autograd::dropout(
        project(mixed, project_, project_bias_),
        dropout_,
        projection_key_,
        is_training());
  }

  int64_t heads_;
  Activation activation_;
  double scale_, attention_dropout_, dropout_;
  uint64_t attention_key_, projection_key_, mlp_key_;
  Norm norm_1_, norm_2_;
  at::Tensor attend_, attend_bias_, project_, project_bias_;
  at::Tensor widen_, widen_bias_, narrow_, narrow_bias_;
};

class FinalNorm : public PlannedModule, public CachedLayer {
 public:
  FinalNorm(
      double epsilon,
      const Parts& parts,
      const BuildOptions& options,
      SharedParameters& shared)
      : PlannedModule(parts, options, shared),
        norm_{parameter("weight"), parameter("bias"), epsilon} {}
  at::Tensor forward(const at::Tensor& x) { return norm_(x); }
  at::Tensor decode(const at::Tensor& x, LayerCache& /*cache*/) override {
    return forward(x);
  }

 private:
  Norm norm_;
};

// -- plans

LayerPlan plan_embeddings(const Gpt2Config& config) {
  LayerPlan plan{.name = "transformer"};
  const ParameterAdder add{plan, config.initializer_range};
  add.weight("wte", {config.vocab_size, config.n_embd});
  add.weight("wpe", {config.n_positions, config.n_embd});
  const auto width = static_cast<double>(config.n_embd);
  plan.work = {.flops = width, .kept = 1};
  plan.output_elements_per_token = width;
  build_as<Embeddings>(plan, config);
  return plan;
}

LayerWork work_of_block(const Gpt2Config& config, int64_t inner, double parameters) {
  const auto width = static_cast<double>(config.n_embd);
  const auto wide = static_cast<double>(inner);
  const bool keeps_input = config.activation_function != "relu";
  LayerWork work;
  work.flops = 2 * parameters;
  // Two products of queries or probabilities with half of all positions.
  work.flops_per_position = 2 * width;
  // Inputs of both norms and all projections; queries, keys and values.
  work.kept = 8 * width + (keeps_input ? 2 : 1) * wide;
  // Probabilities before and after dropout.
  work.kept_per_position = 2 * static_cast<double>(config.n_head);
  work.dropout = config.attn_pdrop;
  work.is_block = true;
  work.input = width;
  return work;
}

LayerPlan plan_block(const Gpt2Config& config, int64_t index) {
  LayerPlan plan{.name = text("transformer.h.", index)};
  const int64_t width = config.n_embd, inner = config.n_inner.value_or(4 * width);
  const ParameterAdder add{plan, config.initializer_range};
  // Two of them a layer add to the residual.
  const ParameterAdder add_back{
      plan, add.stddev / std::sqrt(2.0 * static_cast<double>(config.n_layer))};
  const auto project =
      [](const ParameterAdder& to, const char* name, int64_t in, int64_t out) {
        to.weight(name, {in, out});
        to.bias(name, out);
      };
  add.norm("ln_1", width, /*has_bias=*/true);
  project(add, "attn.c_attn", width, 3 * width);
  project(add_back, "attn.c_proj", width, width);
  add.norm("ln_2", width, /*has_bias=*/true);
  project(add, "mlp.c_fc", width, inner);
  project(add_back, "mlp.c_proj", inner, width);
  plan.work =
      work_of_block(config, inner, static_cast<double>(plan.count_parameters()));
  plan.output_elements_per_token = static_cast<double>(width);
  build_as<Block>(plan, config, index);
  return plan;
}

LayerPlan plan_final_norm(const Gpt2Config& config) {
  LayerPlan plan{.name = "transformer.ln_f"};
  ParameterAdder{plan, 0}.norm("", config.n_embd, /*has_bias=*/true);
  const auto width = static_cast<double>(config.n_embd);
  plan.work = {.flops = 8 * width, .kept = width};
  plan.output_elements_per_token = width;
  build_as<FinalNorm>(plan, config.layer_norm_epsilon);
  return plan;
}

}  // namespace

ModelPlan plan_gpt2(const Gpt2Config& config) {
  check(config);
  ModelPlan plan{
      .type = "gpt2",
      .config_json = to_json(config),
      .vocab_size = config.vocab_size,
      .max_positions = config.n_positions,
      .may_overlap = true};
  plan.layers.push_back(plan_embeddings(config));
  for (int64_t i = 0; i < config.n_layer; ++i)
    plan.layers.push_back(plan_block(config, i));
  plan.layers.push_back(plan_final_norm(config));
  plan.layers.push_back(
      plan_head(config.vocab_size, config.n_embd, config.initializer_range));
  if (config.tie_word_embeddings)
    plan.tied = {{kWte, kHead}};
  plan.file_names = {
      .prefix = "transformer.", .ignored_ends = {".attn.bias", ".attn.masked_bias"}};
  return plan;
}

}  // namespace trireme::model
