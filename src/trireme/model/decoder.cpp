#include "trireme/model/decoder.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"

namespace trireme::model {

Decoder::Decoder(pipe::LayerList layers) : layers_(std::move(layers)) {
  const pipe::StagePtr stage = pipe::make_stage(layers_);
  // What this gives refers to the stage.
  restore_ = [stage, restore = stage->pause_training()] { restore(); };
  for (const pipe::Layer& layer : layers_)
    cached_.push_back(dynamic_cast<CachedLayer*>(layer.module.get()));
  caches_.resize(layers_.size());
  supports_cache_ = std::none_of(
      cached_.begin(), cached_.end(), [](const auto* each) { return each == nullptr; });
}

Decoder::~Decoder() {
  restore_();
}

void Decoder::reset() {
  for (LayerCache& cache : caches_)
    cache.length = 0;
  seen_ = at::Tensor();
  length_ = 0;
}

at::Tensor Decoder::decode(at::Tensor x) {
  try {
    for (size_t i = 0; i < cached_.size(); ++i)
      x = cached_[i]->decode(x, caches_[i]);
    return x;
  } catch (...) {
    // What the first layers have put into their caches goes again.
    for (LayerCache& cache : caches_)
      cache.length = std::min(cache.length, length_);
    throw;
  }
}

at::Tensor Decoder::step(const at::Tensor& ids_or_hidden) {
  if (!ids_or_hidden.defined() || ids_or_hidden.dim() < 2 ||
      ids_or_hidden.size(1) < 1 || (length_ > 0 && ids_or_hidden.size(0) != batch_))
    throw InvalidArgument(text(
        "[model] expected new positions [",
        length_ > 0 ? text(batch_) : "n",
        ", 1 or more, …], got ",
        ids_or_hidden.defined() ? text(ids_or_hidden.sizes()) : "none",
        "; call reset() before another batch"));
  const c10::AutoGradMode no_grad(false);
  const int64_t count = ids_or_hidden.size(1);
  at::Tensor x = ids_or_hidden;
  if (supports_cache_) {
    x = decode(x);
  } else {
    const at::Tensor all = seen_.defined() ? at::cat({seen_, x}, 1) : x;
    x = pipe::run_layers(layers_, {all}).at(0).narrow(1, length_, count);
    seen_ = all;
  }
  batch_ = ids_or_hidden.size(0);
  length_ += count;
  return x;
}

}  // namespace trireme::model
