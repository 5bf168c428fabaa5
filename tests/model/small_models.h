// Models small enough for tests, and data for them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>

#include "trireme/core/error.h"
#include "trireme/model/gpt2_config.h"
#include "trireme/model/llama_config.h"
#include "trireme/model/model_plan.h"

namespace trireme::model {

inline Gpt2Config small_gpt2() {
  return {
      .vocab_size = 61,
      .n_positions = 32,
      .n_embd = 24,
      .n_layer = 2,
      .n_head = 3,
      .resid_pdrop = 0,
      .embd_pdrop = 0,
      .attn_pdrop = 0};
}

inline LlamaConfig small_llama() {
  return {
      .vocab_size = 61,
      .hidden_size = 24,
      .intermediate_size = 40,
      .num_hidden_layers = 2,
      .num_attention_heads = 6,
      .num_key_value_heads = 2,
      .max_position_embeddings = 32};
}

inline at::Tensor some_tokens(int64_t n, int64_t t, uint64_t seed = 1) {
  return at::randint(
      0, 61, {n, t}, at::detail::createCPUGenerator(seed), at::ScalarType::Long);
}

inline at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(
      logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}));
}

/// The names and sizes of all parameters, one a line: "lm_head.weight 61 24".
inline std::vector<std::string> outline(const ModelPlan& plan) {
  std::vector<std::string> lines;
  for (const LayerPlan& layer : plan.layers)
    for (const ParameterPlan& each : layer.parameters) {
      std::string line = each.name;
      for (const int64_t size : each.sizes)
        line += text(" ", size);
      lines.push_back(line);
    }
  return lines;
}

}  // namespace trireme::model
