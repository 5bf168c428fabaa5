// GPT-2 as a list of layers.
#pragma once
#include "trireme/model/gpt2_config.h"
#include "trireme/model/model_plan.h"

namespace trireme::model {

/// The layers "transformer" (embeddings), "transformer.h.0" and so on,
/// "transformer.ln_f" and "lm_head"; int64 tokens [n, t] in, logits [n, t, vocab_size]
/// out. Parameters are named and shaped as in Hugging Face's files. First values:
/// normal with initializer_range, the projections back to the residual divided by √(2
/// n_layer).
ModelPlan plan_gpt2(const Gpt2Config& config);

}  // namespace trireme::model
