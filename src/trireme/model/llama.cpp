#include "trireme/model/llama.h"

#include <cmath>
#include <tuple>

#include <ATen/ops/linalg_vecdot.h>
#include <ATen/ops/rsqrt.h>

#include "trireme/autograd/linear.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/model/activation.h"
#include "trireme/model/attention.h"
#include "trireme/model/layer_cache.h"
#include "trireme/model/planned_module.h"
#include "trireme/model/rope.h"
#include "trireme/model/tokens.h"

namespace trireme::model {
namespace {

using Parts = PlannedModule::Parts;
constexpr const char* kEmbed = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

// Squares are summed in fp32, and the weight multiplies what has been rounded, as
// transformers does.
struct Norm {
  at::Tensor weight;
  double epsilon;
  at::Tensor operator()(const at::Tensor& x) const {
    const at::Tensor wide = x.to(at::ScalarType::Float);
    const at::Tensor mean =
        at::linalg_vecdot(wide, wide).unsqueeze(-1) / static_cast<double>(x.size(-1));
    return weight * (wide * at::rsqrt(mean + epsilon)).to(x.scalar_type());
  }
};

struct Linear {
  at::Tensor weight, bias;
  at::Tensor operator()(const at::Tensor& x) const {
    return autograd::linear(x, weight, bias);
  }
};

class Embeddings : public PlannedModule, public CachedLayer {
 public:
  Embeddings(const Parts& parts, const BuildOptions& options, SharedParameters& shared)
      : PlannedModule(parts, options, shared), weight_(parameter("weight")) {}
  at::Tensor forward(const at::Tensor& ids) {
    check_tokens(ids);
    return look_up(weight_, ids);
  }
  at::Tensor decode(const at::Tensor& ids, LayerCache& /*cache*/) override {
    return forward(ids);
  }

 private:
  at::Tensor weight_;
};

class Block : public PlannedModule, public CachedLayer {
 public:
  Block(
      const LlamaConfig& config,
      std::shared_ptr<RopeTable> rope,
      const Parts& parts,
      const BuildOptions& options,
      SharedParameters& shared)
      : PlannedModule(parts, options, shared),
        rope_(std::move(rope)),
        size_(config.size_of_head()),
        activation_(*find_activation(config.hidden_act)),
        dropout_(options.dropout.value_or(config.attention_dropout)),
        key_(autograd::layer_key(text(parts.layer, ".self_attn.attention_dropout"))),
        norm_1_{parameter("input_layernorm.weight"), config.rms_norm_eps},
        norm_2_{parameter("post_attention_layernorm.weight"), config.rms_norm_eps},
        queries_(linear("self_attn.q_proj")),
        keys_(linear("self_attn.k_proj")),
        values_(linear("self_attn.v_proj")),
        output_(linear("self_attn.o_proj")),
        gate_(linear("mlp.gate_proj")),
        up_(linear("mlp.up_proj")),
        down_(linear("mlp.down_proj")) {}

  at::Tensor forward(const at::Tensor& x) { return run(x, nullptr); }
  at::Tensor decode(const at::Tensor& x, LayerCache& cache) override {
    return run(x, &cache);
  }

 private:
  Linear linear(const std::string& name) const {
    return {parameter(text(name, ".weight")), parameter(text(name, ".bias"))};
  }

  at::Tensor run(const at::Tensor& input, LayerCache* cache) {
    const at::Tensor x = input + attend(norm_1_(input), cache);
    const at::Tensor y = norm_2_(x);
    return x + down_(activate(gate_(y), activation_) * up_(y));
  }

  at::Tensor attend(const at::Tensor& x, LayerCache* cache) {
    const auto n = x.size(0), t = x.size(1);
    const auto of_heads = [&](const at::Tensor& y) {
      return y.view({n, t, -1, size_});
    };
    const RopeTable::Part angles =
        rope_->part(cache == nullptr ? 0 : cache->length, t, x);
    const at::Tensor queries = turn(of_heads(queries_(x)), angles).transpose(1, 2);
    at::Tensor keys = turn(of_heads(keys_(x)), angles).transpose(1, 2);
    at::Tensor values = of_heads(values_(x)).transpose(1, 2);
    if (cache != nullptr)
      std::tie(keys, values) = cache->append(keys, values);
    return output_(causal_attention(
        queries,
        keys,
        values,
        {.scale = 1 / std::sqrt(static_cast<double>(size_)),
         .dropout = is_training() ? dropout_ : 0,
         .layer = key_}));
  }

  std::shared_ptr<RopeTable> rope_;
  int64_t size_;
  Activation activation_;
  double dropout_;
  uint64_t key_;
  Norm norm_1_, norm_2_;
  Linear queries_, keys_, values_, output_, gate_, up_, down_;
};

class FinalNorm : public PlannedModule, public CachedLayer {
 public:
  FinalNorm(
      double epsilon,
      const Parts& parts,
      const BuildOptions& options,
      SharedParameters& shared)
      : PlannedModule(parts, options, shared), norm_{parameter("weight"), epsilon} {}
  at::Tensor forward(const at::Tensor& x) { return norm_(x); }
  at::Tensor decode(const at::Tensor& x, LayerCache& /*cache*/) override {
    return forward(x);
  }

 private:
  Norm norm_;
};

// -- plans

LayerPlan plan_embeddings(const LlamaConfig& config) {
  LayerPlan plan{.name = "model.embed_tokens"};
  plan.parameters = {
      {kEmbed,
       {config.vocab_size, config.hidden_size},
       {InitialValue::Kind::Normal, config.initializer_range}}};
  plan.work = {.flops = 0, .kept = 1};
  plan.output_elements_per_token = static_cast<double>(config.hidden_size);
  build_as<Embeddings>(plan);
  return plan;
}

LayerWork work_of_block(const LlamaConfig& config, double parameters) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.intermediate_size);
  const auto heads = static_cast<double>(config.num_attention_heads);
  const auto size = static_cast<double>(config.size_of_head());
  LayerWork work;
  work.flops = 2 * parameters;
  // Two products of queries or probabilities with half of all positions.
  work.flops_per_position = 2 * heads * size;
  // Each norm: its input, what it multiplies by the weight, and its output. Queries,
  // keys, values and what is mixed of them. Gate, before and after the activation; up;
  // and their product.
  work.kept = 6 * width + 2 * heads * size +
              2 * static_cast<double>(config.key_value_heads()) * size + 4 * inner;
  // Probabilities before and after dropout.
  work.kept_per_position = 2 * heads;
  work.dropout = config.attention_dropout;
  work.is_block = true;
  work.input = width;
  return work;
}

LayerPlan plan_block(
    const LlamaConfig& config, int64_t index, const std::shared_ptr<RopeTable>& rope) {
  LayerPlan plan{.name = text("model.layers.", index)};
  const int64_t width = config.hidden_size, inner = config.intermediate_size;
  const int64_t queries = config.num_attention_heads * config.size_of_head();
  const int64_t keys = config.key_value_heads() * config.size_of_head();
  const ParameterAdder add{plan, config.initializer_range};
  const auto linear = [&](const char* name, int64_t in, int64_t out, bool has_bias) {
    add.weight(name, {out, in});
    if (has_bias)
      add.bias(name, out);
  };
  linear("self_attn.q_proj", width, queries, config.attention_bias);
  linear("self_attn.k_proj", width, keys, config.attention_bias);
  linear("self_attn.v_proj", width, keys, config.attention_bias);
  linear("self_attn.o_proj", queries, width, config.attention_bias);
  linear("mlp.gate_proj", width, inner, config.mlp_bias);
  linear("mlp.up_proj", width, inner, config.mlp_bias);
  linear("mlp.down_proj", inner, width, config.mlp_bias);
  add.norm("input_layernorm", width, /*has_bias=*/false);
  add.norm("post_attention_layernorm", width, /*has_bias=*/false);
  plan.work = work_of_block(config, static_cast<double>(plan.count_parameters()));
  plan.output_elements_per_token = static_cast<double>(width);
  build_as<Block>(plan, config, rope);
  return plan;
}

LayerPlan plan_final_norm(const LlamaConfig& config) {
  LayerPlan plan{.name = "model.norm"};
  ParameterAdder{plan, 0}.norm("", config.hidden_size, /*has_bias=*/false);
  const auto width = static_cast<double>(config.hidden_size);
  plan.work = {.flops = 6 * width, .kept = 2 * width};
  plan.output_elements_per_token = width;
  build_as<FinalNorm>(plan, config.rms_norm_eps);
  return plan;
}

}  // namespace

ModelPlan plan_llama(const LlamaConfig& config) {
  check(config);
  ModelPlan plan{
      .type = "llama",
      .config_json = to_json(config),
      .vocab_size = config.vocab_size,
      .max_positions = config.max_position_embeddings,
      .may_overlap = true};
  const auto rope = std::make_shared<RopeTable>(config);
  plan.layers.push_back(plan_embeddings(config));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    plan.layers.push_back(plan_block(config, i, rope));
  plan.layers.push_back(plan_final_norm(config));
  plan.layers.push_back(
      plan_head(config.vocab_size, config.hidden_size, config.initializer_range));
  if (config.tie_word_embeddings)
    plan.tied = {{kEmbed, kHead}};
  plan.file_names = {.ignored_ends = {".rotary_emb.inv_freq"}};
  plan.positions_end = false;
  return plan;
}

}  // namespace trireme::model
