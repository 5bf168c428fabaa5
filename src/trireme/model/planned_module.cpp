#include "trireme/model/planned_module.h"

#include <c10/core/GradMode.h>

#include "trireme/autograd/checkpoint.h"
#include "trireme/core/error.h"
#include "trireme/model/shared_parameters.h"

namespace trireme::model {

PlannedModule::PlannedModule(
    const Parts& parts, const BuildOptions& options, SharedParameters& shared) {
  const std::string prefix = text(parts.layer, ".");
  for (const ParameterPlan& plan : parts.parameters) {
    TRIREME_ASSERT(plan.name.starts_with(prefix));
    add(plan.name.substr(prefix.size()), shared.make(plan, options));
  }
}

void PlannedModule::add(const std::string& path, const at::Tensor& value) {
  torch::nn::Module* at = this;
  size_t begin = 0;
  for (size_t dot; (dot = path.find('.', begin)) != std::string::npos;
       begin = dot + 1) {
    const std::string child = path.substr(begin, dot - begin);
    // named_children() copies; but this is while building only.
    const auto children = at->named_children();
    if (const auto* found = children.find(child); found != nullptr)
      at = found->get();
    else
      at = at->register_module(child, std::make_shared<torch::nn::Module>()).get();
  }
  at->register_parameter(path.substr(begin), value);
}

at::Tensor PlannedModule::parameter(const std::string& name) const {
  const auto all = named_parameters();
  const at::Tensor* found = all.find(name);
  return found == nullptr ? at::Tensor() : *found;
}

void ParameterAdder::weight(const std::string& name, std::vector<int64_t> sizes) const {
  plan.parameters.push_back(
      {text(plan.name, ".", name, ".weight"),
       std::move(sizes),
       {InitialValue::Kind::Normal, stddev}});
}

void ParameterAdder::bias(const std::string& name, int64_t size) const {
  plan.parameters.push_back({text(plan.name, ".", name, ".bias"), {size}, {}});
}

void ParameterAdder::norm(const std::string& name, int64_t size, bool has_bias) const {
  const std::string path = name.empty() ? plan.name : text(plan.name, ".", name);
  plan.parameters.push_back(
      {text(path, ".weight"), {size}, {InitialValue::Kind::Ones, 0}});
  if (has_bias)
    plan.parameters.push_back({text(path, ".bias"), {size}, {}});
}

pipe::Layer checkpointed(pipe::Layer layer) {
  layer.forward = [forward = std::move(layer.forward)](const pipe::Tensors& inputs) {
    return c10::GradMode::is_enabled() ? autograd::checkpoint(forward, inputs)
                                       : forward(inputs);
  };
  return layer;
}

}  // namespace trireme::model
