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
          "\": expected one tensor, got ",
          inputs.size(),
          "; make it a function of Tensors, or return one tensor from what is before"));
    return {forward(inputs[0])};
  };
  return {std::move(name), std::move(all), std::move(module)};
}

void check_layers(const LayerList& layers) {
  if (layers.empty())
    throw InvalidArgument("[pipe] expected at least one layer, got none; add one");
  std::set<std::string> names;
  for (const Layer& each : layers) {
    if (!each.forward)
      throw InvalidArgument(text(
          "[pipe] expected a function for layer \"",
          each.name,
          "\", got none; set Layer::forward"));
    if (each.name.empty() && layers.size() > 1)
      throw InvalidArgument(text(
          "[pipe] expected a name for each of ",
          layers.size(),
          " layers, got an empty one; its tensors could not be told from others"));
    if (!names.insert(each.name).second)
      throw InvalidArgument(text(
          "[pipe] expected layers with names of their own, got \"",
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

Layer saving(Layer layer, std::string name, size_t output) {
  layer.saves.push_back({std::move(name), output});
  return layer;
}

Layer taking(Layer layer, std::vector<std::string> names) {
  for (std::string& name : names)
    layer.takes.push_back(std::move(name));
  return layer;
}

void check_skips(const LayerList& layers) {
  std::set<std::string> saved, taken;
  for (const Layer& each : layers) {
    for (const std::string& name : each.takes) {
      if (!saved.contains(name))
        throw InvalidArgument(text(
            "[pipe] expected a layer before \"",
            each.name,
            "\" to save \"",
            name,
            "\", which it takes, got none; see saving()"));
      taken.insert(name);
    }
    for (const Layer::Saved& one : each.saves)
      if (!saved.insert(one.name).second)
        throw InvalidArgument(text(
            "[pipe] expected each skip to be saved once, got \"",
            one.name,
            "\" again from layer \"",
            each.name,
            "\"; rename one"));
  }
  for (const std::string& name : saved)
    if (!taken.contains(name))
      throw InvalidArgument(text(
          "[pipe] expected a layer that takes \"",
          name,
          "\", got none; see taking(), or do not save it"));
}

std::vector<std::string> saved_skips(const LayerList& layers) {
  std::vector<std::string> names;
  for (const Layer& each : layers)
    for (const Layer::Saved& one : each.saves)
      names.push_back(one.name);
  return names;
}

std::vector<std::string> taken_skips(const LayerList& layers) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const Layer& each : layers) {
    for (const std::string& name : each.takes)
      if (known.insert(name).second)
        names.push_back(name);
    for (const Layer::Saved& one : each.saves)
      known.insert(one.name);
  }
  return names;
}

namespace {

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? tensor._version() : 0;
}

}  // namespace

void NamedSkips::save(const std::string& name, const at::Tensor& tensor) {
  saved_[name] = {tensor, version_of(tensor)};
}

const at::Tensor* NamedSkips::find(const std::string& name) const {
  const auto found = saved_.find(name);
  if (found == saved_.end())
    return nullptr;
  const Saved& one = found->second;
  if (version_of(one.tensor) != one.version)
    throw InvalidArgument(text(
        "[pipe] expected what is saved as \"",
        name,
        "\" to stay as it is, got a layer that changed it in place; let that layer "
        "work "
        "on a copy, or save what it gives"));
  return &one.tensor;
}

Tensors run_layer(const Layer& layer, Tensors inputs, NamedSkips& skips) {
  for (const std::string& name : layer.takes) {
    const at::Tensor* found = skips.find(name);
    if (found == nullptr)
      throw InvalidArgument(text(
          "[pipe] expected \"",
          name,
          "\" to be saved before layer \"",
          layer.name,
          "\", which takes it, got nothing of that name; see saving()"));
    inputs.push_back(*found);
  }
  Tensors outputs = layer.forward(inputs);
  for (const Layer::Saved& one : layer.saves) {
    if (one.output >= outputs.size())
      throw InvalidArgument(text(
          "[pipe] expected layer \"",
          layer.name,
          "\" to have an output ",
          one.output,
          ", which it saves as \"",
          one.name,
          "\", got ",
          outputs.size(),
          " outputs; correct the number"));
    skips.save(one.name, outputs[one.output]);
  }
  return outputs;
}

Tensors run_layers(const LayerList& layers, const Tensors& inputs) {
  NamedSkips skips;
  Tensors tensors = inputs;
  for (const Layer& each : layers)
    tensors = run_layer(each, std::move(tensors), skips);
  return tensors;
}

}  // namespace trireme::pipe
