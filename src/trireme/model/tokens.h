// Tokens in, logits out: the ends that all language models share.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "trireme/model/model_plan.h"

namespace trireme::model {

/// InvalidArgument unless these are whole numbers [n, t].
void check_tokens(const at::Tensor& ids);
/// InvalidArgument if a sequence is longer than the model can be; `key` is the one of
/// config.json that says so.
void check_positions(int64_t length, int64_t most, const char* key);
/// The rows of `weight`. InvalidArgument names a token that is out of range.
at::Tensor look_up(const at::Tensor& weight, const at::Tensor& ids);

/// The layer "lm_head": logits of all tokens, without a bias. Its work has what a loss
/// by cross entropy keeps of them, which is most of a small model's memory.
LayerPlan plan_head(int64_t vocab_size, int64_t width, double stddev);

}  // namespace trireme::model
