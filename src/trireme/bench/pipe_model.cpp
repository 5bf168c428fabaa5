#include "trireme/bench/pipe_model.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"

namespace trireme::bench {
namespace {

using pipe::NamedTensors;
using pipe::Tensors;

class Weights {
 public:
  explicit Weights(int seed)
      : random_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  /// Uniform, as wide as a linear layer's; the name counts up.
  at::Tensor make(at::IntArrayRef sizes, int64_t inputs) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
    return add(at::empty(sizes).uniform_(-bound, bound, random_));
  }
  at::Tensor add(at::Tensor value) {
    value.set_requires_grad(true);
    named_.emplace_back(text("w", named_.size()), value);
    return value;
  }
  NamedTensors take() { return std::move(named_); }

 private:
  at::Generator random_;
  NamedTensors named_;
};

struct Linear {
  Linear(Weights& weights, int64_t in, int64_t out)
      : weight(weights.make({out, in}, in)), bias(weights.make({out}, in)) {}
  at::Tensor operator()(const at::Tensor& x) const {
    return at::linear(x, weight, bias);
  }
  at::Tensor weight;
  at::Tensor bias;
};

struct Norm {
  Norm(Weights& weights, int64_t size)
      : width(size),
        scale(weights.add(at::ones({size}))),
        shift(weights.add(at::zeros({size}))) {}
  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, {width}, scale, shift);
  }
  int64_t width;
  at::Tensor scale;
  at::Tensor shift;
};

struct Block {
  Block(Weights& weights, int64_t width)
      : heads(std::max<int64_t>(1, width / 64)),
        norm1(weights, width),
        qkv(weights, width, 3 * width),
        out(weights, width, width),
        norm2(weights, width),
        up(weights, width, 4 * width),
        down(weights, 4 * width, width) {}
  at::Tensor operator()(const at::Tensor& x) const {
    const int64_t rows = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = qkv(norm1(x))
                           .view({rows, length, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const at::Tensor mixed =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true)
            .transpose(1, 2)
            .reshape({rows, length, width});
    const at::Tensor y = x + out(mixed);
    return y + down(at::gelu(up(norm2(y))));
  }
  int64_t heads;
  Norm norm1;
  Linear qkv, out;
  Norm norm2;
  Linear up, down;
};

template <class Layer>
pipe::StagePtr stage_of(const Layer& layer, Weights& weights) {
  const pipe::StagePtr stage = pipe::make_stage(
      pipe::TensorsFunction(
          [layer](const Tensors& in) { return Tensors{layer(in[0])}; }),
      weights.take());
  stage->allow_overlap();
  return stage;
}

}  // namespace

pipe::StagePtr make_layer(const PipeModel& model, int number) {
  Weights weights(number + 1);
  if (model.layer == "block")
    return stage_of(Block(weights, model.width), weights);
  const Linear linear(weights, model.width, model.width);
  if (model.layer == "linear")
    return stage_of(linear, weights);
  if (model.layer != "norm")
    throw InvalidArgument(text(
        "[bench] expected a layer block, linear or norm, got ",
        model.layer,
        "; take one of them"));
  const Norm norm(weights, model.width);
  return stage_of(
      [linear, norm](const at::Tensor& x) { return at::gelu(norm(linear(x))); },
      weights);
}

pipe::StagePtr make_layers(const PipeModel& model, int first, int last) {
  std::vector<pipe::StagePtr> layers;
  NamedTensors parameters;
  for (int number = first; number < last; ++number) {
    layers.push_back(make_layer(model, number));
    for (auto& [name, tensor] : layers.back()->parameters())
      parameters.emplace_back(text(number, ".", name), tensor);
  }
  const pipe::StagePtr stage = pipe::make_stage(
      pipe::TensorsFunction([layers](const Tensors& in) {
        Tensors x = in;
        for (const auto& layer : layers)
          x = layer->forward(x);
        return x;
      }),
      parameters);
  stage->allow_overlap();
  return stage;
}

at::Tensor make_batch(const PipeModel& model, int seed) {
  return at::randn(
      {model.microbatches, model.sequence, model.width},
      at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor squared_error(const Tensors& outputs, const Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

}  // namespace trireme::bench
