// Dropout as a module, for a Sequential.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "trireme/autograd/dropout.h"
#include "trireme/autograd/random_stream.h"

namespace trireme::autograd {

struct DropoutOptions {
  double p = 0.5;
  /// What its masks are drawn for; a name of its own for each layer of a model,
  /// whatever stage it is in.
  std::string layer;
  /// The dim of its inputs that the samples are in.
  int64_t sample_dim = 0;
};

/// dropout() with a name.
///
///     torch::nn::Sequential block(Linear(64, 64), Dropout({.p = 0.1, .layer =
///     "0.mlp"}));
class DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(DropoutOptions options)
      : options_(std::move(options)), key_(layer_key(options_.layer)) {}
  void reset() override {}
  at::Tensor forward(const at::Tensor& x) {
    return dropout(x, options_.p, key_, is_training(), options_.sample_dim);
  }
  const DropoutOptions& options() const { return options_; }

 private:
  DropoutOptions options_;
  uint64_t key_;
};
TORCH_MODULE(Dropout);

}  // namespace trireme::autograd
