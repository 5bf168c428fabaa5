#include "trireme/model/tokens.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding.h>

#include "trireme/autograd/linear.h"
#include "trireme/core/error.h"
#include "trireme/model/layer_cache.h"
#include "trireme/model/planned_module.h"

namespace trireme::model {
namespace {

class Head : public PlannedModule, public CachedLayer {
 public:
  Head(const Parts& parts, const BuildOptions& options, SharedParameters& shared)
      : PlannedModule(parts, options, shared), weight_(parameter("weight")) {}
  at::Tensor forward(const at::Tensor& x) { return autograd::linear(x, weight_); }
  at::Tensor decode(const at::Tensor& x, LayerCache& /*cache*/) override {
    return forward(x);
  }

 private:
  at::Tensor weight_;
};

}  // namespace

void check_tokens(const at::Tensor& ids) {
  if (!ids.defined() || ids.dim() != 2 ||
      (ids.scalar_type() != at::ScalarType::Long &&
       ids.scalar_type() != at::ScalarType::Int))
    throw InvalidArgument(text(
        "[model] expected tokens [sequences, length] of int64, got ",
        ids.defined() ? text(ids.scalar_type(), " ", ids.sizes()) : "none",
        "; convert or reshape them"));
}

void check_positions(int64_t length, int64_t most, const char* key) {
  if (length > most)
    throw InvalidArgument(text(
        "[model] expected sequences of at most ",
        most,
        " tokens (\"",
        key,
        "\"), got ",
        length,
        "; cut them, or take a model that was made for more"));
}

at::Tensor look_up(const at::Tensor& weight, const at::Tensor& ids) {
  // torch names neither the token nor the vocabulary.
  if (ids.is_cpu() && ids.numel() > 0) {
    const auto [least, most] = at::aminmax(ids);
    const auto low = least.item<int64_t>(), high = most.item<int64_t>();
    if (low < 0 || high >= weight.size(0))
      throw InvalidArgument(text(
          "[model] expected tokens in [0, ",
          weight.size(0),
          ") (\"vocab_size\"), got ",
          low < 0 ? low : high,
          "; is this the tokenizer of the model?"));
  }
  return at::embedding(weight, ids);
}

LayerPlan plan_head(int64_t vocab_size, int64_t width, double stddev) {
  LayerPlan plan{.name = "lm_head"};
  plan.parameters = {
      {"lm_head.weight", {vocab_size, width}, {InitialValue::Kind::Normal, stddev}}};
  const auto inputs = static_cast<double>(width);
  const auto outputs = static_cast<double>(vocab_size);
  // The loss keeps log probabilities; at the end of its backward there are gradients of
  // these and of the logits beside them. That is for one microbatch, as the last stage
  // has open under every schedule but GPipe.
  plan.work = {
      .flops = 2 * inputs * outputs, .kept = inputs, .kept_float32 = 3 * outputs};
  plan.output_elements_per_token = outputs;
  build_as<Head>(plan);
  return plan;
}

}  // namespace trireme::model
