#include "models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "trireme/core/error.h"

namespace trireme::pipe {

Layer linear(const std::string& name, int64_t in, int64_t out) {
  return layer(name, torch::nn::Linear(in, out));
}

Layer batch_norm(const std::string& name, int64_t features) {
  return layer(name, torch::nn::BatchNorm1d(features));
}

Layer dropout(const std::string& name, double p) {
  return layer(name, torch::nn::Dropout(p));
}

Layer gelu(const std::string& name) {
  return layer(name, [](const at::Tensor& x) { return at::gelu(x); });
}

Layer shared(const std::string& name, const Layer& with) {
  return layer(name, with.forward, with.module);
}

LayerList mlp(int blocks, int64_t width) {
  LayerList layers;
  for (int i = 0; i < blocks; ++i) {
    layers.push_back(linear(text("fc", i), width, width));
    layers.push_back(gelu(text("gelu", i)));
  }
  return layers;
}

std::string outline(const std::vector<LayerList>& stages) {
  std::string out;
  for (const LayerList& stage : stages) {
    std::string names;
    for (const Layer& each : stage)
      names += text(names.empty() ? "" : " ", each.name);
    out += text(out.empty() ? "" : " | ", names);
  }
  return out;
}

at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed));
}

}  // namespace trireme::pipe
