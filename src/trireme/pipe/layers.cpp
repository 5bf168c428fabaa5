#include "trireme/pipe/layers.h"

#include <set>

#include <torch/nn/module.h>

#include "trireme/core/error.h"
#include "trireme/pipe/named_tensors.h"

namespace trireme::pipe {
namespace {

void add(
    NamedTensors& to,
    const std::string& layer,
    const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  for (const auto& item : tensors)
    to.emplace_back(join_name(layer, item.key()), item.value());
}

}  // namespace

Layer one_tensor_layer(
    std::string name,
    TensorFunction forward,
    std::shared_ptr<torch::nn::Module> module) {
  // check_layers() finds the function missing.
  if (!forward)
    return {std::move(name), nullptr, std::move(module)};
  auto all = [name, forward = std::move(forward)](const Tensors& inputs) -> Tensors {
    if (inputs.size() != 1)
      throw InvalidArgument(text(
          "[pipe] layer \"",
          name,
          "\" takes one tensor, got ",
          inputs.size(),
          "; make it a function of Tensors, or return one tensor from what is before"));
    return {forward(inputs[0])};
  };
  return {std::move(name), std::move(all), std::move(module)};
}

void check_layers(const LayerList& layers) {
  if (layers.empty())
    throw InvalidArgument("[pipe] wanted at least one layer, got none");
  std::set<std::string> names;
  for (const Layer& each : layers) {
    if (!each.forward)
      throw InvalidArgument(text(
          "[pipe] wanted a function for layer \"",
          each.name,
          "\", got none; set Layer::forward"));
    if (each.name.empty() && layers.size() > 1)
      throw InvalidArgument(text(
          "[pipe] wanted a name for each of ",
          layers.size(),
          " layers, got an empty one; its tensors could not be told from others"));
    if (!names.insert(each.name).second)
      throw InvalidArgument(text(
          "[pipe] wanted layers with names of their own, got \"",
          each.name,
          "\" twice; rename one"));
  }
}

NamedTensors parameters(const LayerList& layers) {
  NamedTensors all;
  for (const Layer& each : layers)
    if (each.module)
      add(all, each.name, each.module->named_parameters());
  return without_repeats(all);
}

NamedTensors buffers(const LayerList& layers) {
  NamedTensors all;
  for (const Layer& each : layers)
    if (each.module)
      add(all, each.name, each.module->named_buffers());
  return without_repeats(all);
}

int64_t count_parameters(const Layer& layer) {
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters({layer}))
    count += tensor.numel();
  return count;
}

Tensors run_layers(const LayerList& layers, const Tensors& inputs) {
  if (layers.empty())
    return inputs;
  Tensors tensors = layers[0].forward(inputs);
  for (size_t i = 1; i < layers.size(); ++i)
    tensors = layers[i].forward(tensors);
  return tensors;
}

}  // namespace trireme::pipe
