// Llama as a list of layers.
#pragma once
#include "trireme/model/llama_config.h"
#include "trireme/model/model_plan.h"

namespace trireme::model {

/// The layers "model.embed_tokens", "model.layers.0" and so on, "model.norm" and
/// "lm_head"; int64 tokens [n, t] in, logits [n, t, vocab_size] out. Parameters are
/// named and shaped as in Hugging Face's files. First values: normal with
/// initializer_range.
ModelPlan plan_llama(const LlamaConfig& config);

}  // namespace trireme::model
